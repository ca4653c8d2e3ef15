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
//! watch.rs ──► queue ──► observe ──► Snapshot ──► decide.rs ──► Plan ──► act ──► API server
//!                │                       ▲         (pure)         │
//!                │                       └─ answers ◄─ questions ─┘
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

mod act;
mod metrics;
mod watch;
#[cfg(test)]
mod world;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    app::ProgramDefinition,
    metrics::Histogram,
    prelude::*,
    refs,
    second_writer::OwnedWrites,
    settings::{EXPECTATIONS_TIMEOUT, WorkersFlag},
};
use jiff::Timestamp;

use crate::{
    act::PendingStatus,
    objects::{CRON_JOBS, Job},
    plan::{LiveRead, Plan, Snapshot},
    watch::EventHandlers,
};

/// Number of workers that sync CronJobs concurrently; 5 by default.
pub const CONCURRENT_CRON_JOB_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-cron-job-syncs", 5, "How many CronJobs are synced at once");

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
    workers_flags: &[CONCURRENT_CRON_JOB_SYNCS],
    feature_gates: &[],
    tunables: &[EXPECTATIONS_TIMEOUT],
    single_value_flags: &[],
};

/// Caches and memory of the loop that syncs CronJobs.
pub struct CronJobController {
    watch: Arc<EventHandlers>,
    jobs: Arc<Store<Job>>,
    creation_skew: Histogram,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("cronjob");
    let workers = context.settings.worker_count(&CONCURRENT_CRON_JOB_SYNCS);
    let controller = CronJobController::new(&context, queue.clone());
    Loop::start(CRON_JOB.name, context, Arc::new(controller), queue, workers)
}

impl CronJobController {
    /// Starts the informers; their handlers add keys to `queue`.
    pub fn new(context: &LoopContext, queue: Queue<NamespacedName>) -> Self {
        let watch = Arc::new(EventHandlers {
            queue,
            cron_jobs: Arc::default(),
            ledger: context.ledger(),
            clock: context.clock.clone(),
            recorder: context.recorder.clone(),
        });
        let cron_jobs = Arc::clone(&watch.cron_jobs);
        context.start_informer(cron_jobs, handler_from_method(&watch, EventHandlers::on_cron_job_event));
        Self {
            jobs: context.start_informer(Arc::default(), handler_from_method(&watch, EventHandlers::on_job_event)),
            watch,
            creation_skew: metrics::register_job_creation_skew(&context.metrics),
        }
    }
}

impl Controller for CronJobController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let EventHandlers { cron_jobs, ledger, .. } = &*self.watch;
        let (cron_job, _) = ledger.read(cron_jobs, key, WaitPolicy::AllWrites, |_| HashSet::default())?;
        let resolve = |owner: &OwnerRef| refs::resolve_owner(owner, CRON_JOBS.kind(), |_| Some(Arc::clone(&cron_job)));
        let mut jobs = self.jobs.list_by_index(ByController, &IndexValue::for_controller(&cron_job.metadata))?;
        jobs.retain(|job| {
            job.metadata.namespace == key.namespace && job.metadata.controller().and_then(resolve).is_some()
        });
        jobs.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        Ok(Snapshot {
            owner: Owner::new(CRON_JOBS, &cron_job.metadata),
            cron_job,
            was_cron_job_read_live: false,
            jobs,
            jobs_read_live: BTreeMap::new(),
            now,
        })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Sends the requests of a plan, and returns the time of the next sync. After live reads, decides again with their results.
    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        let mut snapshot = Cow::Borrowed(snapshot);
        let mut plan = Cow::Borrowed(plan);
        // Each object is read live at most once, so the loop ends.
        while !plan.live_reads.is_empty() {
            for live_read in &plan.live_reads {
                match live_read {
                    LiveRead::CronJob => {
                        let live = act::read_cron_job(&snapshot.cron_job, live_read.reason_text(), io).await?;
                        let Some(live) = live else { return Ok(Requeue::AfterPlannedDelay) };
                        let snapshot = snapshot.to_mut();
                        snapshot.cron_job = live;
                        snapshot.was_cron_job_read_live = true;
                    }
                    LiveRead::Job(name) => {
                        let found = act::read_job(&snapshot, name, live_read.reason_text(), io).await?;
                        snapshot.to_mut().jobs_read_live.insert(name.clone(), found);
                    }
                }
            }
            plan = Cow::Owned(decide::decide(&snapshot));
        }

        let mut pending_status = PendingStatus { status: plan.status.clone(), is_changed: plan.is_status_changed };
        let taken = act::take_actions(&snapshot, &plan, &mut pending_status, io).await;
        if pending_status.is_changed {
            let reason = plan.describe_status_changes();
            act::write_status(&snapshot.cron_job.metadata, &pending_status.status, reason, io).await?;
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
        if !self.watch.cron_jobs.contains_object(cron_job) {
            self.watch.ledger.forget_owner(&cron_job.uid);
        }
    }
}

#[cfg(test)]
mod tests;
