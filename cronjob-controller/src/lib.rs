//! CronJobs: a Job for each time of a schedule.
//!
//! # What it promises
//!
//! For each time at which the schedule of a CronJob fires at most one Job is started, at that time and not later than
//! `startingDeadlineSeconds` allows; after any downtime at most one is made up for, the last that was missed. Under `Forbid`
//! none is started while another one runs, under `Replace` the running one goes first. Of Jobs that have ended as many are kept
//! as the history limits say. Nothing is started while the CronJob is suspended or going. Other owners' Jobs are never touched.
//!
//! # How it is laid out
//!
//! ```text
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide.rs ──► Plan ──► act.rs ──► API server
//!                │            ▲                       (pure)         │
//!                │            └── answers ◄── live reads ◄── questions ┘
//!                └──────────────◄── the next time of the schedule
//! ```
//!
//! [`schedule`] reads schedules and says when they fire; [`due`] says which run is due.
//!
//! # Where it differs from upstream
//!
//! - A Job belongs to a CronJob by uid, not by name.
//! - The last run missed is found, and not extrapolated from the first two; `@every` keeps its phase under a deadline.
//! - Deletions name the uid they mean; a Job that is gone already is no failure, and one that is going is not deleted again.
//! - A sync waits until the caches show what the one before wrote.
//! - After a live read the status is written onto the version that was read.
//! - A Job that was started and not recorded is recorded, whatever the schedule is by then, and never deleted before.
//! - Deletions of history that fail are tried again.
//! - Where the name of a run is taken by somebody else's Job, the next run is waited for.

pub mod decide;
pub mod due;
pub mod error;
pub mod objects;
pub mod plan;
pub mod schedule;
pub mod snapshot;

mod act;
mod metrics;
mod observe;
mod watch;

use std::{sync::Arc, time::Duration};

use common::{
    app::Definition,
    consistency::Ledger,
    controller::{Controller, Loop, Observed, Requeue},
    informer::{AnyInformer, Informer},
    meta::Key,
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    settings::{Tune, TuneValue, WorkersFlag},
    store::{Store, by_controller},
};
use jiff::Timestamp;

use crate::{
    error::Error,
    metrics::ControllerMetrics,
    objects::{CronJob, Job},
    plan::Plan,
    snapshot::Snapshot,
    watch::Watch,
};

/// Position of the index of Jobs by the uid of their controller.
pub(crate) const JOBS_BY_OWNER: usize = 0;

/// After how long a write that no cache shows is waited for no more.
pub const EXPECTATIONS_TIMEOUT: Tune = Tune {
    name: "expectations-timeout",
    default: TuneValue::Duration(Duration::from_mins(5)),
    help: "After how long a write of its own that its caches do not show is waited for no more",
};
/// All values of this crate that can be tuned.
pub const TUNES: &[Tune] = &[EXPECTATIONS_TIMEOUT];

/// The flag that says how many CronJobs are synced at once.
pub const CONCURRENT_SYNCS: WorkersFlag =
    WorkersFlag { name: "concurrent-cron-job-syncs", default: 5, min: 1, help: "How many CronJobs are synced at once" };
/// All flags of this crate that say how many objects are synced at once.
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
    context: Context,
    crons: Informer<CronJob>,
    jobs: Informer<Job>,
    ledger: Ledger,
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
            queue,
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
        Self { context, crons, jobs, ledger, metrics }
    }
}

impl Controller for CronJobController {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Error = Error;

    fn observe(&self, key: &Key, now: Timestamp) -> Result<Observed<Snapshot>, Error> {
        self.look(key, now)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(&self, snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        self.carry_out(snapshot, plan).await
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&self.crons, &self.jobs]
    }
}
