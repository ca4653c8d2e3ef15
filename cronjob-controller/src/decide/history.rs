//! Finished Jobs beyond the history limits.

use std::sync::Arc;

use common::intern::Text;

use super::runs::{saw_completed, unrecorded_run};
use crate::{
    objects::{End, Job},
    plan::{Reason, Step},
    snapshot::Snapshot,
};

/// The finished Jobs to delete: the oldest ones beyond the limit, of the complete and of the failed Jobs.
pub(super) fn surplus(snapshot: &Snapshot) -> Vec<&Job> {
    let spec = &snapshot.cron.spec;
    let limits = [(End::Complete, spec.successful_jobs_history_limit), (End::Failed, spec.failed_jobs_history_limit)];
    let mut surplus = Vec::new();
    for (end, limit) in limits {
        // API servers refuse negative limits. Without a limit nothing is deleted.
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
        // The Job of a run that is not recorded yet keeps the run from being started again.
        let counts = |job: &&Arc<Job>| {
            job.end() == Some(end) && !job.metadata.is_deleting() && unrecorded_run(snapshot, job).is_none()
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

/// Deletes a Job. If that is refused, the Job is only removed from the active ones, with the Event of any finished Job.
pub(super) fn delete(job: &Job, is_active: bool) -> Step {
    Step::Delete {
        name: Text::new(&job.metadata.name),
        uid: job.metadata.uid.clone(),
        version: Some(job.metadata.resource_version),
        reason: Reason::History,
        if_refused: job.end().filter(|_| is_active).map(|end| saw_completed(job, end)),
    }
}
