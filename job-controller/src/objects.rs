//! Projections of Jobs, Pods, Workloads and `PodGroups`: structs with the fields that this program reads.

mod job;
mod pod;
mod policy;
mod scheduling;
mod status;

pub use job::{JOBS, Job, Mode};
pub use pod::{
    COMPLETION_INDEX, COMPLETION_INDEX_ENV, CachedPod, Evidence, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT,
    JOB_TRACKING,
};
pub use policy::{Action, FailurePolicy, SuccessPolicy};
pub(crate) use scheduling::named;
pub use scheduling::{ByReference, GroupTemplate, POD_GROUPS, PodGroup, WORKLOADS, Workload};
pub use status::{NamedPods, Status, kinds};
