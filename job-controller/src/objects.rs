//! Projections of Jobs, Pods, Workloads and `PodGroups`: structs with the fields that this program reads.

mod job;
mod pod;
mod policy;
mod scheduling;
mod status;

pub use job::{CompletionMode, JOBS, Job};
pub use pod::{
    COMPLETION_INDEX_ENV, CachedPod, FailurePolicyInput, JOB_COMPLETION_INDEX_ANNOTATION,
    JOB_INDEX_FAILURE_COUNT_ANNOTATION, JOB_INDEX_IGNORED_FAILURE_COUNT_ANNOTATION, JOB_TRACKING_FINALIZER,
};
pub use policy::{FailurePolicyAction, PodFailurePolicy, SuccessPolicy};
pub(crate) use scheduling::referenced_object_index_value;
pub use scheduling::{ByReferencedObject, POD_GROUPS, PodGroup, PodGroupTemplate, WORKLOADS, Workload};
pub use status::{JobStatus, UncountedTerminatedPods, condition_types};
