//! Feature gates, `--tune` values and flags of this program.

use std::time::Duration;

use common::settings::{ATOMIC_FIFO, EXPECTATIONS_TIMEOUT, FeatureGate, Tunable, WorkersFlag};

/// With this gate on, suspending a Job removes its start time. The API server then allows new scheduling directives.
pub const MUTABLE_SCHEDULING_DIRECTIVES_FOR_SUSPENDED_JOBS: FeatureGate = FeatureGate::on_by_default(
    "MutableSchedulingDirectivesForSuspendedJobs",
    "Suspending a Job clears status.startTime",
);
/// With this gate on, a Job is synced only after the caches show the last writes of this process for this Job.
///
/// With the gate off, finished Pods are counted without this wait, as upstream does. Pods are created and scaled down only
/// after the wait, with the gate on or off.
pub const STALE_CONTROLLER_CONSISTENCY_JOB: FeatureGate = FeatureGate::on_by_default(
    "StaleControllerConsistencyJob",
    "A Job is synced only after the caches show the last writes for it; needs AtomicFIFO",
);
/// With this gate on, an Indexed Job that runs all its Pods at the same time gets a Workload and a `PodGroup` (a gang).
pub const WORKLOAD_WITH_JOB: FeatureGate = FeatureGate::off_by_default(
    "WorkloadWithJob",
    "Pods of an Indexed Job that all run at once are scheduled as a gang; needs GenericWorkload",
);
/// With this gate on, the API server serves Workloads and `PodGroups`. [`WORKLOAD_WITH_JOB`] requires this gate.
pub const GENERIC_WORKLOAD: FeatureGate =
    FeatureGate::off_by_default("GenericWorkload", "The API server serves Workloads and PodGroups");
/// The gates that this program accepts in `--feature-gates`, including gates that have no effect on it.
pub const GATES: &[FeatureGate] = &[
    MUTABLE_SCHEDULING_DIRECTIVES_FOR_SUSPENDED_JOBS,
    STALE_CONTROLLER_CONSISTENCY_JOB,
    ATOMIC_FIFO,
    GENERIC_WORKLOAD,
    WORKLOAD_WITH_JOB,
    FeatureGate::on_by_default(
        "MutablePodResourcesForSuspendedJobs",
        "For the API server only; the gate has no effect on this controller",
    ),
    FeatureGate::always_on("JobBackoffLimitPerIndex", "Failures may be limited per index"),
    FeatureGate::always_on("JobSuccessPolicy", "Indexed Jobs may complete before all indexes have succeeded"),
    FeatureGate::always_on(
        "JobPodReplacementPolicy",
        "Jobs may replace Pods only after they have finished; terminating Pods are counted",
    ),
    FeatureGate::always_on("JobManagedBy", "Jobs may be managed by another controller"),
    FeatureGate::always_on("SidecarContainers", "A Pod has finished only after its sidecars have, too"),
];

/// The back-off before the first replacement of a failed Pod, 10 s by default. Upstream: `DefaultJobPodFailureBackOff`.
pub const POD_FAILURE_BACKOFF: Tunable = Tunable::of_duration(
    "job-pod-failure-backoff",
    Duration::from_secs(10),
    "Back-off before the first replacement of a failed Pod of a Job",
);
/// The maximal back-off before the replacement of a failed Pod, 10 min by default. Upstream: `MaxJobPodFailureBackOff`.
pub const POD_FAILURE_BACKOFF_MAX: Tunable = Tunable::of_duration(
    "job-pod-failure-backoff-max",
    Duration::from_mins(10),
    "Maximum back-off before the replacement of a failed Pod of a Job",
);
/// The debounce period for events of Pods, 1 s by default. Upstream: `SyncJobBatchPeriod`.
pub const JOB_SYNC_BATCH_PERIOD: Tunable = Tunable::of_duration(
    "job-sync-batch-period",
    Duration::from_secs(1),
    "How long to debounce events of the Pods of a Job before the Job is synced",
);
/// The maximum number of terminated Pods that one status lists, 500 by default. Upstream: `MaxUncountedPods`.
pub const MAX_UNCOUNTED_PODS: Tunable =
    Tunable::of_count("job-max-uncounted-pods", 500, "Maximum number of terminated Pods that one status lists");
/// The maximum number of Pods that one sync creates or deletes, 500 by default. Upstream: `MaxPodCreateDeletePerSync`.
pub const MAX_PODS_PER_SYNC: Tunable =
    Tunable::of_count("job-max-pods-per-sync", 500, "Maximum number of Pods that one sync creates or deletes");
/// The settings that this program accepts in `--tune`.
pub const TUNABLES: &[Tunable] = &[
    POD_FAILURE_BACKOFF,
    POD_FAILURE_BACKOFF_MAX,
    JOB_SYNC_BATCH_PERIOD,
    MAX_UNCOUNTED_PODS,
    MAX_PODS_PER_SYNC,
    EXPECTATIONS_TIMEOUT,
];

/// `--concurrent-job-syncs`: the number of workers of the Job loop, and also of the orphan loop; 5 by default.
pub const CONCURRENT_JOB_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-job-syncs", 5, "Number of Jobs synced at the same time");
/// `--concurrent-ttl-after-finished-syncs`: the number of finished Jobs deleted at the same time, 5 by default.
pub const CONCURRENT_TTL_AFTER_FINISHED_SYNCS: WorkersFlag = WorkersFlag {
    name: "concurrent-ttl-after-finished-syncs",
    default_worker_count: 5,
    min_worker_count: 0,
    help: "Number of finished Jobs deleted at the same time",
};
