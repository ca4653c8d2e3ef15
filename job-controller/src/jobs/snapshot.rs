//! Everything one sync of a Job may look at.

use std::{sync::Arc, time::Duration};

use common::{
    map::{HashMap, HashSet},
    meta::Uid,
    refs::{Claims, Owner},
};
use jiff::Timestamp;

use crate::objects::{CachedPod, Job, PodGroup, Workload};

/// A cached Pod.
pub type PodRef = Arc<CachedPod>;

/// A Job, its Pods, and what this process remembers of them.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Job.
    pub job: Arc<Job>,
    /// The Job as an owner of Pods.
    pub owner: Owner,
    /// Its Pods: those to keep, to adopt and to release.
    pub claims: Claims<PodRef>,
    /// Pods that the Job controls but does not claim, because its selector does not match them and it is being deleted.
    pub unselected: Vec<PodRef>,
    /// Pods whose finalizer this process removed although the cache still shows it: they have been counted.
    ///
    /// The ledger does not replace them: it says that a write is not seen yet, and a sync may go on nevertheless, after a time-out or
    /// where `StaleControllerConsistencyJob` is off, and must not count such a Pod again.
    pub untracked_here: Arc<HashSet<Uid>>,
    /// Pods that ended in the future by the clock of their node, each with the time at which that was first seen.
    pub seen_ended: Arc<HashMap<Uid, Timestamp>>,
    /// Failures of Pods since the last success.
    pub backoff: Record,
    /// Workloads and groups of the Job's Pods; `None` unless gate `WorkloadWithJob` is on.
    pub scheduling: Option<Scheduling>,
    /// Whether the Job's namespace terminates: the server refuses every Pod.
    pub terminating_namespace: bool,
    /// Own writes that the caches do not show yet, if there are any.
    ///
    /// Nothing is created or scaled down, and no Job is said to end. Pods of a Job that fails are still deleted.
    pub unseen_writes: Option<UnseenWrites>,
    /// The limits of one sync.
    pub limits: Limits,
    /// The time of the sync.
    pub now: Timestamp,
}

/// Failures of a Job's Pods since the last success: what delays the next Pod of a Job without a limit per index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// How many Pods have failed since the last one succeeded.
    pub failures: u32,
    /// When the last one failed.
    pub last: Option<Timestamp>,
}

/// What the caches hold that refers to a Job, or to its Workload.
#[derive(Clone, Debug, Default)]
pub struct Scheduling {
    /// Workloads that refer to the Job, except those of a deleted Job of the same name.
    pub workloads: Vec<Arc<Workload>>,
    /// `PodGroups` that refer to the Workload, if there is just one.
    pub groups: Vec<Arc<PodGroup>>,
}

/// Writes of this process that the caches do not show yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnseenWrites {
    /// What the caches do not show, in words.
    pub why: String,
    /// How long to wait for them at most.
    pub at_most: Duration,
    /// Whether the Pods may be in another state than the cache shows.
    pub is_stale: bool,
}

/// The settings on which decisions depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most uids one status names as being counted.
    pub named_pods: usize,
    /// The most Pods one sync creates or deletes.
    pub pods: usize,
    /// How long the first replacement of a failed Pod waits.
    pub failure_backoff: Duration,
    /// How long a replacement waits at most.
    pub failure_backoff_max: Duration,
    /// How long events of Pods are debounced.
    pub batch: Duration,
    /// Whether suspending a Job clears its start (gate `MutableSchedulingDirectivesForSuspendedJobs`).
    pub clears_start_time: bool,
}
