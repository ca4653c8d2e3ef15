//! Sets the conditions in the status of a Job.

use common::conditions::{self, Condition, FALSE, TRUE, seconds};
use jiff::Timestamp;

use crate::{
    jobs::plan::{JobEnd, SuspensionChange},
    objects::{JobStatus, condition_types},
};

/// Builds a condition with `now` as its transition time and probe time.
fn new_condition(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Condition {
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

/// Sets the condition `Suspended` in the status. Returns the change; `None` if the condition does not change.
///
/// A Job that was never suspended has no such condition. Resuming sets a new start time. Suspending removes the start time if
/// `clears_start_time` is set.
pub(super) fn set_suspended_condition(
    status: &mut JobStatus,
    suspend: bool,
    clears_start_time: bool,
    now: Timestamp,
) -> Option<SuspensionChange> {
    let new = if suspend { SuspensionChange::Suspended } else { SuspensionChange::Resumed };
    let (reason, message) = new.event_reason_and_message();
    let says = if suspend { TRUE } else { FALSE };
    let condition = new_condition(condition_types::SUSPENDED, says, &format!("Job{reason}"), message, now);
    match status.conditions.iter_mut().find(|c| c.kind == condition_types::SUSPENDED) {
        Some(stored) => {
            if (&stored.status, &stored.reason, &stored.message)
                == (&condition.status, &condition.reason, &condition.message)
            {
                return None;
            }
            *stored = condition;
        }
        None if suspend => status.conditions.push(condition),
        None => return None,
    }
    match new {
        SuspensionChange::Suspended if clears_start_time => status.start_time = None,
        SuspensionChange::Suspended => {}
        SuspensionChange::Resumed => status.start_time = Some(now),
    }
    Some(new)
}
