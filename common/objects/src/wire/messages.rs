//! Schemas of the Kubernetes 1.36 messages that projections read and bodies contain.
//!
//! Each schema lists every field of its message, because an unlisted field would be read as absent from every object. Fields that
//! are neither read nor written are opaque: reading or writing them is an error.

mod container;
mod event;
mod meta;
mod network;
mod node;
mod pod;
mod policy;
mod volume;
mod workload;

pub use container::{CONTAINER, ENV_VAR};
pub use event::EVENT;
pub use meta::{DELETE_OPTIONS, LABEL_SELECTOR, LIST_META, METADATA_ONLY_OBJECT, OBJECT_META, STATUS};
pub use network::{ENDPOINT_SLICE, ENDPOINTS, SERVICE};
pub use node::{LEASE, NAMESPACE, NODE};
pub use pod::{AFFINITY, NODE_AFFINITY, POD, POD_SPEC, POD_TEMPLATE_SPEC, TOLERATION};
pub use policy::{POD_DISRUPTION_BUDGET, RESOURCE_QUOTA};
pub use volume::{PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME_CLAIM_TEMPLATE};
pub use workload::{
    CONTROLLER_REVISION, DAEMON_SET, DEPLOYMENT, JOB, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET,
};
