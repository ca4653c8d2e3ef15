//! The input of one sync of a Job.

use std::{sync::Arc, time::Duration};

use common::{pod_creation_pauses::PodCreationPause, prelude::*};
use jiff::Timestamp;

use crate::objects::{CachedPod, Job, PodGroup, Workload};

/// A Pod in memory, which the cache, snapshots and plans share without copies.
pub type SharedPod = Arc<CachedPod>;

/// The input of one sync: a Job, its Pods, and the state that this process remembers for the Job.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Job as cached; the cache may be stale.
    pub job: Arc<Job>,
    /// The identity and version of the Job, for the owner references of its Pods.
    pub owner: Owner,
    /// The Pods that the Job keeps, adopts and releases.
    pub pod_claims: DependentClaims<SharedPod>,
    /// Pods that the Job controls although its selector does not match them; empty unless the Job is terminating.
    pub unselected_pods: Vec<SharedPod>,
    /// UIDs of Pods with a finalizer that this process has removed, although the cache still shows the finalizer.
    ///
    /// A sync may run before the cache shows the removal: after a time-out, or with `StaleControllerConsistencyJob` off. Such a
    /// sync must not count the Pods again.
    pub pod_uids_with_removed_finalizer: Arc<HashSet<Uid>>,
    /// For each Pod with a finish time in the future, by the clock of its node: the time at which this process first saw that
    /// the Pod had finished.
    pub pod_finish_first_seen_at: Arc<HashMap<Uid, Timestamp>>,
    /// Failures of Pods since the last success, before this sync.
    pub failure_record: FailureRecord,
    /// The Workloads and `PodGroups` of the Job; `None` if the gate `WorkloadWithJob` is off.
    pub scheduling_objects: Option<SchedulingObjects>,
    /// The pause in which no Pods are created; `None` if Pods may be created.
    pub pod_creation_pause: Option<PodCreationPause>,
    /// Writes of this process that the caches do not show yet; `None` if the caches show all of them.
    ///
    /// While the caches lack a write, no Pods are created or scaled down, and the Job does not end. Pods of a failing Job are
    /// still deleted.
    pub pending_writes: Option<PendingWrites>,
    /// The settings of this process, the same in each sync.
    pub decision_settings: DecisionSettings,
    /// The time at which the sync started.
    pub now: Timestamp,
}

/// Failures since the last success. They delay the next Pod of a Job that has no `spec.backoffLimitPerIndex`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureRecord {
    /// The number of Pods that failed after the last success, including failures that the failure policy ignores.
    pub failure_count_since_success: u32,
    /// The finish time of the last failed Pod; `None` if no Pod has failed since the last success.
    pub last_failure_at: Option<Timestamp>,
}

/// The cached Workloads of a Job, and the cached `PodGroups` of its Workload.
#[derive(Clone, Debug, Default)]
pub struct SchedulingObjects {
    /// Workloads that refer to the Job, except Workloads of a deleted Job with the same name.
    pub workloads: Vec<Arc<Workload>>,
    /// `PodGroups` that refer to the Workload; empty unless exactly one Workload refers to the Job.
    pub pod_groups: Vec<Arc<PodGroup>>,
}

/// Feature gates and `--tune` values that influence decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionSettings {
    /// The maximum number of UIDs in `status.uncountedTerminatedPods`.
    pub max_uncounted_pods: usize,
    /// The maximum number of Pods that one sync creates or deletes.
    pub max_pods_per_sync: usize,
    /// The back-off after the first failure of a Pod.
    pub pod_failure_backoff: Duration,
    /// The upper limit of the back-off, which doubles with each further failure of a Pod.
    pub pod_failure_backoff_max: Duration,
    /// The debounce period for events of Pods.
    pub sync_batch_period: Duration,
    /// Whether suspending a Job removes its start time (gate `MutableSchedulingDirectivesForSuspendedJobs`).
    pub clears_start_time_on_suspend: bool,
}
