//! Decides whether and how a Job ends.

use std::time::Duration;

use common::{conditions, pods::Phase};
use jiff::SignedDuration;

use super::failure::is_failed;
use crate::{
    jobs::{
        plan::{End, Situation, Verdict},
        snapshot::Snapshot,
    },
    objects::{Job, kinds},
};

/// Returns the end that the finished Pods imply, by the first rule that applies.
///
/// [`completes`] decides later, after Pods are created or deleted, whether enough Pods have succeeded.
pub fn decided_end(snapshot: &Snapshot, situation: &Situation) -> Option<End> {
    let job = &*snapshot.job;
    stored(job)
        .or_else(|| failing_pod(job, situation))
        .or_else(|| {
            too_many_failures(job, situation)
                .then(|| End::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"))
        })
        .or_else(|| {
            let is_late = time_left(snapshot, situation).is_some_and(|left| left.is_zero());
            is_late.then(|| End::failure("DeadlineExceeded", "Job was active longer than specified deadline"))
        })
        .or_else(|| failed_indexes(job, situation))
        .or_else(|| {
            let rule = job.success_policy.as_ref()?.met_by(&situation.completed, job.indexes())?;
            Some(End::new(Verdict::Success, "SuccessPolicy", &format!("Matched rules at index {rule}")))
        })
}

/// Returns the end that the stored status already announces.
fn stored(job: &Job) -> Option<End> {
    [(Verdict::Success, kinds::SUCCESS_CRITERIA_MET), (Verdict::Failure, kinds::FAILURE_TARGET)].into_iter().find_map(
        |(verdict, kind)| {
            let condition = conditions::get(&job.status.conditions, kind).filter(|c| c.is_true())?;
            let (reason, message) = (condition.reason.clone(), condition.message.clone());
            Some(End { verdict, reason, message, is_new: false })
        },
    )
}

fn failing_pod(job: &Job, situation: &Situation) -> Option<End> {
    let policy = job.failure_policy.as_ref()?;
    let mut failed = situation.pods.iter().map(|c| &*c.pod).filter(|pod| is_failed(job, pod));
    let message = failed.find_map(|pod| policy.fails_job(pod))?;
    Some(End::failure("PodFailurePolicy", &message))
}

fn too_many_failures(job: &Job, situation: &Situation) -> bool {
    let limit = usize::try_from(job.backoff_limit).unwrap_or(0);
    if situation.failed > limit {
        return true;
    }
    if !job.restarts_on_failure {
        return false;
    }
    let running = situation.pods.iter().filter(|c| matches!(c.pod.phase, Phase::Running | Phase::Pending));
    let restarts: i64 = running.map(|c| i64::from(c.pod.restarted)).sum();
    restarts > 0 && restarts >= i64::from(job.backoff_limit)
}

/// Returns the time until the active deadline; `None` without a deadline, or while the Job is suspended or has not started.
pub fn time_left(snapshot: &Snapshot, situation: &Situation) -> Option<Duration> {
    let job = &*snapshot.job;
    let deadline = job.active_deadline_seconds.filter(|_| !job.suspend)?;
    let passed = snapshot.now.duration_since(situation.start_time?);
    let left = SignedDuration::from_secs(deadline).saturating_sub(passed);
    Some(Duration::try_from(left).unwrap_or_default())
}

fn failed_indexes(job: &Job, situation: &Situation) -> Option<End> {
    let failed = situation.failed_indexes.as_ref()?.len();
    if job.max_failed_indexes.is_some_and(|most| failed > most as usize) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(End::failure("MaxFailedIndexesExceeded", message));
    }
    let all = failed + situation.completed.len() >= job.indexes() as usize;
    (failed > 0 && all).then(|| End::failure("FailedIndexes", "Job has failed indexes"))
}

/// Whether enough Pods have succeeded to complete the Job, and no Pod is active.
pub fn completes(job: &Job, situation: &Situation, active: usize) -> bool {
    let enough = match job.completions {
        Some(completions) => situation.succeeded >= completions as usize,
        None => situation.succeeded > 0,
    };
    enough && active == 0
}
