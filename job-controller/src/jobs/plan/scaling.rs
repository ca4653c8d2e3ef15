//! The decision which Pods to create or delete.

use std::{fmt, time::Duration};

use common::pod_creation_pauses::PodCreationPause;

use super::{ControlledPod, PodSummary, PodWrites};

/// The decision of one sync about the number of Pods.
#[derive(Clone, Debug)]
pub enum ScalingDecision {
    /// No Pod is missing, and no Pod is to be deleted.
    NoChange,
    /// Pods may be neither created nor deleted now, for this reason.
    NotAllowed(String),
    /// Pods are missing, and no Pods are created for a while.
    CreationPaused(PodCreationPause),
    /// The Job is terminating, so the garbage collector deletes its Pods.
    JobTerminating,
    /// The Job fails, so all active Pods are deleted and count as failed.
    DeleteAsFailed(Vec<PodToDelete>),
    /// The Job has succeeded, so all active Pods are deleted and do not count.
    ///
    /// The Pods lose their finalizers before they are deleted. If this process crashes between the two requests, the next
    /// leader does not count the Pods as failed. Upstream deletes the Pods first.
    DeleteUncounted(Vec<PodToDelete>),
    /// The Job is suspended, so all active Pods are deleted and do not count.
    DeleteSuspended(Vec<PodToDelete>),
    /// The Job has too many Pods, or Pods with an invalid or duplicate index. These Pods are deleted and do not count.
    ScaleDown(Vec<PodToDelete>),
    /// Pods are missing, and some of them can be created now.
    Create {
        /// The Pods to create now, at most one batch.
        pods: Vec<NewPod>,
        /// The number of missing Pods, which may exceed one batch.
        missing_pods: usize,
        /// The shortest remaining back-off of an index that needs a Pod; `None` if no index is in back-off.
        remaining_backoff: Option<Duration>,
    },
    /// Pods are missing, and no index is left for them, because some indexes have failed permanently.
    NoIndexLeft {
        /// The wanted number of active Pods minus the number of active Pods.
        missing_pods: usize,
    },
    /// Pods are missing, and the back-off after a failure has not ended yet.
    PostponeCreate {
        /// The number of Pods to create after the back-off, which may exceed one batch.
        missing_pods: usize,
        /// The remaining back-off, at least the debounce period.
        remaining_backoff: Duration,
    },
}

/// A Pod that the sync deletes, as a position, with the reason for the deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodToDelete {
    /// The position in [`PodSummary::pods`].
    pub pod_position: usize,
    /// The reason for the deletion, which `/debug/explain` shows.
    pub deletion_reason: DeletionReason,
}

/// The reason why a Pod is deleted, as `/debug/explain` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionReason {
    /// The Job has succeeded or failed.
    JobEnds,
    /// `spec.suspend` of the Job is true.
    JobSuspended,
    /// The Pod has no valid index of the Job.
    InvalidIndex,
    /// Another Pod has the same index.
    DuplicateIndex,
    /// More Pods are active than wanted.
    TooManyPods,
}

/// A Pod that the sync creates: the values that differ between the Pods of a Job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewPod {
    /// The completion index; `None` for a Job that is not indexed.
    pub completion_index: Option<u32>,
    /// The counts of failures of the index before this Pod; `None` without `spec.backoffLimitPerIndex`.
    pub index_failure_counts: Option<IndexFailureCounts>,
}

/// The counts of failures of an index before its new Pod, which this Pod carries in annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexFailureCounts {
    /// Failures that count towards `spec.backoffLimitPerIndex`.
    pub failure_count: u32,
    /// Failures that `spec.podFailurePolicy` ignored.
    pub ignored_failure_count: u32,
}

impl ScalingDecision {
    /// Whether the sync brings the number of Pods to the wanted number. False if the Job ends or is terminating, or if
    /// Pods may be neither created nor deleted now.
    pub fn adjusts_pod_count(&self) -> bool {
        !matches!(
            self,
            Self::DeleteAsFailed(_)
                | Self::DeleteUncounted(_)
                | Self::NotAllowed(_)
                | Self::CreationPaused(_)
                | Self::JobTerminating
        )
    }

    /// Whether a Pod carries the finalizer, and this decision deletes Pods without counting them.
    pub fn removes_finalizer_before_deletion(&self, controlled_pod: &ControlledPod) -> bool {
        controlled_pod.has_tracking_finalizer
            && matches!(self, Self::DeleteUncounted(_) | Self::DeleteSuspended(_) | Self::ScaleDown(_))
    }

    /// Returns the Pods to delete; empty if the sync deletes none.
    pub fn pods_to_delete(&self) -> &[PodToDelete] {
        match self {
            Self::DeleteAsFailed(pods_to_delete)
            | Self::DeleteUncounted(pods_to_delete)
            | Self::DeleteSuspended(pods_to_delete)
            | Self::ScaleDown(pods_to_delete) => pods_to_delete,
            _ => &[],
        }
    }

    /// Returns the counts of created and deleted Pods, on the assumption that every request succeeds.
    pub fn expected_pod_writes(&self, pod_summary: &PodSummary) -> PodWrites {
        let pods_to_delete = self.pods_to_delete();
        let is_ready = |pod: &&PodToDelete| pod_summary.pods[pod.pod_position].pod.is_ready();
        PodWrites {
            created_pod_count: if let Self::Create { pods, .. } = self { pods.len() } else { 0 },
            deleted_pod_count: pods_to_delete.len(),
            deleted_ready_pod_count: pods_to_delete.iter().filter(is_ready).count(),
            conflict_count: 0,
        }
    }

    /// Returns the value of the metric label `action`.
    pub fn metric_action_label(&self) -> &'static str {
        match self {
            _ if !self.adjusts_pod_count() => "reconciling",
            Self::NoChange => "tracking",
            Self::DeleteSuspended(_) | Self::ScaleDown(_) => "pods_deleted",
            _ => "pods_created",
        }
    }
}

impl fmt::Display for DeletionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::JobEnds => "the Job ends",
            Self::JobSuspended => "the Job is suspended",
            Self::InvalidIndex => "it has no valid index of this Job",
            Self::DuplicateIndex => "another Pod has the same index",
            Self::TooManyPods => "there are too many Pods",
        })
    }
}
