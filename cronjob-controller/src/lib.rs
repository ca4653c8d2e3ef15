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
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide.rs ──► Plan ──► sequence.rs ──► API server
//!                │                          ▲         (pure)         │          (pure)
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
pub mod error;
pub mod objects;
pub mod plan;
pub mod schedule;
pub mod snapshot;

mod metrics;
mod observe;
mod sequence;
mod watch;

use std::{sync::Arc, time::Duration};

use common::{
    app::Definition,
    consistency::Ledger,
    controller::{Explanation, Loop, Observed, Sequenced},
    events::ObjectRef,
    informer::{AnyInformer, Informer},
    meta::{Key, Uid},
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    sequence::{Executor, Sequence},
    settings::{Tune, TuneValue, WorkersFlag},
    store::{Store, by_controller},
};
use jiff::Timestamp;

use crate::{
    error::Error,
    metrics::ControllerMetrics,
    objects::{CRON_JOBS, CronJob, JOBS, Job},
    plan::Plan,
    sequence::Note,
    snapshot::Snapshot,
    watch::Watch,
};

/// The position of the index of Jobs by the uid of their controller.
pub(crate) const JOBS_BY_OWNER: usize = 0;

/// How long to wait for the caches to show a write of this process before syncing without it.
pub const EXPECTATIONS_TIMEOUT: Tune = Tune {
    name: "expectations-timeout",
    default: TuneValue::Duration(Duration::from_mins(5)),
    help: "How long to wait for the cache to show a write of this process before syncing without it",
};
/// All values of this crate that `--tune` sets.
pub const TUNES: &[Tune] = &[EXPECTATIONS_TIMEOUT];

/// The number of CronJobs that are synced at once.
pub const CONCURRENT_SYNCS: WorkersFlag =
    WorkersFlag { name: "concurrent-cron-job-syncs", default: 5, min: 1, help: "How many CronJobs are synced at once" };
/// All flags of this crate for the number of objects that are synced at once.
pub const WORKERS: &[WorkersFlag] = &[CONCURRENT_SYNCS];

/// The loop of CronJobs.
pub const CRON_JOB: LoopDefinition = LoopDefinition {
    name: "cronjob-controller",
    alias: "cronjob",
    client: "cronjob-controller",
    component: "cronjob-controller",
    start,
};
/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] = &[CRON_JOB];

/// The program.
pub const DEFINITION: Definition = Definition {
    name: "cronjob-controller",
    about: "Starts the Jobs of CronJobs: one for each time of a schedule.",
    loops: LOOPS,
    workers: WORKERS,
    gates: &[],
    tunes: TUNES,
    flags: &[],
};

/// The controller.
pub struct CronJobController {
    queue: Queue<Key>,
    crons: Informer<CronJob>,
    jobs: Informer<Job>,
    ledger: Ledger,
    executor: Executor,
    metrics: ControllerMetrics,
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
        let ledger = Ledger::new(context.clock.clone(), context.settings.duration(&EXPECTATIONS_TIMEOUT));
        let crons = Arc::new(Store::new(&[]));
        let watch = Arc::new(Watch {
            queue: queue.clone(),
            crons: Arc::clone(&crons),
            ledger: ledger.clone(),
            clock: context.clock.clone(),
            recorder: context.recorder.clone(),
        });
        let on_cron = Arc::clone(&watch);
        let config = context.caches();
        let crons = Informer::start_with(
            context.api.clone(),
            config.clone(),
            crons,
            vec![Box::new(move |event, origin| on_cron.on_cron(event, origin))],
        );
        let jobs = Informer::start(
            context.api.clone(),
            config,
            &[by_controller()],
            vec![Box::new(move |event, origin| watch.on_job(event, origin))],
        );
        let metrics = ControllerMetrics::new(&context.metrics);
        let executor = Executor::new(&context, Some(ledger.clone()));
        Self { queue, crons, jobs, ledger, executor, metrics }
    }
}

/// What the plan for a CronJob says, with the requests that carry it out.
pub fn explain(snapshot: &Snapshot) -> Explanation {
    let plan = decide::decide(snapshot);
    common::controller::explain(&plan, &mut sequence::sequence(snapshot, &plan), snapshot.now)
}

impl Sequenced for CronJobController {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;
    type Error = Error;

    fn observe(&self, key: &Key, now: Timestamp) -> Result<Observed<Snapshot>, Error> {
        self.observe(key, now)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
        sequence::sequence(snapshot, plan)
    }

    fn time(snapshot: &Snapshot) -> Timestamp {
        snapshot.now
    }

    fn object(snapshot: &Snapshot) -> (ObjectRef, Uid) {
        let meta = &snapshot.cron.metadata;
        (ObjectRef::new(CRON_JOBS, meta), meta.uid.clone())
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        match note {
            Note::Created(skew) => self.metrics.observe_skew(skew),
            Note::Recorded(version) => self.ledger.wrote(&snapshot.cron.metadata.uid, JOBS, version),
        }
    }

    fn fresh(&self, _: &Snapshot, (): ()) {}

    fn ends(&self) -> bool {
        self.queue.is_closed()
    }

    fn executor(&self) -> &Executor {
        &self.executor
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&self.crons, &self.jobs]
    }
}
