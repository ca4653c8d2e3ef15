//! The loop that syncs Jobs; [`decide`] lists the steps of a sync.
//!
//! [`memory`] holds the state that this process remembers for each Job, and `gangs` the caches of Workloads and `PodGroups`.

pub mod decide;
pub mod memory;
pub mod plan;
pub mod snapshot;

mod act;
mod gangs;
pub(crate) mod observe;
mod watch;

use std::{sync::Arc, time::Duration};

use common::{
    consistency::Ledger,
    controller::{Controller, Observed},
    events::ObjectRef,
    informer::{AnyInformer, Informer, SharedInformer, handler},
    io::{Failed, Io, Requeue},
    map::HashSet,
    meta::{Key, Uid},
    queue::{Priority, Queue},
    runtime::Context,
    settings::{EXPECTATIONS_TIMEOUT, Settings},
    store::Store,
};
use jiff::Timestamp;

use self::{
    act::Note,
    gangs::Gangs,
    memory::Memory,
    plan::Plan,
    snapshot::{Limits, Scheduling, Snapshot},
    watch::Watch,
};
use crate::{
    metrics::ControllerMetrics,
    objects::{CachedPod, JOBS, Job},
    options::{
        MAX_PODS_PER_SYNC, MAX_UNCOUNTED_PODS, MUTABLE_SCHEDULING_DIRECTIVES, POD_FAILURE_BACKOFF,
        POD_FAILURE_BACKOFF_MAX, STALE_CONSISTENCY, SYNC_BATCH_PERIOD, WORKLOAD_WITH_JOB,
    },
    orphans::key::Orphan,
};

/// The controller that creates, deletes and counts the Pods of Jobs.
pub struct JobController {
    context: Context,
    queue: Queue<Key>,
    orphans: Queue<Orphan>,
    pub(crate) jobs: Arc<SharedInformer<Job>>,
    pub(crate) pods: Informer<CachedPod>,
    pub(crate) ledger: Ledger,
    gangs: Option<Gangs>,
    pub(crate) memory: Memory,
    metrics: ControllerMetrics,
    limits: Limits,
    expectations_timeout: Duration,
    reads_own_writes: bool,
}

impl JobController {
    /// Builds the controller and registers its event handlers, which add keys to `queue` and `orphans`.
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
            queue,
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
        named_pods: settings.size(&MAX_UNCOUNTED_PODS),
        pods: settings.size(&MAX_PODS_PER_SYNC),
        failure_backoff: settings.duration(&POD_FAILURE_BACKOFF),
        failure_backoff_max: settings.duration(&POD_FAILURE_BACKOFF_MAX),
        batch: settings.duration(&SYNC_BATCH_PERIOD),
        clears_start_time: settings.gate(&MUTABLE_SCHEDULING_DIRECTIVES),
    }
}

impl Controller for JobController {
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

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, Failed> {
        act::act(snapshot, plan, io).await
    }

    fn object(snapshot: &Snapshot) -> (ObjectRef, Uid) {
        let Snapshot { job, owner, .. } = snapshot;
        (ObjectRef::new(JOBS, &job.metadata), owner.uid.clone())
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        let Snapshot { job, owner, .. } = snapshot;
        let (metrics, memory, uid) = (&self.metrics, &self.memory, &owner.uid);
        match note {
            Note::BrokenSelector(problem) => {
                let key = job.metadata.key();
                tracing::error!(logger = "job", key = %key, err = %problem, "couldn't convert Job selector");
            }
            Note::Created { reason, created, refused } => metrics.created(reason, created, refused),
            Note::NamespaceTerminates => {
                let key = job.metadata.key();
                tracing::debug!(logger = "job", key = %key, "The namespace is terminating, creating no Pods");
                memory.change(uid, |remembered| remembered.refused = Some(self.context.clock.instant()));
            }
            Note::Counted(statuses) => metrics.counted(job, &statuses[0], &statuses[1]),
            Note::Backoff(record) => memory.change(uid, |remembered| remembered.backoff = Some(record)),
            Note::Policy(actions) => actions.into_iter().for_each(|(action, pods)| metrics.handled(action, pods)),
            Note::Untracking(pods) => memory.untracking(uid, pods),
            Note::StillTracked(pods) => memory.still_tracked(uid, &pods),
            Note::Finished(end) => {
                memory.change(uid, |remembered| remembered.finished = true);
                metrics.finished(job, &end);
            }
            Note::Synced { is_ok, action, took } => metrics.synced(job, is_ok, action, took),
        }
    }

    fn observe_again(&self, snapshot: &Snapshot, (): ()) -> Option<Scheduling> {
        // `None` if a cached Workload or `PodGroup` cannot be decoded.
        self.gangs.as_ref()?.scheduling(&snapshot.job).ok()
    }

    fn record(&self, snapshot: &Snapshot, plan: &Plan) {
        let owner = &snapshot.owner;
        self.await_write(&owner.namespace, &owner.uid);
        if plan.sync.is_ok() {
            self.memory.keep(&owner.uid, &snapshot.untracked_here, &snapshot.seen_ended);
        }
    }

    fn waiting(&self, key: &Key) {
        let Some(uid) = self.uid(key) else { return };
        let awaited = self.await_write(&key.namespace, &uid);
        // The cache may have reached the awaited version before the wait was recorded. Then no event enqueues the Job.
        if self.await_write(&key.namespace, &uid) != awaited || (awaited.is_none() && !self.memory.of(&uid).finished) {
            self.queue.add(key.clone(), Priority::Normal);
        }
    }

    /// Enqueues a finished or deleted Job for the orphan loop, which drops the memory that this sync may have created.
    fn after_sync(&self, snapshot: &Snapshot) {
        let meta = &snapshot.job.metadata;
        let lives = |job: &Job| job.metadata.uid == meta.uid && !job.is_finished();
        let lives = self.jobs.store().get(&meta.namespace, &meta.name).map(|job| job.is_some_and(|job| lives(&job)));
        if matches!(lives, Ok(false)) {
            self.orphans.add(Orphan::job(&meta.namespace, &meta.name, &meta.uid), Priority::Normal);
        }
    }

    fn children(&self, snapshot: &Snapshot) -> HashSet<Uid> {
        self.children(&snapshot.owner.namespace, &snapshot.owner.uid)
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
