//! The plan of one sync of a Job, with the reasons for its decisions.

mod end;
mod explain;
mod gang;
mod manage;
mod pod_summary;
mod steps;

use std::{fmt, sync::Arc, time::Duration};

use common::selector::SelectorError;

pub(crate) use self::explain::format_whole_seconds;
pub use self::{
    end::{JobEnd, JobResult},
    gang::{NoGangReason, PodScheduling},
    manage::{DeletionReason, IndexFailureCounts, NewPod, PodToDelete, ScalingDecision},
    pod_summary::{ControlledPod, PodSummary},
    steps::{FirstStatusWrite, PodCountsAfterScaling, PodWrites, SecondStatusWrite, SuspensionChange},
};
use super::snapshot::SharedPod;
use crate::objects::Job;

/// The decisions of one sync of a Job.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The cached Job from the snapshot.
    pub job: Arc<Job>,
    /// Pods that lose the tracking finalizer without being counted; empty unless the Job is terminating.
    pub uncounted_pods_to_remove_finalizer_from: Vec<SharedPod>,
    /// The plan to sync the Job, or the reason why the Job is not synced.
    pub sync_plan: Result<SyncPlan, SkipReason>,
}

/// The plan of a sync, on the assumption that every request succeeds.
#[derive(Clone, Debug)]
pub struct SyncPlan {
    /// The Job's Pods, and their counts before the sync.
    pub pod_summary: PodSummary,
    /// Whether new Pods are scheduled one by one or together as a gang.
    pub pod_scheduling: PodScheduling,
    /// The Pods to create or delete.
    pub scaling_decision: ScalingDecision,
    /// The Pod counts after the scaling decision has been applied.
    pub pod_counts_after_scaling: PodCountsAfterScaling,
    /// The first status that the sync writes, and the finalizers to remove after this write.
    pub first_status_write: FirstStatusWrite,
    /// The time after which the decision may change without an event; `None` if only an event can change it.
    pub requeue_after: Option<Duration>,
}

/// The reason why a Job is not synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The status has the condition `Complete` or `Failed`.
    Finished,
    /// Another controller manages the Job: the value of `spec.managedBy`.
    ManagedExternally(String),
    /// The value of `spec.completionMode` is unknown to this version.
    UnknownCompletionMode,
    /// The value of `spec.selector` is invalid, for this reason.
    InvalidSelector(SelectorError),
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("it has finished"),
            Self::ManagedExternally(by) => write!(f, "it is managed by {by}"),
            Self::UnknownCompletionMode => f.write_str("completion mode is unknown"),
            Self::InvalidSelector(problem) => write!(f, "{problem}"),
        }
    }
}
