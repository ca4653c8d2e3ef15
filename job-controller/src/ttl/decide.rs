//! Decides when a finished Job is deleted.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::plan::Plan;
use crate::objects::Job;

/// Whether and when the time to live deletes a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The Job is not deleted: it has not finished, is already terminating, or has no time to live.
    Stays,
    /// The Job has finished, and its status does not contain the finish time.
    Unknown,
    /// The Job is deleted at this time, when its time to live ends.
    Expires(Timestamp),
}

/// Decides whether and when a Job is deleted.
pub fn fate(job: &Job) -> Fate {
    let Some(ttl) = job.ttl_seconds_after_finished.filter(|_| !job.metadata.is_deleting()) else { return Fate::Stays };
    if !job.is_finished() {
        return Fate::Stays;
    }
    let Some(at) = finish_time(job) else { return Fate::Unknown };
    Fate::Expires(at.saturating_add(SignedDuration::from_secs(ttl)).unwrap_or(Timestamp::MAX))
}

/// Returns the transition time of the condition `Complete` or `Failed`; `None` without such a time.
pub(super) fn finish_time(job: &Job) -> Option<Timestamp> {
    job.status.finished()?.last_transition_time
}

/// Decides the plan for a Job at `now`.
pub fn decide(job: &Job, now: Timestamp) -> Plan {
    match fate(job) {
        Fate::Stays => Plan::Nothing,
        Fate::Unknown => Plan::Unknown,
        Fate::Expires(at) => match Duration::try_from(at.duration_since(now)) {
            Ok(left) if !left.is_zero() => Plan::Wait { left, is_ahead: finish_time(job).is_some_and(|at| at > now) },
            _ => Plan::Remove { late: now.duration_since(at).unsigned_abs() },
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::world::{at, job};

    fn with(ttl: Value, conditions: Value) -> Job {
        let mut json = job("j").0;
        json["spec"]["ttlSecondsAfterFinished"] = ttl;
        json["status"]["conditions"] = conditions;
        serde_json::from_str(&json.to_string()).unwrap()
    }

    fn finished(kind: &str, second: i64) -> Value {
        json!({"type": kind, "status": "True", "lastTransitionTime": at(second).to_string()})
    }

    /// JOB-62.
    #[test]
    fn a_job_is_deleted_after_its_time_to_live_and_not_before() {
        for (finish, ttl, now, plan) in [
            (0, 100, at(40), Plan::Wait { left: Duration::from_secs(60), is_ahead: false }),
            (0, 100, at(100), Plan::Remove { late: Duration::ZERO }),
            (0, 0, at(0) + Duration::from_millis(200), Plan::Remove { late: Duration::from_millis(200) }),
            (300, 0, at(0), Plan::Wait { left: Duration::from_secs(300), is_ahead: true }),
        ] {
            let job = with(json!(ttl), json!([finished("Complete", finish)]));
            assert_eq!(decide(&job, now), plan, "{finish} {ttl} {now}");
        }
    }

    /// JOB-62.
    #[test]
    fn only_finished_jobs_with_a_time_to_live_are_deleted() {
        let done = json!([finished("Failed", 0)]);
        assert_eq!(fate(&with(json!(null), done.clone())), Fate::Stays);
        assert_eq!(fate(&with(json!(5), json!([]))), Fate::Stays);
        assert_eq!(fate(&with(json!(5), json!([finished("SuccessCriteriaMet", 0)]))), Fate::Stays);
        assert_eq!(fate(&with(json!(5), done.clone())), Fate::Expires(at(5)));
        let mut going = with(json!(5), done);
        going.metadata.deleted = Some(at(1));
        assert_eq!(fate(&going), Fate::Stays);
    }

    /// JOB-62.
    #[test]
    fn the_first_end_condition_counts() {
        let both = json!([finished("Complete", 7), finished("Failed", 3)]);
        assert_eq!(fate(&with(json!(0), both)), Fate::Expires(at(7)));
        let timeless = json!([{"type": "Complete", "status": "True"}]);
        assert_eq!(fate(&with(json!(0), timeless)), Fate::Unknown);
    }
}
