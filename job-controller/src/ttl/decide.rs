//! Decides when a finished Job is deleted. Pure code: no requests, no clock, no randomness.

use std::{sync::Arc, time::Duration};

use common::prelude::*;
use jiff::{SignedDuration, Timestamp};

use crate::{jobs::plan::format_whole_seconds, objects::Job};

/// The input of one sync: a Job and the current time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Job as cached; the cache may be stale.
    pub job: Arc<Job>,
    /// The time at which the sync started.
    pub now: Timestamp,
}

/// The decision whether a Job is deleted now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The Job has not finished, is already terminating, or has no time to live.
    KeepJob,
    /// The sync fails, because the status does not contain the finish time.
    NoFinishTime,
    /// The time to live has not ended yet.
    WaitForExpiry {
        /// The time until the end of the time to live, never zero.
        time_to_expiry: Duration,
        /// Whether the finish time is in the future, because the clock of its writer is ahead.
        is_finish_time_in_future: bool,
    },
    /// The time to live has ended. The Job is deleted if a read from the API server confirms the decision.
    DeleteJob {
        /// The time since the end of the time to live.
        time_since_expiry: Duration,
    },
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        let is_to_stay = *self == Self::KeepJob;
        if is_to_stay { "the Job is not to be removed" } else { "the Job has finished" }.to_owned()
    }

    fn wait_reasons(&self) -> Vec<String> {
        match self {
            Self::KeepJob | Self::DeleteJob { .. } => Vec::new(),
            Self::NoFinishTime => vec!["the status does not contain the finish time".to_owned()],
            Self::WaitForExpiry { time_to_expiry, .. } => {
                vec![format!("it is removed in {}", format_whole_seconds(*time_to_expiry))]
            }
        }
    }

    fn requeue_after(&self) -> Option<Duration> {
        if let Self::WaitForExpiry { time_to_expiry, .. } = self { Some(*time_to_expiry) } else { None }
    }
}

/// The time at which a Job is deleted because its time to live ends, or the reason why it is not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The Job is not deleted: it has not finished, is already terminating, or has no time to live.
    NeverExpires,
    /// The Job has finished, and its status does not contain the finish time.
    NoFinishTime,
    /// The Job is deleted at this time, when its time to live ends.
    ExpiresAt(Timestamp),
}

/// Decides, from the end of a Job and its time to live, when the Job is deleted.
pub fn decide_expiry(job: &Job) -> Expiry {
    let Some(ttl) = job.ttl_seconds_after_finished.filter(|_| !job.metadata.is_deleting()) else {
        return Expiry::NeverExpires;
    };
    if !job.is_finished() {
        return Expiry::NeverExpires;
    }
    let Some(at) = finish_time(job) else { return Expiry::NoFinishTime };
    Expiry::ExpiresAt(at.saturating_add(SignedDuration::from_secs(ttl)).unwrap_or(Timestamp::MAX))
}

/// Returns the transition time of the condition `Complete` or `Failed`; `None` without such a time.
pub(super) fn finish_time(job: &Job) -> Option<Timestamp> {
    job.status.finished_condition()?.last_transition_time
}

/// Decides at the time `now` whether to delete a Job or to wait for the end of its time to live.
pub fn decide(job: &Job, now: Timestamp) -> Plan {
    match decide_expiry(job) {
        Expiry::NeverExpires => Plan::KeepJob,
        Expiry::NoFinishTime => Plan::NoFinishTime,
        Expiry::ExpiresAt(at) => match Duration::try_from(at.duration_since(now)) {
            Ok(time_to_expiry) if !time_to_expiry.is_zero() => Plan::WaitForExpiry {
                time_to_expiry,
                is_finish_time_in_future: finish_time(job).is_some_and(|at| at > now),
            },
            _ => Plan::DeleteJob { time_since_expiry: now.duration_since(at).unsigned_abs() },
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::world::{job, sync_time_plus_seconds};

    fn with(ttl: Value, conditions: Value) -> Job {
        let mut json = job("j").0;
        json["spec"]["ttlSecondsAfterFinished"] = ttl;
        json["status"]["conditions"] = conditions;
        serde_json::from_str(&json.to_string()).unwrap()
    }

    fn finished(kind: &str, second: i64) -> Value {
        json!({"type": kind, "status": "True", "lastTransitionTime": sync_time_plus_seconds(second).to_string()})
    }

    /// JOB-62.
    #[test]
    fn a_job_is_deleted_after_its_time_to_live_and_not_before() {
        let wait = |seconds: u64, is_finish_time_in_future: bool| Plan::WaitForExpiry {
            time_to_expiry: Duration::from_secs(seconds),
            is_finish_time_in_future,
        };
        let delete = |milliseconds: u64| Plan::DeleteJob { time_since_expiry: Duration::from_millis(milliseconds) };
        for (finish, ttl, now, plan) in [
            (0, 100, 40_000, wait(60, false)),
            (0, 100, 100_000, delete(0)),
            (0, 0, 200, delete(200)),
            (300, 0, 0, wait(300, true)),
        ] {
            let job = with(json!(ttl), json!([finished("Complete", finish)]));
            let now = sync_time_plus_seconds(0) + Duration::from_millis(now);
            assert_eq!(decide(&job, now), plan, "{finish} {ttl} {now}");
        }
    }

    /// JOB-62.
    #[test]
    fn only_finished_jobs_with_a_time_to_live_are_deleted() {
        let done = json!([finished("Failed", 0)]);
        assert_eq!(decide_expiry(&with(json!(null), done.clone())), Expiry::NeverExpires);
        assert_eq!(decide_expiry(&with(json!(5), json!([]))), Expiry::NeverExpires);
        assert_eq!(decide_expiry(&with(json!(5), json!([finished("SuccessCriteriaMet", 0)]))), Expiry::NeverExpires);
        assert_eq!(decide_expiry(&with(json!(5), done.clone())), Expiry::ExpiresAt(sync_time_plus_seconds(5)));
        let mut going = with(json!(5), done);
        going.metadata.deletion_timestamp = Some(sync_time_plus_seconds(1));
        assert_eq!(decide_expiry(&going), Expiry::NeverExpires);
    }

    /// JOB-62.
    #[test]
    fn the_first_end_condition_counts() {
        let both = json!([finished("Complete", 7), finished("Failed", 3)]);
        assert_eq!(decide_expiry(&with(json!(0), both)), Expiry::ExpiresAt(sync_time_plus_seconds(7)));
        let timeless = json!([{"type": "Complete", "status": "True"}]);
        assert_eq!(decide_expiry(&with(json!(0), timeless)), Expiry::NoFinishTime);
    }
}
