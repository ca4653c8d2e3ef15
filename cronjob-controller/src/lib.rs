//! The CronJob controller: creates a Job for each time at which the schedule of a CronJob fires.
//!
//! # What it promises
//!
//! For each scheduled time at most one Job is created, at that time or within `startingDeadlineSeconds` after it. After any
//! downtime at most one run is caught up: the last missed run. Under `Forbid`, no Job is created while another Job is active.
//! Under `Replace`, the active Job is deleted first. Finished Jobs are kept up to the history limits. No Job is created while the
//! CronJob is suspended or terminating. The controller never changes Jobs of other owners. Jobs that a user has created manually
//! from the CronJob stay unchanged until they finish; then they count towards the history limits.
//!
//! # How it is laid out
//!
//! ```text
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide.rs ──► Plan ──► act.rs ──► API server
//!                │                          ▲         (pure)         │
//!                │                          └─ answers ◄─ questions ─┘
//!                └──────────────◄── the next time of the schedule
//! ```
//!
//! [`schedule`] parses schedules and computes when they fire; [`due`] selects the run that is due.
//!
//! # Where it differs from upstream
//!
//! - A Job belongs to a CronJob by UID, not by name.
//! - The last missed run is found by a search, and not extrapolated from the first two runs. `@every` keeps its phase under a
//!   deadline and after a crash.
//! - Two firings within one minute, as of `@every 45s`, have the same Job name. The second is skipped without a record, so an
//!   interval below one minute starts at most one Job in each minute.
//! - Deletions name the UID as a precondition. A missing Job is not a failure, and a terminating Job is not deleted again.
//! - A sync waits until the caches show the writes of the previous sync.
//! - A status write after a live read has the version of that read as its precondition.
//! - If a Job was created and a crash prevented its record in the status, the Job is recorded later, regardless of changes of
//!   the schedule. The Job is kept until then. Its name and annotation identify the Job; a manually created Job is never a run.
//! - A refused deletion of an old Job is retried, and does not delay the next run.
//! - A run is skipped if an unrelated Job has the name of its Job.
//! - Messages of Events are truncated to 1,024 bytes.
//! - The timer of a run expires at its scheduled time; upstream adds 100 ms.

pub mod decide;
pub mod due;
pub mod objects;
pub mod plan;
pub mod schedule;
pub mod snapshot;

mod act;
mod metrics;
mod watch;
#[cfg(test)]
mod world;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    app::ProgramDefinition,
    metrics::Histogram,
    prelude::*,
    refs,
    second_writer::OwnedWrites,
    settings::{EXPECTATIONS_TIMEOUT, Tunable, WorkersFlag},
};
use jiff::Timestamp;

use crate::{
    act::PendingStatus,
    objects::{CRON_JOBS, CronJob, Job},
    plan::Plan,
    snapshot::Snapshot,
    watch::EventHandlers,
};

/// The values that `--tune` accepts for this crate.
pub const TUNABLES: &[Tunable] = &[EXPECTATIONS_TIMEOUT];

/// Number of workers that sync CronJobs concurrently; 5 by default.
pub const CONCURRENT_CRON_JOB_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-cron-job-syncs", 5, "How many CronJobs are synced at once");
/// The flags of this crate that set a number of workers.
pub const WORKERS_FLAGS: &[WorkersFlag] = &[CONCURRENT_CRON_JOB_SYNCS];

/// The loop that syncs CronJobs.
pub const CRON_JOB: LoopDefinition = LoopDefinition::new("cronjob-controller", "cronjob", start)
    .with_owned_writes(&[OwnedWrites::of_status("batch", "cronjobs")]);
/// The loops that this crate runs.
pub const LOOPS: &[LoopDefinition] = &[CRON_JOB];

/// Name, flags and loops of the binary.
pub const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "cronjob-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Creates the Jobs of CronJobs: one for each scheduled time.",
    loops: LOOPS,
    workers_flags: WORKERS_FLAGS,
    feature_gates: &[],
    tunables: TUNABLES,
    single_value_flags: &[],
};

/// Caches and memory of the loop that syncs CronJobs.
pub struct CronJobController {
    cron_jobs: Arc<Store<CronJob>>,
    jobs: Arc<Store<Job>>,
    ledger: Ledger,
    creation_skew: Histogram,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("cronjob");
    let workers = context.settings.worker_count(&CONCURRENT_CRON_JOB_SYNCS);
    let controller = CronJobController::new(context.clone(), queue.clone());
    Loop::start(CRON_JOB.name, context, Arc::new(controller), queue, workers)
}

impl CronJobController {
    /// Starts the informers; their handlers add keys to `queue`.
    pub fn new(context: LoopContext, queue: Queue<NamespacedName>) -> Self {
        let ledger = context.ledger();
        let cron_jobs: Arc<Store<CronJob>> = Arc::default();
        let watch = Arc::new(EventHandlers {
            queue,
            cron_jobs: Arc::clone(&cron_jobs),
            ledger: ledger.clone(),
            clock: context.clock.clone(),
            recorder: context.recorder.clone(),
        });
        context.start_informer(Arc::clone(&cron_jobs), handler_from_method(&watch, EventHandlers::on_cron_job_event));
        let jobs = context.start_informer(Arc::default(), handler_from_method(&watch, EventHandlers::on_job_event));
        Self { cron_jobs, jobs, ledger, creation_skew: metrics::register_job_creation_skew(&context.metrics) }
    }
}

impl Controller for CronJobController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let (cron_job, _) = self.ledger.read(&self.cron_jobs, key, WaitPolicy::AllWrites, |_| HashSet::default())?;
        let is_ours =
            |owner: &OwnerRef| refs::resolve_owner(owner, CRON_JOBS.kind, |_| Some(cron_job.clone())).is_some();
        let mut jobs = self.jobs.list_by_index(ByController, &IndexValue::for_controller(&cron_job.metadata))?;
        jobs.retain(|job| job.metadata.namespace == key.namespace && job.metadata.controller().is_some_and(is_ours));
        jobs.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let owner = Owner::new(CRON_JOBS, &cron_job.metadata);
        Ok(Snapshot { cron_job, owner, was_cron_job_read_live: false, jobs, jobs_read_live: BTreeMap::new(), now })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        let Some((snapshot, plan)) = act::read_live(snapshot, plan, io).await? else {
            return Ok(Requeue::AfterPlannedDelay);
        };
        let mut status = PendingStatus { status: plan.status.clone(), is_changed: plan.is_status_changed };
        let taken = act::take_actions(&snapshot, &plan, &mut status, io).await;
        if status.is_changed {
            let reason = plan.describe_status_changes();
            act::write_status(&snapshot.cron_job.metadata, &status.status, reason, io).await?;
        }
        taken?;
        // Live reads and requests take time, but the delay counts from the time of the snapshot.
        let elapsed = Duration::try_from(io.now().duration_since(snapshot.now)).unwrap_or_default();
        Ok(plan.requeue_after.map_or(Requeue::AfterPlannedDelay, |delay| Requeue::After(delay.saturating_sub(elapsed))))
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(CRON_JOBS, &snapshot.cron_job.metadata)
    }

    /// Drops the ledger record of a CronJob that was deleted during the sync, because no later event would drop the record.
    fn after_sync(&self, snapshot: &Snapshot) {
        let cron_job = &snapshot.cron_job.metadata;
        if !self.cron_jobs.contains_object(cron_job) {
            self.ledger.forget_owner(&cron_job.uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use common::{
        api::Api,
        gate::closed_write_gate,
        metrics::Metrics,
        prelude::*,
        runtime::{LoopParts, SharedValues},
        settings::OperatorSettings,
        store::CacheEntry,
    };
    use sandbox::Sandbox;
    use serde_json::json;

    use super::*;
    use crate::objects::CronJob;

    /// Returns a controller whose informers receive nothing, because its tests never wait.
    fn controller(clock: &Clock) -> CronJobController {
        let (_, gate) = closed_write_gate(clock.clone());
        let client = Sandbox::builder().clock(clock.clone()).build().client("test");
        let context = LoopContext {
            api: Api::new(client, clock.clone(), gate.clone(), "test"),
            recorder: EventRecorder::discarding_events("test", clock.clone()),
            settings: Arc::new(OperatorSettings::new()),
            metrics: Metrics::new(),
            sync_callbacks: None,
            write_sampler: None,
            shared_values: SharedValues::default(),
            parts: LoopParts::default(),
            clock: clock.clone(),
            write_gate: gate,
        };
        CronJobController::new(context, Queue::new(clock.clone(), BackoffSettings::default(), None))
    }

    fn cron_job(version: u64) -> CacheEntry<CronJob> {
        let cron = json!({"metadata": {"namespace": "shop", "name": "report", "uid": "u", "resourceVersion": version.to_string()},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {}}}}}});
        CacheEntry::Decoded(Arc::new(serde_json::from_value(cron).unwrap()))
    }

    /// With several threads, the cache may receive a write of this controller at any moment of `observe`.
    #[tokio::test(start_paused = true)]
    async fn a_snapshot_holds_each_write_that_the_ledger_takes_for_seen() {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 1);
        let controller = controller(&clock);
        let key = NamespacedName::new("shop", "report");
        controller.cron_jobs.put_entry(cron_job(1), &mut Vec::new());
        for number in 2..3000 {
            let (written, version) = (cron_job(number), ResourceVersion::parse(&number.to_string()));
            controller.ledger.record_write(&Uid::new("u"), CRON_JOBS, version);
            std::thread::scope(|scope| {
                scope.spawn(|| controller.cron_jobs.put_entry(written, &mut Vec::new()));
                let snapshot = loop {
                    if let Ok(snapshot) = controller.observe(&key, clock.now()) {
                        break snapshot;
                    }
                };
                assert_eq!(snapshot.cron_job.metadata.resource_version, version);
            });
        }
    }
}
