//! The feature gates, tuned values and flags of this crate.

use std::time::Duration;

use common::settings::{ATOMIC_FIFO, EXPECTATIONS_TIMEOUT, FeatureGate, Tune, WorkersFlag};

/// Suspending a Job clears its start, so that servers let its scheduling directives be changed.
pub const MUTABLE_SCHEDULING_DIRECTIVES: FeatureGate =
    FeatureGate::on("MutableSchedulingDirectivesForSuspendedJobs", "Suspending a Job clears status.startTime");
/// The gate of waiting for the caches.
///
/// With the gate off, Pods of a Job are counted while the caches do not show the last writes for it, as upstream does. Pods are neither
/// created nor deleted meanwhile in either position.
pub const STALE_CONSISTENCY: FeatureGate = FeatureGate::on(
    "StaleControllerConsistencyJob",
    "A Job is not synced before the caches show what was last written for it; needs AtomicFIFO",
);
/// The gate of gangs: Workloads and `PodGroups` of Indexed Jobs whose Pods all run at once.
pub const WORKLOAD_WITH_JOB: FeatureGate = FeatureGate::off(
    "WorkloadWithJob",
    "Pods of an Indexed Job that all run at once are scheduled as a gang; needs GenericWorkload",
);
/// The gate of the API of Workloads and `PodGroups`, which [`WORKLOAD_WITH_JOB`] depends on.
pub const GENERIC_WORKLOAD: FeatureGate =
    FeatureGate::off("GenericWorkload", "The API server serves Workloads and PodGroups");
/// All gates this crate knows.
pub const GATES: &[FeatureGate] = &[
    MUTABLE_SCHEDULING_DIRECTIVES,
    STALE_CONSISTENCY,
    ATOMIC_FIFO,
    GENERIC_WORKLOAD,
    WORKLOAD_WITH_JOB,
    FeatureGate::on(
        "MutablePodResourcesForSuspendedJobs",
        "The API server's: a controller does the same in both positions",
    ),
    FeatureGate::locked("JobBackoffLimitPerIndex", "Failures may be limited per index"),
    FeatureGate::locked("JobSuccessPolicy", "Indexed Jobs may complete before all indexes have succeeded"),
    FeatureGate::locked(
        "JobPodReplacementPolicy",
        "Jobs may replace Pods only once they are over; terminating Pods are counted",
    ),
    FeatureGate::locked("JobManagedBy", "Jobs may be managed by somebody else"),
    FeatureGate::locked("SidecarContainers", "A Pod ends when its sidecars have ended, too"),
];

/// The delay before the first replacement of a failed Pod. Upstream: `DefaultJobPodFailureBackOff`.
pub const POD_FAILURE_BACKOFF: Tune = Tune::duration(
    "job-pod-failure-backoff",
    Duration::from_secs(10),
    "How long the replacement of a failed Pod of a Job waits at first",
);
/// The longest such delay. Upstream: `MaxJobPodFailureBackOff`.
pub const POD_FAILURE_BACKOFF_MAX: Tune = Tune::duration(
    "job-pod-failure-backoff-max",
    Duration::from_mins(10),
    "How long the replacement of a failed Pod of a Job waits at most",
);
/// How long events of Pods are debounced. Upstream: `SyncJobBatchPeriod`.
pub const SYNC_BATCH_PERIOD: Tune = Tune::duration(
    "job-sync-batch-period",
    Duration::from_secs(1),
    "For how long events of the Pods of a Job are gathered before the Job is synced",
);
/// How many terminated Pods one status names as being counted. Upstream: `MaxUncountedPods`.
pub const MAX_UNCOUNTED_PODS: Tune =
    Tune::count("job-max-uncounted-pods", 500, "How many terminated Pods one status of a Job names as being counted");
/// How many Pods one sync creates or deletes. Upstream: `MaxPodCreateDeletePerSync`.
pub const MAX_PODS_PER_SYNC: Tune =
    Tune::count("job-max-pods-per-sync", 500, "The most Pods that one sync of a Job creates or deletes");
/// All values of this crate that can be tuned.
pub const TUNES: &[Tune] = &[
    POD_FAILURE_BACKOFF,
    POD_FAILURE_BACKOFF_MAX,
    SYNC_BATCH_PERIOD,
    MAX_UNCOUNTED_PODS,
    MAX_PODS_PER_SYNC,
    EXPECTATIONS_TIMEOUT,
];

/// How many Jobs are synced at once, and how many keys of orphans.
pub const CONCURRENT_JOB_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-job-syncs", 5, "How many Jobs are synced at once");
/// How many finished Jobs are removed at once.
pub const CONCURRENT_TTL_SYNCS: WorkersFlag = WorkersFlag {
    name: "concurrent-ttl-after-finished-syncs",
    default: 5,
    min: 0,
    help: "How many finished Jobs are removed at once",
};
