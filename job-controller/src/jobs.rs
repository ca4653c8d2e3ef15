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

use std::sync::Arc;

use common::{
    consistency::Ledger,
    controller::{Controller, Observation},
    events::InvolvedObject,
    informer::{AnyInformer, Informer, SharedInformer, handler_from_method},
    io::{Io, Requeue, SyncError},
    map::HashSet,
    meta::{NamespacedName, Uid},
    pod_creation_pauses::PodCreationPauses,
    queue::{Priority, Queue},
    runtime::LoopContext,
    settings::{EXPECTATIONS_TIMEOUT, OperatorSettings},
    store::Store,
};
use jiff::Timestamp;

use self::{
    act::Note,
    gangs::GangCaches,
    memory::JobMemoryByUid,
    plan::Plan,
    snapshot::{DecisionSettings, SchedulingObjects, Snapshot},
    watch::EventHandlers,
};
use crate::{
    metrics::JobMetrics,
    objects::{CachedPod, JOBS, Job},
    options::{
        JOB_SYNC_BATCH_PERIOD, MAX_PODS_PER_SYNC, MAX_UNCOUNTED_PODS, MUTABLE_SCHEDULING_DIRECTIVES_FOR_SUSPENDED_JOBS,
        POD_FAILURE_BACKOFF, POD_FAILURE_BACKOFF_MAX, STALE_CONTROLLER_CONSISTENCY_JOB, WORKLOAD_WITH_JOB,
    },
    orphans::key::OrphanKey,
};

/// The controller that creates, deletes and counts the Pods of Jobs.
pub struct JobController {
    queue: Queue<NamespacedName>,
    orphans: Queue<OrphanKey>,
    pub(crate) job_informer: Arc<SharedInformer<Job>>,
    pub(crate) pod_informer: Informer<CachedPod>,
    pub(crate) ledger: Ledger,
    gangs: Option<GangCaches>,
    pub(crate) memory: JobMemoryByUid,
    pub(crate) pod_creation_pauses: PodCreationPauses,
    metrics: JobMetrics,
    limits: DecisionSettings,
    reads_own_writes: bool,
}

impl JobController {
    /// Builds the controller and registers its event handlers, which add keys to `queue` and `orphans`.
    pub fn new(context: LoopContext, queue: Queue<NamespacedName>, orphans: Queue<OrphanKey>) -> Self {
        let settings = Arc::clone(&context.settings);
        let ledger = context.new_ledger();
        let (memory, metrics) = (JobMemoryByUid::default(), JobMetrics::new(&context.metrics));
        let pauses = PodCreationPauses::new(context.clock.clone(), settings.tuned_duration(&EXPECTATIONS_TIMEOUT));
        let limits = limits(&settings);
        let jobs = context.shared_informer::<Job>();
        let pods: Arc<Store<CachedPod>> = Arc::default();
        let watch = Arc::new(EventHandlers {
            job_queue: queue.clone(),
            orphan_queue: orphans.clone(),
            job_store: Arc::clone(jobs.store()),
            pod_store: Arc::clone(&pods),
            memory: memory.clone(),
            metrics: metrics.clone(),
            sync_batch_period: limits.sync_batch_period,
        });
        jobs.add_handler(handler_from_method(&watch, EventHandlers::on_job));
        let gangs = settings.is_feature_gate_on(&WORKLOAD_WITH_JOB).then(|| GangCaches::start(&context, &watch));
        let pods = context.start_informer(pods, handler_from_method(&watch, EventHandlers::on_pod));
        let reads_own_writes = settings.waits_for_own_writes(&STALE_CONTROLLER_CONSISTENCY_JOB);
        Self {
            queue,
            orphans,
            job_informer: jobs,
            pod_informer: pods,
            ledger,
            gangs,
            memory,
            pod_creation_pauses: pauses,
            metrics,
            limits,
            reads_own_writes,
        }
    }
}

fn limits(settings: &OperatorSettings) -> DecisionSettings {
    DecisionSettings {
        max_uncounted_pods: settings.tuned_nonzero_count(&MAX_UNCOUNTED_PODS),
        max_pods_per_sync: settings.tuned_nonzero_count(&MAX_PODS_PER_SYNC),
        pod_failure_backoff: settings.tuned_duration(&POD_FAILURE_BACKOFF),
        pod_failure_backoff_max: settings.tuned_duration(&POD_FAILURE_BACKOFF_MAX),
        sync_batch_period: settings.tuned_duration(&JOB_SYNC_BATCH_PERIOD),
        clears_start_time_on_suspend: settings.is_feature_gate_on(&MUTABLE_SCHEDULING_DIRECTIVES_FOR_SUSPENDED_JOBS),
    }
}

impl Controller for JobController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    const STALE_SYNC_SKIPS: Option<&'static str> = Some("job_controller_stale_sync_skips_total");

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        self.observe(key, now)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, SyncError> {
        act::act(snapshot, plan, io).await
    }

    fn synced_object(snapshot: &Snapshot) -> (InvolvedObject, Uid) {
        let Snapshot { job, owner, .. } = snapshot;
        (InvolvedObject::new(JOBS, &job.metadata), owner.uid.clone())
    }

    fn apply_memory_note(&self, snapshot: &Snapshot, note: Note) {
        let Snapshot { job, owner, .. } = snapshot;
        let (metrics, memory, uid) = (&self.metrics, &self.memory, &owner.uid);
        match note {
            Note::InvalidSelector(problem) => {
                let key = job.metadata.key();
                tracing::error!(logger = "job", key = %key, err = %problem, "couldn't convert Job selector");
            }
            Note::PodsCreated { reason, created, refused, outcome } => {
                metrics.record_pod_create_requests(reason, created, refused);
                self.pod_creation_pauses.record(uid, job.metadata.generation, outcome);
            }
            Note::StatusWritten(statuses) => metrics.record_counted_pods(job, &statuses[0], &statuses[1]),
            Note::FailureRecordChanged(record) => {
                memory.update_job_memory(uid, |remembered| remembered.failure_record = Some(record));
            }
            Note::PolicyActionsTaken(actions) => {
                for (action, pods) in actions {
                    metrics.record_failure_policy_action(action, pods);
                }
            }
            Note::RemovingFinalizers(pods) => memory.record_finalizer_removal(uid, pods),
            Note::FinalizersNotRemoved(pods) => memory.revert_finalizer_removal(uid, &pods),
            Note::JobFinished(end) => {
                memory.update_job_memory(uid, |remembered| remembered.has_written_job_end = true);
                metrics.record_finished_job(job, &end);
            }
            Note::SyncFinished { is_ok, action, elapsed: took } => metrics.record_sync(job, is_ok, action, took),
        }
    }

    fn observe_again(&self, snapshot: &Snapshot, (): ()) -> Option<SchedulingObjects> {
        // `None` if a cached Workload or `PodGroup` cannot be decoded.
        self.gangs.as_ref()?.scheduling_objects(&snapshot.job).ok()
    }

    fn record_plan(&self, snapshot: &Snapshot, plan: &Plan) {
        let owner = &snapshot.owner;
        self.record_awaited_write(&owner.namespace, &owner.uid);
        if plan.sync_plan.is_ok() {
            self.memory.store_per_pod_memory(
                &owner.uid,
                &snapshot.pod_uids_with_removed_finalizer,
                &snapshot.pod_finish_first_seen_at,
            );
        }
    }

    fn on_waiting(&self, key: &NamespacedName) {
        let Some(uid) = self.job_uid(key) else { return };
        let awaited = self.record_awaited_write(&key.namespace, &uid);
        // If the cache reached the awaited version before the wait was recorded, no event enqueues the Job.
        if self.record_awaited_write(&key.namespace, &uid) != awaited
            || (awaited.is_none() && !self.memory.job_memory(&uid).has_written_job_end)
        {
            self.queue.add(key.clone(), Priority::Normal);
        }
    }

    /// Enqueues a finished or deleted Job for the orphan loop, which also drops the state that this sync stored in memory.
    fn after_sync(&self, snapshot: &Snapshot) {
        let meta = &snapshot.job.metadata;
        let lives = |job: &Job| job.metadata.uid == meta.uid && !job.is_finished();
        let lives =
            self.job_informer.store().get(&meta.namespace, &meta.name).map(|job| job.is_some_and(|job| lives(&job)));
        if matches!(lives, Ok(false)) {
            self.orphans.add(OrphanKey::for_job(&meta.namespace, &meta.name, &meta.uid), Priority::Normal);
        }
    }

    fn child_uids(&self, snapshot: &Snapshot) -> HashSet<Uid> {
        self.child_pod_uids(&snapshot.owner.namespace, &snapshot.owner.uid)
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        let mut all: Vec<&dyn AnyInformer> = vec![self.job_informer.informer(), &self.pod_informer];
        all.extend(self.gangs.iter().flat_map(GangCaches::informers));
        all
    }
}
