//! The second half of counting: listed Pods without a finalizer are counted, and the Job ends once all Pods are counted.

use common::{conditions::seconds, prelude::*};
use jiff::Timestamp;

use super::conditions;
use crate::{
    jobs::{
        plan::{FirstStatusWrite, JobEnd, JobResult, PodCountsAfterScaling, SecondStatusWrite},
        snapshot::{SharedPod, Snapshot},
    },
    objects::{Job, JobStatus},
};

/// Moves UIDs that are not in `still_tracked` from the lists of a status to its counters. Returns whether a UID was moved.
///
/// Upstream: `pkg/controller/job`, `cleanUncountedPodsWithoutFinalizers`.
pub fn count_listed_pods_without_finalizer(status: &mut JobStatus, still_tracked: &HashSet<Uid>) -> bool {
    let settle = |named: &mut Vec<Uid>, counter: &mut i32| {
        let before = named.len();
        named.retain(|uid| still_tracked.contains(uid));
        let settled = before - named.len();
        *counter = counter.saturating_add(i32::try_from(settled).unwrap_or(i32::MAX));
        settled > 0
    };
    let succeeded = settle(&mut status.uncounted_terminated_pods.succeeded, &mut status.succeeded);
    let failed = settle(&mut status.uncounted_terminated_pods.failed, &mut status.failed);
    succeeded || failed
}

/// Decides the second status of a sync, and whether it contains the end of the Job. `stored` is the status on the server, and
/// `untracked` are the Pods of [`FirstStatusWrite::pod_positions_to_remove_finalizer_from`] that have lost their finalizers.
pub fn decide_second_status(
    snapshot: &Snapshot,
    tracked: &FirstStatusWrite,
    managed: &PodCountsAfterScaling,
    stored: &JobStatus,
    untracked: &[&SharedPod],
    now: Timestamp,
) -> SecondStatusWrite {
    let job = &*snapshot.job;
    let mut still_tracked = tracked.pod_uids_with_finalizer.clone();
    for pod in untracked {
        still_tracked.remove(&pod.meta().uid);
    }
    let mut status = stored.clone();
    let counts = count_listed_pods_without_finalizer(&mut status, &still_tracked);
    let is_all = untracked.len() == tracked.pod_positions_to_remove_finalizer_from.len() && !tracked.is_uid_list_full;
    let end = managed.job_end_to_write.as_ref().filter(|_| is_all);
    let end = end.filter(|end| add_end_to_status(job, &mut status, end, managed.terminating_pod_count, now)).cloned();
    let reason = match &end {
        Some(end) => Some(format!("{} ({})", end.terminal_condition_type(), end.reason)),
        None => counts.then(|| "Pods without finalizers are counted".to_owned()),
    };
    let surplus = |wanted: u32| i64::from(status.succeeded) > i64::from(wanted);
    let is_success = end.as_ref().is_some_and(|end| end.job_result == JobResult::Success);
    SecondStatusWrite {
        has_too_many_successes: is_success && job.completions.is_some_and(surplus),
        status_with_start_time: end
            .as_ref()
            .filter(|_| status.start_time.is_none())
            .map(|_| status_started_at_end(&status)),
        write_reason: reason,
        job_end: end,
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
pub fn add_end_to_status(job: &Job, status: &mut JobStatus, end: &JobEnd, terminating: usize, now: Timestamp) -> bool {
    if !status.uncounted_terminated_pods.is_empty() || terminating > 0 {
        return false;
    }
    let now = seconds::floor_to_second(now);
    conditions::set_end_condition(status, end.terminal_condition_type(), end, now);
    let wanted_nothing = job.suspend && job.completions == Some(0);
    if status.start_time.is_none() && !wanted_nothing {
        status.start_time = Some(now);
    }
    if end.job_result == JobResult::Success {
        status.completion_time = Some(status.start_time.map_or(now, |start| start.max(now)));
    }
    true
}
