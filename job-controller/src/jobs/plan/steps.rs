//! The values that one step of a sync passes to the next; [`crate::jobs::decide`] lists the steps.

use std::collections::BTreeMap;

use common::{map::HashSet, meta::Uid};

use super::End;
use crate::objects::{Action, Status};

/// The numbers of Pods that a sync has created and deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodWrites {
    /// The number of Pods that the sync deleted; some may still be terminating.
    pub removed: usize,
    /// The number of deleted Pods that were ready.
    pub removed_ready: usize,
    /// The number of create requests that succeeded.
    pub created: usize,
    /// The number of requests that the server refused because the cached version of the Pod was stale.
    pub changed: usize,
}

/// The numbers of Pods after the sync has created or deleted some.
#[derive(Clone, Debug)]
pub struct Managed {
    /// The number of Pods that are neither finished nor terminating.
    pub active: usize,
    /// The number of active Pods that are ready.
    pub ready: usize,
    /// The number of terminating Pods that have not finished.
    pub terminating: usize,
    /// The end that the status may announce, because no Pod is active any more; `None` if the Job does not end yet.
    pub end_to_write: Option<End>,
}

/// The first status that a sync writes, and the finalizers to remove after this write.
#[derive(Clone, Debug)]
pub struct Tracked {
    /// The status that lists newly finished Pods.
    pub status: Status,
    /// Whether the new status differs from the stored one, so that it must be written.
    pub writes: bool,
    /// The Pods that lose their finalizers after the write, as positions in [`Situation::pods`](super::Situation::pods).
    pub untrack: Vec<usize>,
    /// The Pods that carry the finalizer when the status is written.
    pub still_tracked: HashSet<Uid>,
    /// Whether the sync has more Pods to count than one status may list.
    pub capped: bool,
    /// The number of failed Pods for each action of the failure policy.
    pub actions: BTreeMap<Action, u64>,
    /// The change of the condition `Suspended`; `None` if the condition stays.
    pub suspension: Option<Suspension>,
}

/// The second status of a sync, after finalizers are removed, with the end of the Job if it can be written.
#[derive(Clone, Debug)]
pub struct Conclusion {
    /// The status that counts the Pods without finalizers.
    pub status: Status,
    /// The reason to write the status; `None` if it has no changes.
    pub reason: Option<String>,
    /// The end that the status contains; `None` if the Job does not end yet.
    pub end: Option<End>,
    /// A copy of the status with a start time, for servers that require one; `None` if the status has a start time, or no end.
    pub with_start: Option<Status>,
    /// Whether the Job ends successfully with more succeeded Pods than `spec.completions`.
    pub has_surplus: bool,
}

/// A change of `spec.suspend` that the stored status does not show yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// `spec.suspend` has become true.
    Suspended,
    /// `spec.suspend` has become false.
    Resumed,
}

impl Suspension {
    /// Returns the reason and the message of the Event about the change.
    pub fn event(self) -> (&'static str, &'static str) {
        match self {
            Self::Suspended => ("Suspended", "Job suspended"),
            Self::Resumed => ("Resumed", "Job resumed"),
        }
    }
}
