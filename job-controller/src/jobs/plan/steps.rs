//! The values that one step of a sync passes to the next; [`crate::jobs::decide`] lists the steps.

use std::collections::BTreeMap;

use common::{map::HashSet, meta::Uid};

use super::End;
use crate::objects::{Action, Status};

/// The results of creating and deleting Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodWrites {
    /// The number of Pods that are deleted or terminating now.
    pub removed: usize,
    /// The number of those that were ready.
    pub removed_ready: usize,
    /// The number of created Pods.
    pub created: usize,
    /// The number of Pods that were left alone because they changed after they were cached.
    pub changed: usize,
}

/// The numbers after Pods were created or deleted.
#[derive(Clone, Debug)]
pub struct Managed {
    /// Active Pods.
    pub active: usize,
    /// Active Pods that are ready.
    pub ready: usize,
    /// Terminating Pods.
    pub terminating: usize,
    /// The end of the Job, if no Pod is active any more, so that the status may contain the end.
    pub end_to_write: Option<End>,
}

/// The first status, and the actions after it is written.
#[derive(Clone, Debug)]
pub struct Tracked {
    /// The new status.
    pub status: Status,
    /// Whether the status differs from the stored one.
    pub writes: bool,
    /// The Pods whose finalizers are removed after the write, as positions in [`Situation::pods`](super::Situation::pods).
    pub untrack: Vec<usize>,
    /// The Pods that carry the finalizer until then.
    pub still_tracked: HashSet<Uid>,
    /// Whether there are more Pods to count than one status may list.
    pub capped: bool,
    /// The number of Pods by the action of the failure policy.
    pub actions: BTreeMap<Action, u64>,
    /// The change of the condition `Suspended`, if any.
    pub suspension: Option<Suspension>,
}

/// The second status, after finalizers are removed.
#[derive(Clone, Debug)]
pub struct Conclusion {
    /// The new status.
    pub status: Status,
    /// The reason to write the status; `None` if it has no changes.
    pub reason: Option<String>,
    /// The end of the Job, if the status contains it.
    pub end: Option<End>,
    /// The status for a server that requires a start time; `None` if there is a start time, or no end.
    pub with_start: Option<Status>,
    /// Whether the Job has ended with more successes than it wanted.
    pub has_surplus: bool,
}

/// A change of `spec.suspend` that the stored status does not show yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// The Job was suspended.
    Suspended,
    /// The Job was resumed.
    Resumed,
}

impl Suspension {
    /// Reason and message of the Event about the change.
    pub fn event(self) -> (&'static str, &'static str) {
        match self {
            Self::Suspended => ("Suspended", "Job suspended"),
            Self::Resumed => ("Resumed", "Job resumed"),
        }
    }
}
