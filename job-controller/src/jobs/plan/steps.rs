//! The values that a step of a sync passes to the next step. [`crate::jobs::decide`] lists the steps.

use std::collections::BTreeMap;

use common::{map::HashSet, meta::Uid};

use super::JobEnd;
use crate::objects::{FailurePolicyAction, JobStatus};

/// The counts of Pods that a sync has created and deleted, and the count of conflicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodWrites {
    /// The number of Pods that the sync deleted; some may still be terminating.
    pub deleted_pod_count: usize,
    /// The number of deleted Pods that were ready.
    pub deleted_ready_pod_count: usize,
    /// The number of create requests that succeeded.
    pub created_pod_count: usize,
    /// The number of requests that the server refused because the cached version of the Pod was stale.
    pub conflict_count: usize,
}

/// The Pod counts for the status, after the sync has created or deleted Pods.
#[derive(Clone, Debug)]
pub struct PodCountsAfterScaling {
    /// The number of Pods that are neither finished nor terminating.
    pub active_pod_count: usize,
    /// The number of active Pods that are ready.
    pub ready_pod_count: usize,
    /// The number of terminating Pods that have not finished.
    pub terminating_pod_count: usize,
    /// The end of the Job, if the status may announce it because no Pod is active any more; `None` otherwise.
    pub job_end_to_write: Option<JobEnd>,
}

/// The first status that a sync writes, and the finalizers to remove after this write.
#[derive(Clone, Debug)]
pub struct FirstStatusWrite {
    /// The status that lists newly finished Pods.
    pub status: JobStatus,
    /// Whether `status` differs from the stored status, so that the write is necessary.
    pub is_status_changed: bool,
    /// The Pods that lose their finalizers after the write, as positions in [`PodSummary::pods`](super::PodSummary::pods).
    pub pod_positions_to_remove_finalizer_from: Vec<usize>,
    /// UIDs of the Pods that carry the finalizer when the status is written.
    pub pod_uids_with_finalizer: HashSet<Uid>,
    /// Whether the sync has more Pods to count than one status may list.
    pub is_uid_list_full: bool,
    /// The number of failed Pods for each action of the failure policy.
    pub pod_counts_by_policy_action: BTreeMap<FailurePolicyAction, u64>,
    /// The change of the condition `Suspended`; `None` if the condition does not change.
    pub suspension_change: Option<SuspensionChange>,
}

/// The second status of a sync, after finalizers are removed, with the end of the Job if it can be written.
#[derive(Clone, Debug)]
pub struct SecondStatusWrite {
    /// The status that counts the Pods without finalizers.
    pub status: JobStatus,
    /// The reason to write the status; `None` if the status has not changed.
    pub write_reason: Option<String>,
    /// The end of the Job, if the status has the condition `Complete` or `Failed` for this end; `None` otherwise.
    pub job_end: Option<JobEnd>,
    /// A copy of the status with a start time, for servers that require it; `None` if `status` has a start time or no end.
    pub status_with_start_time: Option<JobStatus>,
    /// Whether the Job ends successfully with more succeeded Pods than `spec.completions`.
    pub has_too_many_successes: bool,
}

/// A change of `spec.suspend` that the stored status does not show yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspensionChange {
    /// `spec.suspend` has become true.
    Suspended,
    /// `spec.suspend` has become false.
    Resumed,
}

impl SuspensionChange {
    /// Returns the reason and the message of the Event about the change.
    pub fn event_reason_and_message(self) -> (&'static str, &'static str) {
        match self {
            Self::Suspended => ("Suspended", "Job suspended"),
            Self::Resumed => ("Resumed", "Job resumed"),
        }
    }
}
