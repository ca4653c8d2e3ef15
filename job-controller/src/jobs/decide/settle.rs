//! The second half of counting: what is named and has no finalizer any more counts; and the end, once all is counted.

use common::{
    conditions::{TRUE, seconds},
    map::HashSet,
    meta::Uid,
};
use jiff::Timestamp;

use super::suspend::{job_condition, put};
use crate::{
    jobs::plan::{End, Verdict},
    objects::{Job, Status},
};

/// Counts the uids that are named and not among `uncounted`, and says whether there were any.
///
/// Upstream: `pkg/controller/job`, `cleanUncountedPodsWithoutFinalizers`.
pub fn settle(status: &mut Status, uncounted: &HashSet<Uid>) -> bool {
    let settle = |named: &mut Vec<Uid>, counter: &mut i32| {
        let before = named.len();
        named.retain(|uid| uncounted.contains(uid));
        let settled = before - named.len();
        *counter = counter.saturating_add(i32::try_from(settled).unwrap_or(i32::MAX));
        settled > 0
    };
    let succeeded = settle(&mut status.uncounted.succeeded, &mut status.succeeded);
    let failed = settle(&mut status.uncounted.failed, &mut status.failed);
    succeeded || failed
}

/// Gives a Job that ended without ever having started its end for a start.
///
/// Early patch releases of servers 1.32 and 1.33 want one also of a suspended Job that wanted nothing
/// (kubernetes/kubernetes#132144).
pub fn start_at_end(status: &mut Status) {
    status.start_time = status.finished().and_then(|condition| condition.last_transition_time);
}

/// Makes the status say that the Job has ended, if nothing is left to be counted and no Pod is going any more.
///
/// The start of a Job that never ran, or is suspended, is its end, since the server wants one; a suspended Job that
/// wanted nothing needs none. No end is before the start, whatever the clocks of two controllers say.
/// Upstream: `pkg/controller/job`, `enactJobFinished`.
pub fn finish(job: &Job, status: &mut Status, end: &End, terminating: usize, at: Timestamp) -> bool {
    if !status.uncounted.is_empty() || terminating > 0 {
        return false;
    }
    let at = seconds::floor(at);
    put(&mut status.conditions, job_condition(end.terminal(), TRUE, &end.reason, &end.message, at));
    let wanted_nothing = job.suspend && job.completions == Some(0);
    if status.start_time.is_none() && !wanted_nothing {
        status.start_time = Some(at);
    }
    if end.verdict == Verdict::Success {
        status.completion_time = Some(status.start_time.map_or(at, |start| start.max(at)));
    }
    true
}
