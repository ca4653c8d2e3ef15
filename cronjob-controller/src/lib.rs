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
mod observe;
mod watch;
#[cfg(test)]
mod world;

use std::sync::Arc;

use common::{app::ProgramDefinition, controller::Observation, metrics::Histogram, prelude::*, second_writer::OwnedWrites, settings::{EXPECTATIONS_TIMEOUT, Tunable, WorkersFlag}};
use jiff::Timestamp;

use crate::{
    act::CronJobNote,
    objects::{CRON_JOBS, CronJob, JOBS, Job},
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
    crons: Informer<CronJob>,
    jobs: Informer<Job>,
    ledger: Ledger,
    creation_skew: Histogram,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("cronjob", BackoffSettings::default());
    let workers = context.settings.worker_count(&CONCURRENT_CRON_JOB_SYNCS);
    let controller = CronJobController::new(context.clone(), queue.clone());
    Loop::start(CRON_JOB.name, context, Arc::new(controller), queue, workers)
}

impl CronJobController {
    /// Starts the informers; their handlers add keys to `queue`.
    pub fn new(context: LoopContext, queue: Queue<NamespacedName>) -> Self {
        let ledger = context.new_ledger();
        let crons: Arc<Store<CronJob>> = Arc::default();
        let watch = Arc::new(EventHandlers {
            queue: queue.clone(),
            cron_jobs: Arc::clone(&crons),
            ledger: ledger.clone(),
            clock: context.clock.clone(),
            recorder: context.recorder.clone(),
        });
        let crons = context.start_informer(crons, handler_from_method(&watch, EventHandlers::on_cron_job_event));
        let jobs = context.start_informer(Arc::default(), handler_from_method(&watch, EventHandlers::on_job_event));
        Self { crons, jobs, ledger, creation_skew: metrics::register_job_creation_skew(&context.metrics) }
    }
}

impl Controller for CronJobController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = CronJobNote;

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        self.observe(key, now)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, CronJobNote>) -> Result<Requeue, SyncError> {
        act::act(snapshot, plan, io).await
    }

    fn synced_object(snapshot: &Snapshot) -> (InvolvedObject, Uid) {
        let meta = &snapshot.cron_job.metadata;
        (InvolvedObject::new(CRON_JOBS, meta), meta.uid.clone())
    }

    fn apply_memory_note(&self, snapshot: &Snapshot, note: CronJobNote) {
        match note {
            CronJobNote::JobCreated(skew) => self.creation_skew.observe(skew.as_secs_f64()),
            CronJobNote::JobRecorded(version) => {
                self.ledger.record_write(&snapshot.cron_job.metadata.uid, JOBS, version);
            }
        }
    }

    /// Drops the ledger record of a CronJob that was deleted during the sync, because no later event would drop the record.
    fn after_sync(&self, snapshot: &Snapshot) {
        let cron = &snapshot.cron_job.metadata;
        if !self.crons.store().contains_object(cron) {
            self.ledger.forget_owner(&cron.uid);
        }
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&self.crons, &self.jobs]
    }
}
