//! The Pods of a Job, and their counts at the beginning of a sync.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::end::JobEnd;
use crate::{
    indexes::CompletionIndexSet,
    jobs::snapshot::{FailureRecord, SharedPod},
};

/// A Pod that the Job controls, with facts that the cache may not show yet.
#[derive(Clone, Debug)]
pub struct ControlledPod {
    /// The Pod as cached; the cache may be stale.
    pub pod: SharedPod,
    /// Whether the Pod carries the tracking finalizer. True for a Pod that was just adopted, even if the cached Pod lacks it.
    pub has_tracking_finalizer: bool,
    /// Whether this process has removed the finalizer, although the cache still shows it.
    pub is_finalizer_removed_by_process: bool,
    /// The finish time, as in [`CachedPod::finished_at`](crate::objects::CachedPod::finished_at), but never in the future.
    pub finished_at: Timestamp,
}

impl ControlledPod {
    /// Whether the Pod still carries the finalizer. The result of such a Pod is not counted yet.
    pub fn still_has_finalizer(&self) -> bool {
        self.has_tracking_finalizer && !self.is_finalizer_removed_by_process
    }
}

/// The Pods of a Job, and their counts at the beginning of a sync.
#[derive(Clone, Debug)]
pub struct PodSummary {
    /// Pods that the Job already controls, and Pods that it adopts in this sync.
    pub pods: Vec<ControlledPod>,
    /// Pods that are neither finished nor terminating, as positions in `pods`.
    pub active_pod_positions: Vec<usize>,
    /// The number of active Pods that are ready.
    pub ready_pod_count: usize,
    /// The number of terminating Pods that have not finished.
    pub terminating_pod_count: usize,
    /// The number of succeeded Pods, including Pods not counted yet; for an Indexed Job, the number of succeeded indexes.
    pub success_count: usize,
    /// The number of failed Pods, including Pods not counted yet.
    pub failed_pod_count: usize,
    /// Indexes that have succeeded, including indexes that the status does not list yet; empty unless the Job is indexed.
    pub completed_index_set: CompletionIndexSet,
    /// Succeeded indexes that the stored status does not list.
    pub newly_completed_index_set: CompletionIndexSet,
    /// Indexes that have failed permanently; `None` without `spec.backoffLimitPerIndex`.
    pub failed_index_set: Option<CompletionIndexSet>,
    /// For each index that needs a new Pod: the position in `pods` of the failed Pod that passes on its failure counters.
    pub predecessor_position_by_index: BTreeMap<u32, usize>,
    /// Failures since the last success, including failures that this sync counts.
    pub failure_record: FailureRecord,
    /// The start time in the status, or else the time of this sync; `None` for a suspended Job without a start time.
    pub start_time: Option<Timestamp>,
    /// The end of the Job, by a rule such as the back-off limit; `None` if the Job continues, or completes by its successes.
    pub decided_job_end: Option<JobEnd>,
}

impl PodSummary {
    /// Whether the next Pod of the same index inherits the failure counters of the Pod at this position.
    pub fn is_predecessor_of_next_pod(&self, position: usize) -> bool {
        let index = self.pods[position].pod.completion_index;
        index.is_some_and(|index| self.predecessor_position_by_index.get(&index) == Some(&position))
    }
}
