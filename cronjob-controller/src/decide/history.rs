//! Plans the deletion of finished Jobs beyond the history limits.

use std::sync::Arc;

use common::prelude::*;

use super::runs::{saw_completed_job_event, unrecorded_run_of_job};
use crate::{
    objects::{Job, JobOutcome},
    plan::{Action, DeletionReason, Snapshot},
};

/// Returns the finished Jobs to delete: the oldest complete Jobs and the oldest failed Jobs beyond the history limits.
pub(super) fn finished_jobs_beyond_history_limits(snapshot: &Snapshot) -> Vec<&Job> {
    let spec = &snapshot.cron_job.spec;
    let limits = [
        (JobOutcome::Complete, spec.successful_jobs_history_limit),
        (JobOutcome::Failed, spec.failed_jobs_history_limit),
    ];
    let mut surplus = Vec::new();
    for (end, limit) in limits {
        // API validation refuses negative limits. With a missing or negative limit, no Job is deleted.
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
        // The Job of an unrecorded run is kept, because it prevents a second start of the run.
        let counts = |job: &&Arc<Job>| {
            job.outcome() == Some(end) && !job.metadata.is_deleting() && unrecorded_run_of_job(snapshot, job).is_none()
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

/// Plans the deletion of a finished Job. With `is_active`, an Event reports that the Job finished if the deletion is refused.
pub(super) fn plan_finished_job_deletion(job: &Job, is_active: bool) -> Action {
    Action::DeleteJob {
        name: Text::new(&job.metadata.name),
        uid: job.metadata.uid.clone(),
        version: Some(job.metadata.resource_version),
        reason: DeletionReason::BeyondHistoryLimit,
        event_if_refused: job.outcome().filter(|_| is_active).map(|end| saw_completed_job_event(job, end)),
    }
}
