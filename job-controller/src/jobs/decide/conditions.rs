//! Builds conditions, and sets them in the status of a Job.

use common::conditions::{self, Condition, TRUE, seconds};
use jiff::Timestamp;

use crate::{jobs::plan::JobEnd, objects::JobStatus};

/// Builds a condition with `now` as its transition time and probe time.
pub(super) fn new_condition(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Condition {
    let probed = Some(seconds::floor_to_second(now));
    Condition { last_probe_time: probed, ..Condition::new(kind, status, reason, message, now) }
}

/// Sets the condition of type `kind` to `True`, with the reason and message of `end`. The condition must not be `True` yet.
pub(super) fn set_end_condition(status: &mut JobStatus, kind: &str, end: &JobEnd, now: Timestamp) {
    debug_assert!(conditions::get(&status.conditions, kind).is_none_or(|c| !c.is_true()));
    let condition = new_condition(kind, TRUE, &end.reason, &end.message, now);
    match status.conditions.iter_mut().find(|c| *c.kind == *kind) {
        Some(stored) => *stored = condition,
        None => status.conditions.push(condition),
    }
}
