//! What one step of a sync passes to the next; [`crate::jobs::decide`] lists the steps.

use std::collections::BTreeMap;

use common::{map::HashSet, meta::Uid};

use super::End;
use crate::objects::{Action, Status};

/// What became of the creations and deletions of Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodWrites {
    /// How many Pods are gone or terminating.
    pub removed: usize,
    /// How many of those were ready.
    pub removed_ready: usize,
    /// How many were created.
    pub created: usize,
    /// How many Pods have changed since they were judged, and were left alone.
    pub changed: usize,
}

/// The numbers once Pods were created or deleted.
#[derive(Clone, Debug)]
pub struct Managed {
    /// Active Pods.
    pub active: usize,
    /// Active Pods that are ready.
    pub ready: usize,
    /// Terminating Pods.
    pub terminating: usize,
    /// How the Job ends, if the status may say so now: no Pod is active any more.
    pub end_to_write: Option<End>,
}

/// The first status, and what may follow once it is written.
#[derive(Clone, Debug)]
pub struct Tracked {
    /// The status.
    pub status: Status,
    /// Whether it has to be written.
    pub writes: bool,
    /// The Pods whose finalizer is removed once it is written, as positions in [`Situation::pods`](super::Situation::pods).
    pub untrack: Vec<usize>,
    /// The Pods that carry the finalizer until then.
    pub still_tracked: HashSet<Uid>,
    /// Whether there are more Pods to count than one status names.
    pub capped: bool,
    /// What the Job's failure policy decided about Pods, by action.
    pub actions: BTreeMap<Action, u64>,
    /// Whether the Job was suspended or resumed.
    pub suspension: Option<Suspension>,
}

/// The second status, once finalizers are removed.
#[derive(Clone, Debug)]
pub struct Conclusion {
    /// The status.
    pub status: Status,
    /// Why it is written; `None` if it says nothing new.
    pub reason: Option<String>,
    /// How the Job has ended, if the status says that it has.
    pub end: Option<End>,
    /// The status for a server that refuses one without a start; `None` if there is a start, or no end.
    pub with_start: Option<Status>,
    /// Whether the Job has ended with more successes than it wanted.
    pub has_surplus: bool,
}

/// A change of `spec.suspend` that the status does not tell yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// The Job was suspended.
    Suspended,
    /// The Job was resumed.
    Resumed,
}

impl Suspension {
    /// Reason and message of the Event about it.
    pub fn event(self) -> (&'static str, &'static str) {
        match self {
            Self::Suspended => ("Suspended", "Job suspended"),
            Self::Resumed => ("Resumed", "Job resumed"),
        }
    }
}
