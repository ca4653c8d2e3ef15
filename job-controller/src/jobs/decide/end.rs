//! Decides whether and how a Job ends.

use std::time::Duration;

use common::{conditions, pods::Phase};
use jiff::SignedDuration;

use super::failure::is_pod_failed;
use crate::{
    jobs::{
        plan::{JobEnd, JobResult, PodSummary, PodWrites, ScalingDecision},
        snapshot::Snapshot,
    },
    objects::{Job, condition_types},
};

/// Returns the end in the stored status, or else the end by the first rule that applies, such as the active deadline.
///
/// [`job_end_to_write`] decides later, after Pods are created or deleted, whether enough Pods have succeeded.
pub fn decide_end(snapshot: &Snapshot, pod_summary: &PodSummary) -> Option<JobEnd> {
    let job = &*snapshot.job;
    announced_end(job)
        .or_else(|| failing_pod(job, pod_summary))
        .or_else(|| {
            too_many_failures(job, pod_summary)
                .then(|| JobEnd::for_failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"))
        })
        .or_else(|| {
            let is_late = time_until_active_deadline(snapshot, pod_summary).is_some_and(|left| left.is_zero());
            is_late.then(|| JobEnd::for_failure("DeadlineExceeded", "Job was active longer than specified deadline"))
        })
        .or_else(|| failed_indexes(job, pod_summary))
        .or_else(|| {
            let rule = job
                .success_policy
                .as_ref()?
                .first_matching_rule_position(&pod_summary.completed_index_set, job.index_count())?;
            Some(JobEnd::new(JobResult::Success, "SuccessPolicy", &format!("Matched rules at index {rule}")))
        })
}

/// Returns the end that the stored status already announces.
fn announced_end(job: &Job) -> Option<JobEnd> {
    [(JobResult::Success, condition_types::SUCCESS_CRITERIA_MET), (JobResult::Failure, condition_types::FAILURE_TARGET)]
        .into_iter()
        .find_map(|(job_result, kind)| {
            let condition = conditions::get(&job.status.conditions, kind).filter(|c| c.is_true())?;
            let (reason, message) = (condition.reason.clone(), condition.message.clone());
            Some(JobEnd { job_result, reason, message, is_newly_decided: false })
        })
}

fn failing_pod(job: &Job, pod_summary: &PodSummary) -> Option<JobEnd> {
    let policy = job.pod_failure_policy.as_ref()?;
    let mut failed = pod_summary.pods.iter().map(|c| &*c.pod).filter(|pod| is_pod_failed(job, pod));
    let message = failed.find_map(|pod| policy.job_failure_message(pod))?;
    Some(JobEnd::for_failure("PodFailurePolicy", &message))
}

fn too_many_failures(job: &Job, pod_summary: &PodSummary) -> bool {
    let limit = usize::try_from(job.backoff_limit).unwrap_or(0);
    if pod_summary.failed_pod_count > limit {
        return true;
    }
    if !job.restarts_on_failure {
        return false;
    }
    let running = pod_summary.pods.iter().filter(|c| matches!(c.pod.phase, Phase::Running | Phase::Pending));
    let restarts: i64 = running.map(|c| i64::from(c.pod.total_restart_count)).sum();
    restarts > 0 && restarts >= i64::from(job.backoff_limit)
}

/// Returns the time until the active deadline; `None` without a deadline, or while the Job is suspended or has not started.
pub fn time_until_active_deadline(snapshot: &Snapshot, pod_summary: &PodSummary) -> Option<Duration> {
    let job = &*snapshot.job;
    let deadline = job.active_deadline_seconds.filter(|_| !job.suspend)?;
    let passed = snapshot.now.duration_since(pod_summary.start_time?);
    let left = SignedDuration::from_secs(deadline).saturating_sub(passed);
    Some(Duration::try_from(left).unwrap_or_default())
}

fn failed_indexes(job: &Job, pod_summary: &PodSummary) -> Option<JobEnd> {
    let failed = pod_summary.failed_index_set.as_ref()?.len();
    if job.max_failed_indexes.is_some_and(|maximum| failed > maximum as usize) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(JobEnd::for_failure("MaxFailedIndexesExceeded", message));
    }
    let all = failed + pod_summary.completed_index_set.len() >= job.index_count() as usize;
    (failed > 0 && all).then(|| JobEnd::for_failure("FailedIndexes", "Job has failed indexes"))
}

/// Returns the end of the Job that the status may announce after `pod_writes`: the decided end, or the success of a Job that has
/// reached `spec.completions` (without `spec.completions`: one success).
pub fn job_end_to_write(
    snapshot: &Snapshot,
    pod_summary: &PodSummary,
    scaling_decision: &ScalingDecision,
    pod_writes: &PodWrites,
    active_pod_count: usize,
) -> Option<JobEnd> {
    match scaling_decision {
        // After the end of the Job, a Pod that is not deleted yet, or that the cache does not show yet, would never be counted.
        ScalingDecision::DeleteAsFailed(pods_to_delete) | ScalingDecision::DeleteUncounted(pods_to_delete) => {
            let are_all_deleted = pod_writes.deleted_pod_count == pods_to_delete.len();
            let may_end = are_all_deleted && snapshot.pending_writes.is_none();
            pod_summary.decided_job_end.clone().filter(|_| may_end)
        }
        _ if pod_summary.decided_job_end.is_some() => None,
        _ => {
            let wanted = snapshot.job.completions.map_or(1, |completions| completions as usize);
            let is_complete = pod_summary.success_count >= wanted && active_pod_count == 0;
            is_complete.then(|| {
                JobEnd::new(JobResult::Success, "CompletionsReached", "Reached expected number of succeeded pods")
            })
        }
    }
}
