//! The loop that syncs Jobs; [`decide`] lists the steps of a sync.
//!
//! [`memory`] holds the state that this process remembers for each Job, and `gangs` the caches of Workloads and `PodGroups`.

pub mod decide;
pub mod memory;
pub mod plan;
pub mod snapshot;

pub(crate) mod act;
mod gangs;
pub(crate) mod observe;
mod watch;

use std::sync::Arc;

use common::{
    consistency::STALE_CACHE_RECHECK_INTERVAL,
    pod_creation_pauses::PodCreationPauses,
    prelude::*,
    settings::{EXPECTATIONS_TIMEOUT, OperatorSettings},
};
use jiff::Timestamp;

use self::{
    act::finalizers::remove_finalizers,
    gangs::GangCaches,
    memory::JobMemoryByUid,
    plan::{Plan, SkipReason},
    snapshot::{DecisionSettings, FailureRecord, Snapshot},
    watch::EventHandlers,
};
use crate::{
    metrics::JobMetrics,
    objects::{JOBS, Job},
    options::{
        JOB_SYNC_BATCH_PERIOD, MAX_PODS_PER_SYNC, MAX_UNCOUNTED_PODS, MUTABLE_SCHEDULING_DIRECTIVES_FOR_SUSPENDED_JOBS,
        POD_FAILURE_BACKOFF, POD_FAILURE_BACKOFF_MAX, STALE_CONTROLLER_CONSISTENCY_JOB, WORKLOAD_WITH_JOB,
    },
    orphans::key::OrphanKey,
};

/// The controller that creates, deletes and counts the Pods of Jobs.
pub struct JobController {
    pub(crate) watch: Arc<EventHandlers>,
    gangs: Option<GangCaches>,
    pub(crate) memory: JobMemoryByUid,
    pub(crate) pod_creation_pauses: PodCreationPauses,
    decision_settings: DecisionSettings,
    wait_policy: WaitPolicy,
}

impl JobController {
    /// Builds the controller and registers its event handlers, which add keys to both queues.
    pub fn new(context: LoopContext, job_queue: Queue<NamespacedName>, orphan_queue: Queue<OrphanKey>) -> Self {
        let settings = &*context.settings;
        let decision_settings = decision_settings(settings);
        let job_informer = context.shared_informer::<Job>();
        let watch = Arc::new(EventHandlers {
            job_queue,
            orphan_queue,
            job_store: Arc::clone(job_informer.store()),
            pod_store: Arc::default(),
            ledger: context.ledger(),
            metrics: JobMetrics::new(&context.metrics),
            sync_batch_period: decision_settings.sync_batch_period,
        });
        job_informer.add_handler(handler_from_method(&watch, EventHandlers::on_job));
        let uses_gangs = settings.is_feature_gate_on(&WORKLOAD_WITH_JOB);
        let gangs = uses_gangs.then(|| GangCaches::start(&context, &watch));
        context.start_informer(Arc::clone(&watch.pod_store), handler_from_method(&watch, EventHandlers::on_pod));
        let waits_for_versions = settings.waits_for_own_writes(&STALE_CONTROLLER_CONSISTENCY_JOB);
        let pause_timeout = settings.tuned_duration(&EXPECTATIONS_TIMEOUT);
        Self {
            watch,
            gangs,
            memory: JobMemoryByUid::default(),
            pod_creation_pauses: PodCreationPauses::new(context.clock.clone(), pause_timeout),
            decision_settings,
            wait_policy: if waits_for_versions { WaitPolicy::WrittenVersions } else { WaitPolicy::ConflictsOnly },
        }
    }
}

fn decision_settings(settings: &OperatorSettings) -> DecisionSettings {
    DecisionSettings {
        max_uncounted_pods: settings.tuned_nonzero_count(&MAX_UNCOUNTED_PODS),
        max_pods_per_sync: settings.tuned_nonzero_count(&MAX_PODS_PER_SYNC),
        pod_failure_backoff: settings.tuned_duration(&POD_FAILURE_BACKOFF),
        pod_failure_backoff_max: settings.tuned_duration(&POD_FAILURE_BACKOFF_MAX),
        sync_batch_period: settings.tuned_duration(&JOB_SYNC_BATCH_PERIOD),
        clears_start_time_on_suspend: settings.is_feature_gate_on(&MUTABLE_SCHEDULING_DIRECTIVES_FOR_SUSPENDED_JOBS),
    }
}

/// The beginning of an error message about a finalizer that was not removed; the namespace and name of the Pod follow.
const REMOVING_FINALIZER: &str = "removing the finalizer of pod";

impl Controller for JobController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    const STALE_SYNC_SKIPS: Option<&'static str> = Some("job_controller_stale_sync_skips_total");

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let child_pod_uids = |uid: &Uid| self.child_pod_uids(&key.namespace, uid);
        let EventHandlers { job_store, pod_store, ledger, .. } = &*self.watch;
        let (job, pending_writes) = ledger.read(job_store, key, self.wait_policy, child_pod_uids)?;
        let uid = &job.metadata.uid;
        let mut snapshot = Snapshot {
            owner: Owner::new(JOBS, &job.metadata),
            job: Arc::clone(&job),
            pod_claims: DependentClaims::default(),
            unselected_pods: Vec::new(),
            pod_uids_with_removed_finalizer: Arc::default(),
            pod_finish_first_seen_at: Arc::default(),
            failure_record: FailureRecord::default(),
            scheduling_objects: None,
            pod_creation_pause: None,
            pending_writes: None,
            decision_settings: self.decision_settings,
            now,
        };
        if job.is_finished() || job.managed_by.is_some() {
            return Ok(snapshot);
        }
        let memory = self.memory.job_memory(uid);
        if memory.has_written_job_end {
            let why = "the cache does not show yet that the Job has finished";
            return Err(NoSnapshot::waiting_because(why, STALE_CACHE_RECHECK_INTERVAL));
        }
        let owned_pods = pod_store.list_by_index(ByController, &IndexValue::for_controller(&job.metadata))?;
        let first_seen_at = observe::finish_times_first_seen(memory.pod_finish_first_seen_at, &owned_pods, now);
        let removed = observe::removals_not_cached(memory.pod_uids_with_removed_finalizer, &owned_pods);
        let reconstruct = || observe::reconstruct_failures(&job, &owned_pods, &first_seen_at);
        snapshot.failure_record = memory.failure_record.unwrap_or_else(reconstruct);
        snapshot.pod_uids_with_removed_finalizer = removed;
        snapshot.pod_finish_first_seen_at = first_seen_at;
        snapshot.scheduling_objects = self.gangs.as_ref().map(|gangs| gangs.scheduling_objects(&job)).transpose()?;
        snapshot.pod_creation_pause = self.pod_creation_pauses.current_pause(uid, job.metadata.generation);
        snapshot.pending_writes = pending_writes;
        (snapshot.pod_claims, snapshot.unselected_pods) =
            observe::claim_pods(&snapshot.owner, &job.selector, owned_pods, self.orphan_pods(&job));
        Ok(snapshot)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        let Snapshot { job, owner, .. } = snapshot;
        // These Pods lose their finalizers even if the Job is not synced, for example because its selector is invalid.
        let why = "the terminating Job does not count this Pod";
        let pods = plan.uncounted_pods_to_remove_finalizer_from.iter().collect();
        let finalizer_removal = remove_finalizers(&owner.uid, pods, why, io).await;
        finalizer_removal.record_denied_removal_event(io);

        let sync_plan = match &plan.sync_plan {
            Ok(sync_plan) => sync_plan,
            Err(skip_reason) => {
                match skip_reason {
                    SkipReason::Finished | SkipReason::ManagedExternally(_) => {}
                    SkipReason::UnknownCompletionMode => {
                        let message = "Skipped Job sync because completion mode is unknown";
                        io.record_event(EventType::Warning, "UnknownCompletionMode", message);
                    }
                    SkipReason::InvalidSelector(problem) => io.update_memory(|_| {
                        let key = job.metadata.key();
                        tracing::error!(logger = "job", key = %key, err = %problem, "couldn't convert Job selector");
                    }),
                }
                return finalizer_removal.first_error(REMOVING_FINALIZER).map_or(Ok(Requeue::AfterPlannedDelay), Err);
            }
        };
        // The value of the metric label `action` if the sync fails before it creates or deletes Pods.
        let mut action = "reconciling";
        let outcome = act::sync(snapshot, sync_plan, &finalizer_removal, &mut action, io).await;
        let elapsed = io.now().duration_since(snapshot.now);
        io.update_memory(|controller| controller.watch.metrics.record_sync(job, outcome.is_ok(), action, elapsed));
        outcome
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(JOBS, &snapshot.job.metadata)
    }

    fn child_uids(&self, snapshot: &Snapshot) -> HashSet<Uid> {
        self.child_pod_uids(&snapshot.owner.namespace, &snapshot.owner.uid)
    }

    fn record_plan(&self, snapshot: &Snapshot, plan: &Plan) {
        if plan.sync_plan.is_ok() {
            self.memory.store_per_pod_memory(
                &snapshot.owner.uid,
                &snapshot.pod_uids_with_removed_finalizer,
                &snapshot.pod_finish_first_seen_at,
            );
        }
    }

    /// Enqueues a finished or deleted Job for the orphan loop, which also drops the state that this sync stored in memory.
    fn after_sync(&self, snapshot: &Snapshot) {
        let meta = &snapshot.job.metadata;
        let is_unfinished = |job: Arc<Job>| job.metadata.uid == meta.uid && !job.is_finished();
        if let Ok(job) = self.watch.job_store.get(&meta.namespace, &meta.name)
            && !job.is_some_and(is_unfinished)
        {
            self.watch.orphan_queue.add(OrphanKey::for_job(meta), Priority::Normal);
        }
    }
}
