//! Schemas of the Kubernetes 1.36 messages that projections read.
//!
//! Each schema lists every field of its message. A field that no projection reads is opaque, so that reading it is an error. An
//! unlisted field would be read as absent from every object.

mod meta;
mod network;
mod node;
mod pod;
mod workload;

pub use meta::{LIST_META, METADATA_ONLY_OBJECT, OBJECT_META, STATUS};
pub use network::{ENDPOINT_SLICE, ENDPOINTS, SERVICE};
pub use node::{LEASE, NODE};
pub use pod::POD;
pub use workload::{CONTROLLER_REVISION, JOB, PERSISTENT_VOLUME_CLAIM};
