//! Suspending and resuming, as the status tells of it.

use common::conditions::{self, Condition, FALSE, TRUE, seconds};
use jiff::Timestamp;

use crate::objects::{Status, kinds};

/// What became of a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// It runs no Pods any more.
    Suspended,
    /// It runs Pods again.
    Resumed,
}

impl Suspension {
    /// The reason of the Event about it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Suspended => "Suspended",
            Self::Resumed => "Resumed",
        }
    }

    fn condition(self, at: Timestamp) -> Condition {
        match self {
            Self::Suspended => job_condition(kinds::SUSPENDED, TRUE, "JobSuspended", "Job suspended", at),
            Self::Resumed => job_condition(kinds::SUSPENDED, FALSE, "JobResumed", "Job resumed", at),
        }
    }

    /// What users are told.
    pub fn message(self) -> &'static str {
        match self {
            Self::Suspended => "Job suspended",
            Self::Resumed => "Job resumed",
        }
    }
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
    let condition = new.condition(at);
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
