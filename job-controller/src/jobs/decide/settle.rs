//! The second half of counting: listed Pods without a finalizer are counted, and the Job ends once all Pods are counted.

use common::{conditions::seconds, map::HashSet, meta::Uid};
use jiff::Timestamp;

use super::conditions;
use crate::{
    jobs::{
        plan::{Conclusion, End, Managed, Tracked, Verdict},
        snapshot::{PodRef, Snapshot},
    },
    objects::{Job, Status},
};

/// Moves the listed UIDs that are not in `still_tracked` from the lists to the counters. Returns whether any UID was moved.
///
/// Upstream: `pkg/controller/job`, `cleanUncountedPodsWithoutFinalizers`.
pub fn settle(status: &mut Status, still_tracked: &HashSet<Uid>) -> bool {
    let settle = |named: &mut Vec<Uid>, counter: &mut i32| {
        let before = named.len();
        named.retain(|uid| still_tracked.contains(uid));
        let settled = before - named.len();
        *counter = counter.saturating_add(i32::try_from(settled).unwrap_or(i32::MAX));
        settled > 0
    };
    let succeeded = settle(&mut status.named.succeeded, &mut status.succeeded);
    let failed = settle(&mut status.named.failed, &mut status.failed);
    succeeded || failed
}

/// Decides the second status of a sync, and the end. `stored` is the status on the server, and `untracked` are the Pods of
/// [`Tracked::untrack`] that have lost their finalizers.
pub fn conclude(
    snapshot: &Snapshot,
    tracked: &Tracked,
    managed: &Managed,
    stored: &Status,
    untracked: &[&PodRef],
    now: Timestamp,
) -> Conclusion {
    let job = &*snapshot.job;
    let mut still_tracked = tracked.still_tracked.clone();
    for pod in untracked {
        still_tracked.remove(&pod.meta().uid);
    }
    let mut status = stored.clone();
    let counts = settle(&mut status, &still_tracked);
    let is_all = untracked.len() == tracked.untrack.len() && !tracked.capped;
    let end = managed.end_to_write.as_ref().filter(|_| is_all);
    let end = end.filter(|end| finish(job, &mut status, end, managed.terminating, now)).cloned();
    let reason = match &end {
        Some(end) => Some(format!("{} ({})", end.terminal(), end.reason)),
        None => counts.then(|| "Pods without finalizers are counted".to_owned()),
    };
    let surplus = |wanted: u32| i64::from(status.succeeded) > i64::from(wanted);
    let is_success = end.as_ref().is_some_and(|end| end.verdict == Verdict::Success);
    Conclusion {
        has_surplus: is_success && job.completions.is_some_and(surplus),
        with_start: end.as_ref().filter(|_| status.start_time.is_none()).map(|_| start_at_end(&status)),
        reason,
        end,
        status,
    }
}

/// Returns the status of a Job that ended before it was started, with its end as its start time.
///
/// Early patch releases of Kubernetes 1.32 and 1.33 require a start time even for a suspended Job that wanted no Pods
/// (kubernetes/kubernetes#132144).
fn start_at_end(status: &Status) -> Status {
    let start_time = status.finished().and_then(|condition| condition.last_transition_time);
    Status { start_time, ..status.clone() }
}

/// Adds the end of the Job to the status, if all Pods are counted and none is terminating. Returns whether the end was added.
///
/// Servers require a start time, so a Job without one gets its end as its start time, except a suspended Job that wants no
/// Pods. The completion time is never before the start time, even if the clocks of two controllers differ. Upstream:
/// `pkg/controller/job`, `enactJobFinished`.
pub fn finish(job: &Job, status: &mut Status, end: &End, terminating: usize, now: Timestamp) -> bool {
    if !status.named.is_empty() || terminating > 0 {
        return false;
    }
    let now = seconds::floor(now);
    conditions::set_end(status, end.terminal(), end, now);
    let wanted_nothing = job.suspend && job.completions == Some(0);
    if status.start_time.is_none() && !wanted_nothing {
        status.start_time = Some(now);
    }
    if end.verdict == Verdict::Success {
        status.completion_time = Some(status.start_time.map_or(now, |start| start.max(now)));
    }
    true
}
