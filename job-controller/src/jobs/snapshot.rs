//! The input of one sync of a Job.

use std::{sync::Arc, time::Duration};

use common::{
    map::{HashMap, HashSet},
    meta::Uid,
    refs::{Claims, Owner},
};
use jiff::Timestamp;

use crate::objects::{CachedPod, Job, PodGroup, Workload};

/// A Pod as the cache shares it.
pub type PodRef = Arc<CachedPod>;

/// The input of one sync: a Job, its Pods, and the memory of this process.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The cached Job.
    pub job: Arc<Job>,
    /// The Job as an owner of Pods.
    pub owner: Owner,
    /// Pods to keep, to adopt and to release.
    pub claims: Claims<PodRef>,
    /// Pods that the Job controls but does not claim, because it is terminating and its selector does not match them.
    pub unselected: Vec<PodRef>,
    /// Pods whose finalizer this process removed although the cache still shows it. They have been counted.
    ///
    /// The ledger does not replace this set: it reports a write that is not in the cache yet, but a sync may continue
    /// nevertheless, after a time-out or with `StaleControllerConsistencyJob` off, and must not count such a Pod again.
    pub untracked_here: Arc<HashSet<Uid>>,
    /// Pods with an end time in the future, by the clock of their node, each with the time at which this process first saw the
    /// end.
    pub seen_ended: Arc<HashMap<Uid, Timestamp>>,
    /// Failures of Pods since the last success.
    pub backoff: Record,
    /// Workloads and groups of the Job's Pods; `None` unless the gate `WorkloadWithJob` is on.
    pub scheduling: Option<Scheduling>,
    /// Whether the Job's namespace is terminating, so that the server refuses every Pod.
    pub terminating_namespace: bool,
    /// Own writes that the caches do not show yet, if any.
    ///
    /// While there are some, no Pods are created or scaled down, and the Job does not end. Pods of a failing Job are still
    /// deleted.
    pub unseen_writes: Option<UnseenWrites>,
    /// The limits of one sync.
    pub limits: Limits,
    /// The time at which the sync started.
    pub now: Timestamp,
}

/// Failures since the last success, which delay the next Pod of a Job without a limit per index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The number of failed Pods since the last success.
    pub failures: u32,
    /// The time of the last failure.
    pub last: Option<Timestamp>,
}

/// The cached objects that refer to a Job or to its Workload.
#[derive(Clone, Debug, Default)]
pub struct Scheduling {
    /// Workloads that refer to the Job, except those of a deleted Job with the same name.
    pub workloads: Vec<Arc<Workload>>,
    /// `PodGroups` that refer to the Workload, if there is exactly one Workload.
    pub groups: Vec<Arc<PodGroup>>,
}

/// Writes of this process that the caches do not show yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnseenWrites {
    /// A description of the missing writes.
    pub why: String,
    /// The maximal time to wait for them.
    pub at_most: Duration,
    /// Whether the Pods may be in a different state than the cache shows.
    pub is_stale: bool,
}

/// Settings that influence decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximal number of UIDs that one status lists as being counted.
    pub named_pods: usize,
    /// The maximal number of Pods that one sync creates or deletes.
    pub pods: usize,
    /// The back-off after the first failure of a Pod.
    pub failure_backoff: Duration,
    /// The maximal back-off.
    pub failure_backoff_max: Duration,
    /// The debounce period for events of Pods.
    pub batch: Duration,
    /// Whether suspending a Job removes its start time (gate `MutableSchedulingDirectivesForSuspendedJobs`).
    pub clears_start_time: bool,
}
