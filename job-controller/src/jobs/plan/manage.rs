//! What is done about the number of Pods.

use std::{fmt, time::Duration};

use super::situation::Situation;

/// What is done about the number of Pods.
#[derive(Clone, Debug)]
pub enum Manage {
    /// It is as wanted.
    Nothing,
    /// Nothing may be done now.
    NotAllowed(String),
    /// The Job is being deleted: its Pods are the garbage collector's.
    Deleting,
    /// The Job fails: all active Pods go, and have failed with it.
    End(Vec<Victim>),
    /// The Job has succeeded: all active Pods go, uncounted.
    ///
    /// Their finalizers go before they do. A process that dies after that leaves Pods that cannot be taken for failed by
    /// whoever comes next; upstream deletes them first, and its successor counts them.
    DeleteUncounted(Vec<Victim>),
    /// The Job is suspended: all active Pods go, uncounted.
    Suspend(Vec<Victim>),
    /// There are too many Pods, or wrong ones: these go, uncounted.
    Remove(Vec<Victim>),
    /// Pods are missing.
    Create {
        /// Those to create now.
        pods: Vec<NewPod>,
        /// How many are missing.
        missing: usize,
        /// After how long more of them may be created.
        wait: Option<Duration>,
    },
    /// Pods are missing, and no index is left that one could work on: some have failed for good.
    NoIndexLeft {
        /// How many are missing.
        missing: usize,
    },
    /// Pods are missing, and are not created before a while has passed.
    Postpone {
        /// How many are missing.
        missing: usize,
        /// How long.
        wait: Duration,
    },
}

/// A Pod to delete, as a position among the Job's Pods, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its position.
    pub at: usize,
    /// Why this one.
    pub why: Why,
}

/// Why a Pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The Job ends.
    Ends,
    /// The Job is suspended.
    Suspended,
    /// It names no index that there is.
    NoIndex,
    /// Another Pod works on its index.
    SameIndex,
    /// There are too many Pods.
    Surplus,
}

/// A Pod to create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewPod {
    /// The index it works on.
    pub index: Option<u32>,
    /// How often that index has failed, where failures are limited per index.
    pub failures: Option<Failures>,
}

/// How often an index has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Failures that count.
    pub counted: u32,
    /// Failures that a policy ignored.
    pub ignored: u32,
}

/// How requests for Pods went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodWrites {
    /// How many are gone or going.
    pub removed: usize,
    /// How many of those were ready.
    pub removed_ready: usize,
    /// How many were created.
    pub created: usize,
    /// How many were left alone because they have changed since they were judged.
    pub changed: usize,
}

impl Manage {
    /// Whether the Pods that are deleted lose their finalizers first, so that they do not count.
    pub fn spares_victims(&self) -> bool {
        matches!(self, Self::DeleteUncounted(_) | Self::Suspend(_) | Self::Remove(_))
    }

    /// The Pods that are deleted.
    pub fn victims(&self) -> &[Victim] {
        match self {
            Self::End(victims) | Self::DeleteUncounted(victims) | Self::Suspend(victims) | Self::Remove(victims) => {
                victims
            }
            _ => &[],
        }
    }

    /// What comes of it if every request succeeds.
    pub fn as_planned(&self, situation: &Situation) -> PodWrites {
        match self {
            Self::Create { pods, .. } => PodWrites { created: pods.len(), ..PodWrites::default() },
            _ => {
                let ready = self.victims().iter().filter(|v| situation.pods[v.at].pod.is_ready());
                PodWrites { removed: self.victims().len(), removed_ready: ready.count(), ..PodWrites::default() }
            }
        }
    }

    /// As metrics name it.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NotAllowed(_) | Self::Deleting | Self::End(_) | Self::DeleteUncounted(_) => "reconciling",
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
            Self::NoIndex => "it names no index of this Job",
            Self::SameIndex => "another Pod works on its index",
            Self::Surplus => "there are too many Pods",
        })
    }
}
