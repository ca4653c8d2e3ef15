//! The second half of counting: listed Pods without a finalizer are counted, and the Job ends once all Pods are counted.

use common::{conditions::seconds, prelude::*};
use jiff::Timestamp;

use super::conditions;
use crate::{
    jobs::{
        plan::{FirstStatusWrite, JobEnd, JobResult, SecondStatusWrite},
        snapshot::SharedPod,
    },
    objects::{Job, JobStatus},
};

/// Moves UIDs that are not in `uids_with_finalizer` from the lists of a status to its counters. Returns whether a UID was moved.
///
/// Upstream: `pkg/controller/job`, `cleanUncountedPodsWithoutFinalizers`.
pub fn count_listed_pods_without_finalizer(status: &mut JobStatus, uids_with_finalizer: &HashSet<Uid>) -> bool {
    let settle = |listed: &mut Vec<Uid>, counter: &mut i32| {
        let before = listed.len();
        listed.retain(|uid| uids_with_finalizer.contains(uid));
        let settled = before - listed.len();
        *counter = counter.saturating_add(i32::try_from(settled).unwrap_or(i32::MAX));
        settled > 0
    };
    let succeeded = settle(&mut status.uncounted_terminated_pods.succeeded, &mut status.succeeded);
    let failed = settle(&mut status.uncounted_terminated_pods.failed, &mut status.failed);
    succeeded || failed
}

/// Decides the second status of a sync, and whether it contains the end of the Job. `stored_status` is the status on the server,
/// and `pods_without_finalizer` are the Pods of [`FirstStatusWrite::pod_positions_to_remove_finalizer_from`] that have lost
/// their finalizers.
pub fn decide_second_status(
    job: &Job,
    first_status_write: &FirstStatusWrite,
    stored_status: &JobStatus,
    pods_without_finalizer: &[&SharedPod],
    now: Timestamp,
) -> SecondStatusWrite {
    let mut pod_uids_with_finalizer = first_status_write.pod_uids_with_finalizer.clone();
    for pod in pods_without_finalizer {
        pod_uids_with_finalizer.remove(&pod.meta().uid);
    }
    let mut status = stored_status.clone();
    let has_counted = count_listed_pods_without_finalizer(&mut status, &pod_uids_with_finalizer);
    let has_removed_all =
        pods_without_finalizer.len() == first_status_write.pod_positions_to_remove_finalizer_from.len();
    let terminating = first_status_write.status.terminating.unwrap_or(0);
    let job_end = first_status_write
        .job_end_to_write
        .clone()
        .filter(|_| has_removed_all && !first_status_write.is_uid_list_full)
        .filter(|job_end| add_end_to_status(job, &mut status, job_end, terminating, now));
    let write_reason = match &job_end {
        Some(job_end) => Some(format!("{} ({})", job_end.terminal_condition_type(), job_end.reason)),
        None => has_counted.then(|| "Pods without finalizers are counted".to_owned()),
    };
    let is_surplus = |completions: u32| i64::from(status.succeeded) > i64::from(completions);
    let is_success = job_end.as_ref().is_some_and(|job_end| job_end.job_result == JobResult::Success);
    let lacks_start_time = job_end.is_some() && status.start_time.is_none();
    SecondStatusWrite {
        has_too_many_successes: is_success && job.completions.is_some_and(is_surplus),
        status_with_start_time: lacks_start_time.then(|| status_started_at_end(&status)),
        write_reason,
        job_end,
        status,
    }
}

/// Returns the status with the time of the Job's end as its start time, for a Job that finished before it was started.
///
/// Early patch releases of Kubernetes 1.32 and 1.33 require a start time even for a suspended Job that wanted no Pods
/// (kubernetes/kubernetes#132144).
fn status_started_at_end(status: &JobStatus) -> JobStatus {
    let start_time = status.finished_condition().and_then(|condition| condition.last_transition_time);
    JobStatus { start_time, ..status.clone() }
}

/// Adds the end of the Job to the status, if all Pods are counted and no Pod is terminating. Returns true if it adds the end.
///
/// Servers require a start time. If a Job has none, the time of the end becomes its start time, except for a suspended Job that
/// wants no Pods. The completion time is never before the start time, even if the clocks of two controllers differ. Upstream:
/// `pkg/controller/job`, `enactJobFinished`.
pub fn add_end_to_status(
    job: &Job,
    status: &mut JobStatus,
    job_end: &JobEnd,
    terminating: i32,
    now: Timestamp,
) -> bool {
    if !status.uncounted_terminated_pods.is_empty() || terminating > 0 {
        return false;
    }
    let now = seconds::floor_to_second(now);
    conditions::set_end_condition(status, job_end.terminal_condition_type(), job_end, now);
    let wanted_nothing = job.suspend && job.completions == Some(0);
    if status.start_time.is_none() && !wanted_nothing {
        status.start_time = Some(now);
    }
    if job_end.job_result == JobResult::Success {
        status.completion_time = Some(status.start_time.map_or(now, |start| start.max(now)));
    }
    true
}
