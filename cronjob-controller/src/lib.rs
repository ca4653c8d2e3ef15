//! CronJobs: a Job for each time at which a schedule fires.
//!
//! # What it promises
//!
//! For each scheduled time at most one Job is created, at that time and not later than `startingDeadlineSeconds` allows. After
//! any downtime at most one run is made up for: the last one that was missed. Under `Forbid` no Job is created while another
//! one is active; under `Replace` the active one is deleted first. Finished Jobs are kept up to the history limits. Nothing is
//! created while the CronJob is suspended or terminating. Jobs of other owners are never touched, and neither are Jobs that a
//! user has made from the CronJob by hand, until the history limits count them.
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
//! [`schedule`] reads schedules and computes when they fire; [`due`] chooses the run that is due.
//!
//! # Where it differs from upstream
//!
//! - A Job belongs to a CronJob by uid, not by name.
//! - The last missed run is found by search and not extrapolated from the first two. `@every` keeps its phase under a deadline,
//!   and after a crash.
//! - Two firings within a minute, as `@every 45s` has them, share a Job name. The later one is skipped, and nothing is recorded
//!   for it: an interval of less than a minute starts at most one Job in each minute.
//! - Deletions carry the uid as a precondition. A Job that is gone already is no failure, and a terminating one is not deleted
//!   again.
//! - A sync waits until the caches show the writes of the sync before.
//! - After a live read the status is written onto the version that was read.
//! - A Job that was created and not recorded is recorded, whatever the schedule is by then, and never deleted before. It is
//!   recognized by its name and its scheduled-time annotation; a Job that a user has made by hand is never taken for a run.
//! - A refused deletion of history is tried again, and does not delay the next run.
//! - Where another Job has the name of a run, that run is skipped.
//! - The messages of Events are cut after 1,024 bytes.
//! - The timer for a run is set to its scheduled time, without upstream's 100 ms on top.

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

use common::{
    app::Definition,
    consistency::Ledger,
    controller::{Controller, Loop, Observed},
    events::ObjectRef,
    informer::{AnyInformer, Informer, handler},
    io::{Failed, Io, Requeue},
    meta::{Key, Uid},
    metrics::Histogram,
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    second_writer::OwnedWrites,
    settings::{EXPECTATIONS_TIMEOUT, Tune, WorkersFlag},
    store::Store,
};
use jiff::Timestamp;

use crate::{
    act::Note,
    objects::{CRON_JOBS, CronJob, JOBS, Job},
    plan::Plan,
    snapshot::Snapshot,
    watch::Watch,
};

/// All values of this crate that `--tune` sets.
pub const TUNES: &[Tune] = &[EXPECTATIONS_TIMEOUT];

/// The number of CronJobs that are synced at once.
pub const CONCURRENT_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-cron-job-syncs", 5, "How many CronJobs are synced at once");
/// All flags of this crate for the number of objects that are synced at once.
pub const WORKERS: &[WorkersFlag] = &[CONCURRENT_SYNCS];

/// The loop of CronJobs.
pub const CRON_JOB: LoopDefinition =
    LoopDefinition::new("cronjob-controller", "cronjob", start).owning(&[OwnedWrites::status("batch", "cronjobs")]);
/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] = &[CRON_JOB];

/// The program.
pub const DEFINITION: Definition = Definition {
    name: "cronjob-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Starts the Jobs of CronJobs: one for each time of a schedule.",
    loops: LOOPS,
    workers: WORKERS,
    gates: &[],
    tunes: TUNES,
    flags: &[],
};

/// The controller.
pub struct CronJobController {
    crons: Informer<CronJob>,
    jobs: Informer<Job>,
    ledger: Ledger,
    creation_skew: Histogram,
}

fn start(context: Context) -> Arc<dyn Running> {
    let queue = context.queue("cronjob", Backoff::default());
    let workers = context.settings.workers(&CONCURRENT_SYNCS);
    let controller = CronJobController::new(context.clone(), queue.clone());
    Loop::start(CRON_JOB.name, context, Arc::new(controller), queue, workers)
}

impl CronJobController {
    /// Starts watching; keys go to `queue`.
    pub fn new(context: Context, queue: Queue<Key>) -> Self {
        let ledger = context.ledger();
        let crons: Arc<Store<CronJob>> = Arc::default();
        let watch = Arc::new(Watch {
            queue: queue.clone(),
            crons: Arc::clone(&crons),
            ledger: ledger.clone(),
            clock: context.clock.clone(),
            recorder: context.recorder.clone(),
        });
        let crons = context.informer(crons, handler(&watch, Watch::on_cron));
        let jobs = context.informer(Arc::default(), handler(&watch, Watch::on_job));
        Self { crons, jobs, ledger, creation_skew: metrics::creation_skew(&context.metrics) }
    }
}

impl Controller for CronJobController {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

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
        let meta = &snapshot.cron.metadata;
        (ObjectRef::new(CRON_JOBS, meta), meta.uid.clone())
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        match note {
            Note::Created(skew) => self.creation_skew.observe(skew.as_secs_f64()),
            Note::Recorded(version) => self.ledger.wrote(&snapshot.cron.metadata.uid, JOBS, version),
        }
    }

    /// The event of the deletion of a CronJob may have come before the last answer was noted.
    fn after_sync(&self, snapshot: &Snapshot) {
        let cron = &snapshot.cron.metadata;
        if !self.crons.store().shows(cron) {
            self.ledger.forget(&cron.uid);
        }
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&self.crons, &self.jobs]
    }
}
