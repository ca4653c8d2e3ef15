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
    /// Its Pods: kept, to be adopted, to be released.
    pub claims: Claims<PodRef>,
    /// Pods that the Job controls but does not claim, because its selector does not match them and it is being deleted.
    pub unselected: Vec<PodRef>,
    /// Pods whose finalizer was removed, though the cache does not show it yet: they have been dealt with.
    pub processed: Arc<HashSet<Uid>>,
    /// When Pods ended whose node says that this is yet to come: when that was seen first.
    pub ends: Arc<HashMap<Uid, Timestamp>>,
    /// Failures of Pods since the last success.
    pub backoff: Record,
    /// Workloads and groups of the Job's Pods; `None` unless gate `WorkloadWithJob` is on.
    pub scheduling: Option<Scheduling>,
    /// Whether the Job's namespace terminates: the server refuses every Pod.
    pub terminating_namespace: bool,
    /// Why Pods may be neither created nor deleted now: something this process did is not seen yet.
    pub blocked: Option<Blocked>,
    /// How far a sync may go.
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

/// Why nothing is created or deleted for the time being.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// What is waited for.
    pub why: String,
    /// How long at most.
    pub at_most: Duration,
    /// Whether the Pods may be in another state than it seems.
    pub is_stale: bool,
}

/// What the operator has set, as far as decisions depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most uids one status names as being counted.
    pub uncounted: usize,
    /// The most Pods one sync creates or deletes.
    pub pods: usize,
    /// The replacement of a failed Pod waits that long at first.
    pub failure_backoff: Duration,
    /// And never longer than that.
    pub failure_backoff_max: Duration,
    /// Events of Pods are gathered for that long.
    pub batch: Duration,
    /// Whether suspending a Job clears its start (gate `MutableSchedulingDirectivesForSuspendedJobs`).
    pub clears_start_time: bool,
}
