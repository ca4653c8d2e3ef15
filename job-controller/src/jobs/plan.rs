//! The plan of one sync of a Job, with the reasons for its decisions.

mod explain;
mod scaling;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use common::{prelude::*, selector::SelectorError};
use jiff::Timestamp;

pub(crate) use self::explain::format_whole_seconds;
pub use self::scaling::{DeletionReason, IndexFailureCounts, NewPod, PodToDelete, ScalingDecision};
use super::snapshot::{FailureRecord, SharedPod};
use crate::{
    indexes::CompletionIndexSet,
    objects::{FailurePolicyAction, Job, JobStatus, Workload, condition_types},
};

/// The decisions of one sync of a Job.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The cached Job from the snapshot.
    pub job: Arc<Job>,
    /// Pods that lose the tracking finalizer without being counted; empty unless the Job is terminating.
    pub uncounted_pods_to_remove_finalizer_from: Vec<SharedPod>,
    /// The plan to sync the Job, or the reason why the Job is not synced.
    pub sync_plan: Result<JobSyncPlan, SkipReason>,
}

/// The plan of a sync, on the assumption that every request succeeds.
#[derive(Clone, Debug)]
pub struct JobSyncPlan {
    /// The Job's Pods, and their counts before the sync.
    pub pod_summary: PodSummary,
    /// Whether new Pods are scheduled one by one or together as a gang.
    pub pod_scheduling: PodScheduling,
    /// The Pods to create or delete.
    pub scaling_decision: ScalingDecision,
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

/// Whether the Pods of a Job are scheduled together, and in which `PodGroup`.
#[derive(Clone, Debug)]
pub enum PodScheduling {
    /// The Pods are scheduled one by one. The reason is `None` for a Job that cannot be a gang.
    OneByOne(Option<NoGangReason>),
    /// The Pods are scheduled together, in the existing `PodGroup` with this name.
    InPodGroup(Text),
    /// The Pods are scheduled together, in a `PodGroup` that must be created for this Workload.
    CreatePodGroup(Arc<Workload>),
    /// The Pods are scheduled together. The Workload and the `PodGroup` must be created.
    CreateWorkloadAndPodGroup,
}

/// The reason why the Pods of a Job that could be a gang are scheduled one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoGangReason {
    /// The Job was started without a Workload.
    StartedWithoutWorkload,
    /// More than one Workload refers to the Job: the count of these Workloads.
    SeveralWorkloads(usize),
    /// The Job does not control the existing object with this kind and name.
    NotControlledByJob(&'static str, Text),
    /// The Workload with this name has no template or several templates: the count of templates.
    UnexpectedTemplateCount(Text, usize),
    /// More than one `PodGroup` refers to the Workload with this name: the count of these `PodGroups`.
    SeveralPodGroups(Text, usize),
}

impl fmt::Display for NoGangReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StartedWithoutWorkload => f.write_str("no Workload refers to the Job, and it has been started"),
            Self::SeveralWorkloads(count) => write!(f, "{count} Workloads refer to the Job"),
            Self::NotControlledByJob(kind, name) => write!(f, "{kind} {name} is not controlled by the Job"),
            Self::UnexpectedTemplateCount(name, count) => {
                write!(f, "Workload {name} has {count} podGroupTemplates, not one")
            }
            Self::SeveralPodGroups(name, count) => write!(f, "{count} PodGroups refer to Workload {name}"),
        }
    }
}

/// The final condition of a Job: `Complete` or `Failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobResult {
    /// The Job ends with the condition `Complete`.
    Success,
    /// The Job ends with the condition `Failed`.
    Failure,
}

/// The decision that a Job ends, with the reason and message for its conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// The success or failure of the Job, which determines the types of the conditions.
    pub job_result: JobResult,
    /// The reason of the condition, as upstream writes it.
    pub reason: Text,
    /// The message of the condition, as upstream writes it.
    pub message: Box<str>,
    /// Whether this sync decides the end. False if the stored status already announces the end.
    pub is_newly_decided: bool,
}

impl JobEnd {
    pub(crate) fn new(job_result: JobResult, reason: &str, message: &str) -> Self {
        Self { job_result, reason: Text::new(reason), message: message.into(), is_newly_decided: true }
    }

    pub(crate) fn for_failure(reason: &str, message: &str) -> Self {
        Self::new(JobResult::Failure, reason, message)
    }

    /// Returns the type of the condition that announces the end before all Pods are counted.
    pub fn interim_condition_type(&self) -> &'static str {
        match self.job_result {
            JobResult::Success => condition_types::SUCCESS_CRITERIA_MET,
            JobResult::Failure => condition_types::FAILURE_TARGET,
        }
    }

    /// Returns the type of the condition that is set after every Pod is counted.
    pub fn terminal_condition_type(&self) -> &'static str {
        match self.job_result {
            JobResult::Success => condition_types::COMPLETE,
            JobResult::Failure => condition_types::FAILED,
        }
    }
}

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

/// The first status that a sync writes, and the finalizers to remove after this write.
#[derive(Clone, Debug)]
pub struct FirstStatusWrite {
    /// The status that lists newly finished Pods, with the Pod counts after the sync has created or deleted Pods.
    pub status: JobStatus,
    /// Whether `status` differs from the stored status, so that the write is necessary.
    pub is_status_changed: bool,
    /// The Pods that lose their finalizers after the write, as positions in [`PodSummary::pods`].
    pub pod_positions_to_remove_finalizer_from: Vec<usize>,
    /// UIDs of the Pods that carry the finalizer when the status is written.
    pub pod_uids_with_finalizer: HashSet<Uid>,
    /// Whether the sync has more Pods to count than one status may list.
    pub is_uid_list_full: bool,
    /// The number of failed Pods for each action of the failure policy.
    pub pod_counts_by_policy_action: BTreeMap<FailurePolicyAction, u64>,
    /// The end of the Job, if the status may announce it because no Pod is active any more; `None` otherwise.
    pub job_end_to_write: Option<JobEnd>,
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
