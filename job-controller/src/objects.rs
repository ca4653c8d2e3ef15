//! What is read of Jobs and Pods, and the names both sides of a hand-over know.

mod job;
mod pod;
mod policy;
mod scheduling;
mod status;

pub use job::{JOBS, Job, Mode};
pub use pod::{CachedPod, Evidence};
pub use policy::{Action, FailurePolicy, SuccessPolicy};
pub(crate) use scheduling::named;
pub use scheduling::{ByReference, GroupTemplate, POD_GROUPS, PodGroup, WORKLOADS, Workload};
pub use status::{Status, Uncounted, kinds};

/// The finalizer that keeps a Pod until its end has been counted.
pub const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Annotation and label of Pods of Indexed Jobs: which index a Pod works on.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Annotation: how often the Pod's index has failed before, failures that were ignored aside.
pub const INDEX_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";
/// Annotation: how many failures of the Pod's index were ignored.
pub const INDEX_IGNORED_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// The variable in which a container of an Indexed Job finds its index.
pub const COMPLETION_INDEX_ENV: &str = "JOB_COMPLETION_INDEX";
/// The value of `spec.managedBy` that means this controller.
pub const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";
