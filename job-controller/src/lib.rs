//! Jobs: runs Pods until enough of them have succeeded, and counts every one of them once.
//!
//! # What it promises
//!
//! Each Pod of a Job that ends adds one to `succeeded` or to `failed` (or its index to `completedIndexes`), once, whatever
//! crashes, lags or is lost meanwhile: a Pod cannot go before it was counted, since it carries a finalizer, and is not
//! counted again, since the status names it until the finalizer is gone ([`decide::track`]). No more Pods are active than
//! are wanted; none is created while the Job is suspended, being deleted or over, or on a view of the cluster older than
//! this process's own last writes. A Job says that its end is decided before it says that it has ended, and has ended when
//! nothing of it is left to be counted.
//!
//! Beside that, finished Jobs are removed when their time is over ([`ttl`]), by a loop of its own.
//!
//! # How it is laid out
//!
//! ```text
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide/ ──► Plan ──► sequence/ ──► API server
//! (events        │        (indexes of     (pure)    situation, end,   claim, create, delete,
//!  to keys)      │         both caches)             manage, track     count: status, finalizers, status
//!                └──────────────◄── requeue: a back-off or a deadline is over, there is more to do
//! orphans.rs: Pods that carry the finalizer and have no Job that counts them   ttl.rs: Jobs that are over
//! ```
//!
//! # Where it differs from upstream
//!
//! Why is in `docs/decisions/0006-jobs.md`, and of the first point in `docs/decisions/0016-filters.md`.
//!
//! - Only Pods whose restart policy is not `Always` are watched. A Job neither adopts nor counts a Pod that is always restarted, and
//!   the tracking finalizer of such a Pod stays.
//! - Expectations are kept by identity, in `common`'s ledger, and memories ([`memory`]) by uid: a Job that was recreated
//!   under its name waits for nothing of its predecessor. Both are judged by the caches, not by which events came.
//! - A status is patched, onto the version it was computed from. It tells the true number of active Pods also while a
//!   replacement waits (kubernetes/kubernetes#139428), its index sets are disjoint, its end is not before its start, and a
//!   Job that ends while it is suspended has a start: servers refuse anything else, for ever. One that wanted nothing has
//!   none, unless the server insists.
//! - Of a Pod that was counted as failed because it was going, and succeeded after all, nothing counts again.
//! - Pods that still run when a Job has succeeded lose their finalizer before they are deleted, not after: whoever goes on
//!   if this process dies in between does not count them as failed.
//! - A list of Pods being counted that is full keeps nobody waiting who is in it, or need not be.
//! - An index that has to wait delays no other one. Failures before a restart of this process still delay
//!   (kubernetes/kubernetes#114650), where Pods still tell of them. One whose node says that it is yet to come delays from
//!   when it was seen.
//! - After the server has refused a Pod because the namespace terminates, no other is asked for.
//! - A `FailedUpdate` Event reports that the server denies the adoption or the release of a Pod, or the removal of its finalizer: a
//!   right is missing, or a policy or a webhook forbids it.
//! - What one sync leaves over (500 uids, 500 Pods) follows at once, not with the next event.
//! - A Job that is being deleted takes the finalizer of every Pod that it controls, also of one that its selector no longer
//!   matches: upstream leaves that one, and a foreground deletion waits for it for ever.
//! - Pods of Jobs that were over, or gone, when this process started lose their finalizer.
//! - A Pod of a Job that has succeeded and was counted is not cached any more: it is not released when its labels change.
//! - Writes to Pods name the version of the Pod that was judged: on an old view they are refused, and no result is lost.
//! - Objects that validation would have refused are left alone with an error.

pub mod decide;
pub mod indexes;
pub mod memory;
pub mod metrics;
pub mod objects;
pub mod orphans;
pub mod ttl;

mod body;
mod gangs;
mod observe;
mod sequence;
mod watch;

use std::{sync::Arc, time::Duration};

use common::{
    app::Definition,
    consistency::Ledger,
    controller::{Loop, Observed, Sequenced},
    events::ObjectRef,
    informer::{AnyInformer, Informer, SharedInformer, handler},
    map::HashSet,
    meta::{Key, Uid},
    queue::{Backoff, Priority, Queue},
    runtime::{Context, LoopDefinition, Pair, Running},
    second_writer::OwnedWrites,
    sequence::{Failed, Sequence},
    settings::{ATOMIC_FIFO, EXPECTATIONS_TIMEOUT, FeatureGate, Settings, Tune, WorkersFlag},
    store::Store,
};
use jiff::Timestamp;

use crate::{
    decide::{Limits, Plan, Snapshot},
    gangs::Gangs,
    memory::Memory,
    metrics::ControllerMetrics,
    objects::{CachedPod, Job},
    orphans::{Orphan, OrphanController},
    sequence::Note,
    watch::Watch,
};

/// Suspending a Job clears its start, so that servers let its scheduling directives be changed.
pub const MUTABLE_SCHEDULING_DIRECTIVES: FeatureGate =
    FeatureGate::on("MutableSchedulingDirectivesForSuspendedJobs", "Suspending a Job clears status.startTime");
/// The gate of waiting for the caches.
///
/// Off, a Job whose caches lag is counted all the same, as upstream does. Pods are neither created nor deleted on such a
/// view in either position.
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
/// For how long events are gathered. Upstream: `SyncJobBatchPeriod`.
pub const SYNC_BATCH_PERIOD: Tune = Tune::duration(
    "job-sync-batch-period",
    Duration::from_secs(1),
    "For how long events of the Pods of a Job are gathered before the Job is synced",
);
/// How many Pods one status names. Upstream: `MaxUncountedPods`.
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

/// How many Jobs are synced at once; also, how many orphans.
pub const CONCURRENT_JOB_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-job-syncs", 5, "How many Jobs are synced at once");
/// How many finished Jobs are looked at at once.
pub const CONCURRENT_TTL_SYNCS: WorkersFlag = WorkersFlag {
    name: "concurrent-ttl-after-finished-syncs",
    default: 5,
    min: 0,
    help: "How many finished Jobs are removed at once",
};

/// The loop of Jobs.
pub const JOB: LoopDefinition =
    LoopDefinition::new("job-controller", "job", start).owning(&[OwnedWrites::status("batch", "jobs")]);
/// The loop that removes finished Jobs.
pub const TTL_AFTER_FINISHED: LoopDefinition =
    LoopDefinition::new("ttl-after-finished-controller", "ttl-after-finished", |context| {
        ttl::start(TTL_AFTER_FINISHED.name, context)
    });
/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] = &[JOB, TTL_AFTER_FINISHED];

/// The program.
pub const DEFINITION: Definition = Definition {
    name: "job-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Runs the Kubernetes Job and TTL-after-finished controllers as a service of their own",
    loops: LOOPS,
    workers: &[CONCURRENT_JOB_SYNCS, CONCURRENT_TTL_SYNCS],
    gates: GATES,
    tunes: TUNES,
    flags: &[],
};

/// The controller of Jobs.
pub struct JobController {
    context: Context,
    orphans: Queue<Orphan>,
    jobs: Arc<SharedInformer<Job>>,
    pods: Informer<CachedPod>,
    ledger: Ledger,
    gangs: Option<Gangs>,
    memory: Memory,
    metrics: ControllerMetrics,
    limits: Limits,
    expectations_timeout: Duration,
    reads_own_writes: bool,
}

/// Failing keys of both queues come back after a second, and at the latest after a minute.
fn backoff() -> Backoff {
    Backoff { base: Duration::from_secs(1), max: Duration::from_mins(1), bucket: None }
}

fn start(context: Context) -> Arc<dyn Running> {
    let queue = context.queue("job", backoff());
    let orphans = context.queue("job_orphan_pod", backoff());
    let workers = context.settings.workers(&CONCURRENT_JOB_SYNCS);
    let controller = Arc::new(JobController::new(context.clone(), queue.clone(), orphans.clone()));
    let orphan_controller = Arc::new(OrphanController(Arc::clone(&controller)));
    Arc::new(Pair {
        main: Loop::start(JOB.name, context.clone(), controller, queue, workers),
        second: Loop::start("job-orphan-pods", context, orphan_controller, orphans, workers),
        name: "orphans",
    })
}

impl JobController {
    /// Starts watching; keys go to `queue` and `orphans`.
    pub fn new(context: Context, queue: Queue<Key>, orphans: Queue<Orphan>) -> Self {
        let settings = Arc::clone(&context.settings);
        let ledger = context.ledger();
        let (memory, metrics) = (Memory::default(), ControllerMetrics::new(&context.metrics));
        let limits = limits(&settings);
        let jobs = context.shared_informer::<Job>();
        let pods: Arc<Store<CachedPod>> = Arc::default();
        let watch = Arc::new(Watch {
            queue: queue.clone(),
            orphans: orphans.clone(),
            jobs: Arc::clone(jobs.store()),
            pods: Arc::clone(&pods),
            memory: memory.clone(),
            metrics: metrics.clone(),
            batch: limits.batch,
        });
        jobs.add_handler(handler(&watch, Watch::on_job));
        let gangs = settings.gate(&WORKLOAD_WITH_JOB).then(|| Gangs::start(&context, &watch));
        let pods = context.informer(pods, handler(&watch, Watch::on_pod));
        let reads_own_writes = settings.reads_own_writes(&STALE_CONSISTENCY);
        Self {
            context,
            orphans,
            jobs,
            pods,
            ledger,
            gangs,
            memory,
            metrics,
            limits,
            expectations_timeout: settings.duration(&EXPECTATIONS_TIMEOUT),
            reads_own_writes,
        }
    }
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        uncounted: settings.size(&MAX_UNCOUNTED_PODS),
        pods: settings.size(&MAX_PODS_PER_SYNC),
        failure_backoff: settings.duration(&POD_FAILURE_BACKOFF),
        failure_backoff_max: settings.duration(&POD_FAILURE_BACKOFF_MAX),
        batch: settings.duration(&SYNC_BATCH_PERIOD),
        clears_start_time: settings.gate(&MUTABLE_SCHEDULING_DIRECTIVES),
    }
}

impl Sequenced for JobController {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    const STALE_SYNC_SKIPS: Option<&'static str> = Some("job_controller_stale_sync_skips_total");

    fn observe(&self, key: &Key, now: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        self.observe(key, now)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
        sequence::sequence(snapshot, plan)
    }

    fn object(snapshot: &Snapshot) -> (ObjectRef, Uid) {
        let Snapshot { job, owner, .. } = snapshot;
        (ObjectRef::new(objects::JOBS, &job.metadata), owner.uid.clone())
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        let Snapshot { job, owner, .. } = snapshot;
        let (metrics, memory, uid) = (&self.metrics, &self.memory, &owner.uid);
        match note {
            Note::BrokenSelector(problem) => {
                let key = job.metadata.key();
                tracing::error!(logger = "job", key = %key, err = %problem, "couldn't convert Job selector");
            }
            Note::Created(reason, created, refused) => metrics.created(reason, created, refused),
            Note::NamespaceTerminates => {
                let key = job.metadata.key();
                tracing::debug!(logger = "job", key = %key, "The namespace is terminating, creating no Pods");
                memory.refuse(uid, self.context.clock.instant());
            }
            Note::Counted(statuses) => metrics.counted(job, &statuses[0], &statuses[1]),
            Note::Backoff(record) => memory.set_backoff(uid, record),
            Note::Policy(actions) => actions.into_iter().for_each(|(action, pods)| metrics.handled(action, pods)),
            Note::Process(pods) => memory.process(uid, pods),
            Note::Unprocess(pods) => pods.iter().for_each(|pod| memory.unprocess(uid, pod)),
            Note::Finished(end) => {
                memory.finish(uid);
                metrics.finished(job, &end);
            }
            Note::Synced(is_ok, action, took) => metrics.synced(job, is_ok, action, took),
        }
    }

    fn fresh(&self, snapshot: &Snapshot, (): ()) -> Option<decide::gang::Known> {
        // What cannot be read is not known.
        self.gangs.as_ref()?.known(&snapshot.job).ok()
    }

    /// A Job that was over, or gone, before its last sync ended may have been forgotten already: once more, then.
    fn ended(&self, snapshot: &Snapshot) {
        let meta = &snapshot.job.metadata;
        let lives = |job: &Job| job.metadata.uid == meta.uid && !job.is_finished();
        let lives = self.jobs.store().get(&meta.namespace, &meta.name).map(|job| job.is_some_and(|job| lives(&job)));
        if matches!(lives, Ok(false)) {
            self.orphans.add(Orphan::job(&meta.namespace, &meta.name, &meta.uid), Priority::Normal);
        }
    }

    fn children(&self, snapshot: &Snapshot) -> HashSet<Uid> {
        let owner = &snapshot.owner;
        self.children(&owner.namespace, &owner.uid)
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        let mut all: Vec<&dyn AnyInformer> = vec![self.jobs.informer(), &self.pods];
        all.extend(self.gangs.iter().flat_map(Gangs::informers));
        all
    }
}
