//! Turns a snapshot into a plan, as a pure function, without I/O and clock.

mod create;
mod record;
pub mod runs;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::prelude::*;

pub use create::{parse_schedule_ignoring_unknown_time_zone, parse_schedule_with_time_zone};

use self::runs::{saw_completed_job_event, unrecorded_run_of_job};
use crate::{
    objects::{Job, JobOutcome},
    plan::{Action, DeletionReason, Plan, Snapshot},
};

/// Delay of the next sync if `status.active` lists more Jobs than one sync may read live.
const LOOKUP_PAUSE: Duration = Duration::from_secs(1);

/// Plans the deletion of old Jobs, the status, the Job of the due run, and the time of the next sync.
///
/// Upstream: `pkg/controller/cronjob`, `syncCronJob` and `cleanupFinishedJobs`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let status = &snapshot.cron_job.status;
    let active: BTreeSet<&Uid> = status.active.iter().map(|reference| &reference.uid).collect();
    let mut plan = Plan { status: status.clone(), ..Plan::default() };
    let surplus = finished_jobs_beyond_history_limits(snapshot);
    for job in &surplus {
        let uid = &job.metadata.uid;
        let outcome = job.status.outcome.filter(|_| active.contains(uid));
        plan.actions.push(Action::DeleteJob {
            name: Text::new(&job.metadata.name),
            uid: uid.clone(),
            version: Some(job.metadata.resource_version),
            reason: DeletionReason::BeyondHistoryLimit,
            event_if_refused: outcome.map(|outcome| saw_completed_job_event(job, outcome)),
        });
    }
    let surplus: BTreeSet<&Uid> = surplus.iter().map(|job| &job.metadata.uid).collect();
    let is_complete = record::plan_status(&mut plan, snapshot, &active, &surplus);
    if !plan.live_reads.is_empty() {
        plan.actions.clear();
        plan.requeue_after = create::delay_to_next_firing(snapshot);
        return plan;
    }
    plan.is_status_changed = plan.status != *status;
    if !is_complete {
        plan.reasons_for_no_job.push("not all active Jobs have been looked up yet".to_owned());
        plan.requeue_after = Some(LOOKUP_PAUSE);
    } else if !snapshot.cron_job.metadata.is_deleting() {
        create::plan_due_job(&mut plan, snapshot);
    }
    plan
}

/// Returns the finished Jobs to delete: the oldest complete Jobs and the oldest failed Jobs beyond the history limits.
fn finished_jobs_beyond_history_limits(snapshot: &Snapshot) -> Vec<&Job> {
    let spec = &snapshot.cron_job.spec;
    let limits = [
        (JobOutcome::Complete, spec.successful_jobs_history_limit),
        (JobOutcome::Failed, spec.failed_jobs_history_limit),
    ];
    let mut surplus = Vec::new();
    for (outcome, limit) in limits {
        // API validation refuses negative limits. With a missing or negative limit, no Job is deleted.
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
        // The Job of an unrecorded run is kept, because it prevents a second start of the run.
        let counts = |job: &&Arc<Job>| {
            job.status.outcome == Some(outcome)
                && !job.metadata.is_deleting()
                && unrecorded_run_of_job(snapshot, job).is_none()
        };
        let mut finished: Vec<&Job> = snapshot.jobs.iter().filter(counts).map(|job| &**job).collect();
        // Jobs without a start time count as the youngest.
        finished.sort_by(|a, b| {
            let age = |job: &Job| (job.status.start_time.is_none(), job.status.start_time);
            age(a).cmp(&age(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name))
        });
        finished.truncate(finished.len().saturating_sub(limit));
        surplus.append(&mut finished);
    }
    surplus
}

#[cfg(test)]
mod tests;
