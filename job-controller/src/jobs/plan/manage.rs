//! The decision which Pods to create or delete.

use std::{fmt, time::Duration};

use super::{OwnPod, PodWrites, Situation};

/// The decision of one sync about the number of Pods.
#[derive(Clone, Debug)]
pub enum Manage {
    /// The number of Pods is as wanted.
    Nothing,
    /// Pods may be neither created nor deleted now, for this reason.
    NotAllowed(String),
    /// The Job is terminating: the garbage collector deletes its Pods.
    Deleting,
    /// The Job fails: all active Pods are deleted, and count as failed.
    DeleteAsFailed(Vec<Victim>),
    /// The Job has succeeded: all active Pods are deleted and do not count.
    ///
    /// The Pods lose their finalizers before they are deleted. If this process crashes in between, the next leader does not
    /// count them as failed. Upstream deletes the Pods first.
    DeleteUncounted(Vec<Victim>),
    /// The Job is suspended: all active Pods are deleted and do not count.
    Suspend(Vec<Victim>),
    /// The Job has too many Pods, or Pods with a wrong index. These Pods are deleted and do not count.
    Remove(Vec<Victim>),
    /// Pods are missing, and some of them can be created now.
    Create {
        /// The Pods to create now, at most one batch.
        pods: Vec<NewPod>,
        /// The number of missing Pods, which may exceed one batch.
        missing: usize,
        /// The shortest remaining back-off of an index that needs a Pod; `None` if no index is in back-off.
        wait: Option<Duration>,
    },
    /// Pods are missing, and no index is left for them, because some indexes have failed permanently.
    NoIndexLeft {
        /// The wanted number of active Pods minus the existing number.
        missing: usize,
    },
    /// Pods are missing, and the back-off after a failure has not ended yet.
    Postpone {
        /// The number of Pods to create after the back-off, which may exceed one batch.
        missing: usize,
        /// The remaining back-off, at least the debounce period.
        wait: Duration,
    },
}

/// A Pod that the sync deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The position in [`Situation::pods`].
    pub position: usize,
    /// The reason for the deletion, which `/debug/explain` shows.
    pub why: Why,
}

/// The reason why a Pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The Job ends.
    Ends,
    /// The Job is suspended.
    Suspended,
    /// The Pod has no valid index of the Job.
    NoIndex,
    /// Another Pod has the same index.
    SameIndex,
    /// There are too many Pods.
    Surplus,
}

/// A Pod that the sync creates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewPod {
    /// The completion index; `None` for a Job that is not indexed.
    pub index: Option<u32>,
    /// Earlier failures of the index; `None` without `spec.backoffLimitPerIndex`.
    pub failures: Option<Failures>,
}

/// The numbers of earlier failures of an index, which a new Pod carries in annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Failures that count towards `spec.backoffLimitPerIndex`.
    pub counted: u32,
    /// Failures that `spec.podFailurePolicy` ignored.
    pub ignored: u32,
}

impl Manage {
    /// Whether the sync brings the number of Pods to the wanted number. False if the Job ends or is terminating, or if changes
    /// are not allowed.
    pub fn scales(&self) -> bool {
        !matches!(self, Self::DeleteAsFailed(_) | Self::DeleteUncounted(_) | Self::NotAllowed(_) | Self::Deleting)
    }

    /// Whether a Pod to delete loses its finalizer before the deletion, so that the Pod is not counted.
    pub fn untracks_first(&self, victim: &OwnPod) -> bool {
        victim.tracked && matches!(self, Self::DeleteUncounted(_) | Self::Suspend(_) | Self::Remove(_))
    }

    /// Returns the Pods to delete; empty if the sync deletes none.
    pub fn victims(&self) -> &[Victim] {
        match self {
            Self::DeleteAsFailed(victims)
            | Self::DeleteUncounted(victims)
            | Self::Suspend(victims)
            | Self::Remove(victims) => victims,
            _ => &[],
        }
    }

    /// Returns the result of the creates and deletes, on the assumption that every request succeeds.
    pub fn as_planned(&self, situation: &Situation) -> PodWrites {
        match self {
            Self::Create { pods, .. } => PodWrites { created: pods.len(), ..PodWrites::default() },
            _ => {
                let ready = self.victims().iter().filter(|v| situation.pods[v.position].pod.is_ready());
                PodWrites { removed: self.victims().len(), removed_ready: ready.count(), ..PodWrites::default() }
            }
        }
    }

    /// Returns the value of the metric label `action`.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NotAllowed(_) | Self::Deleting | Self::DeleteAsFailed(_) | Self::DeleteUncounted(_) => "reconciling",
            Self::Nothing => "tracking",
            Self::Suspend(_) | Self::Remove(_) => "pods_deleted",
            Self::Create { .. } | Self::Postpone { .. } | Self::NoIndexLeft { .. } => "pods_created",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ends => "the Job ends",
            Self::Suspended => "the Job is suspended",
            Self::NoIndex => "it has no valid index of this Job",
            Self::SameIndex => "another Pod has the same index",
            Self::Surplus => "there are too many Pods",
        })
    }
}
