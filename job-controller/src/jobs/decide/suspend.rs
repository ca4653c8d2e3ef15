//! Sets the condition `Suspended` and the start time when a Job is suspended or resumed.

use common::conditions::{FALSE, TRUE};
use jiff::Timestamp;

use super::conditions;
use crate::{
    jobs::plan::SuspensionChange,
    objects::{JobStatus, condition_types},
};

/// Sets the condition `Suspended` in the status. Returns the change; `None` if the condition does not change.
///
/// A Job that was never suspended has no such condition. Resuming sets a new start time. Suspending removes the start time if
/// `clears_start_time` is set.
pub fn set_suspended_condition(
    status: &mut JobStatus,
    suspend: bool,
    clears_start_time: bool,
    now: Timestamp,
) -> Option<SuspensionChange> {
    let new = if suspend { SuspensionChange::Suspended } else { SuspensionChange::Resumed };
    let (reason, message) = new.event_reason_and_message();
    let says = if suspend { TRUE } else { FALSE };
    let condition = conditions::new_condition(condition_types::SUSPENDED, says, &format!("Job{reason}"), message, now);
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
