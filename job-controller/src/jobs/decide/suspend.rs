//! Suspending and resuming, as the status tells of it.

use common::conditions::{self, Condition, FALSE, TRUE, seconds};
use jiff::Timestamp;

use crate::{
    jobs::plan::Suspension,
    objects::{Status, kinds},
};

fn condition(suspension: Suspension, at: Timestamp) -> Condition {
    let (status, reason) = match suspension {
        Suspension::Suspended => (TRUE, "JobSuspended"),
        Suspension::Resumed => (FALSE, "JobResumed"),
    };
    job_condition(kinds::SUSPENDED, status, reason, suspension.message(), at)
}

/// A condition of a Job, which was probed when it changed.
pub(super) fn job_condition(kind: &str, status: &str, reason: &str, message: &str, at: Timestamp) -> Condition {
    let probed = Some(seconds::floor(at));
    Condition { last_probe_time: probed, ..Condition::new(kind, status, reason, message, at) }
}

/// Makes the status say whether the Job is suspended, and gives back what changed, if anything did.
///
/// A Job that was never suspended has no condition about it. Time begins anew with every start; while suspended there is
/// none, unless it is to be kept (`clears_start_time`).
pub fn set(status: &mut Status, suspend: bool, clears_start_time: bool, at: Timestamp) -> Option<Suspension> {
    let new = if suspend { Suspension::Suspended } else { Suspension::Resumed };
    let condition = condition(new, at);
    match status.conditions.iter_mut().find(|c| c.kind == kinds::SUSPENDED) {
        Some(known) => {
            if (&known.status, &known.reason, &known.message)
                == (&condition.status, &condition.reason, &condition.message)
            {
                return None;
            }
            *known = condition;
        }
        None if suspend => status.conditions.push(condition),
        None => return None,
    }
    match new {
        Suspension::Suspended if clears_start_time => status.start_time = None,
        Suspension::Suspended => {}
        Suspension::Resumed => status.start_time = Some(at),
    }
    Some(new)
}

/// Adds a condition that must not be there yet, or puts it in the place of the one of its type.
pub(super) fn put(conditions: &mut Vec<Condition>, condition: Condition) {
    debug_assert!(conditions::get(conditions, &condition.kind).is_none_or(|c| !c.is_true()));
    match conditions.iter_mut().find(|c| c.kind == condition.kind) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}
