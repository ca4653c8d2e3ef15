//! The plan of one sync of a Job.

mod end;
mod explain;
mod gang;
mod manage;
mod situation;
mod steps;

use std::{fmt, sync::Arc, time::Duration};

use common::selector::SelectorError;

pub(crate) use self::explain::seconds;
pub use self::{
    end::{End, Verdict},
    gang::{Gang, Ordinary},
    manage::{Failures, Manage, NewPod, Victim, Why},
    situation::{OwnPod, Situation},
    steps::{Conclusion, Managed, PodWrites, Suspension, Tracked},
};
use super::snapshot::PodRef;
use crate::objects::Job;

/// The decisions of one sync.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The Job as in the snapshot.
    pub job: Arc<Job>,
    /// Pods that lose their finalizer without being counted, because the terminating Job does not count them.
    pub untrack_uncounted: Vec<PodRef>,
    /// The plan to sync the Job, or the reason to leave it alone.
    pub sync: Result<SyncPlan, LeftAlone>,
}

/// The plan of a sync in which every request succeeds.
#[derive(Clone, Debug)]
pub struct SyncPlan {
    /// The numbers of the Job's Pods.
    pub situation: Situation,
    /// How Pods are scheduled.
    pub gang: Gang,
    /// The decision about the number of Pods.
    pub manage: Manage,
    /// The numbers after the requests of the plan have succeeded.
    pub managed: Managed,
    /// The first status, and the finalizers to remove.
    pub tracked: Tracked,
    /// The time after which the decision may change without an event.
    pub requeue_after: Option<Duration>,
}

/// The reason why a Job is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftAlone {
    /// The Job has finished.
    Finished,
    /// Another controller manages the Job: the value of `spec.managedBy`.
    ManagedBy(String),
    /// The completion mode is unknown to this version.
    UnknownCompletionMode,
    /// The selector is invalid.
    Selector(SelectorError),
}

impl fmt::Display for LeftAlone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("it has finished"),
            Self::ManagedBy(by) => write!(f, "it is managed by {by}"),
            Self::UnknownCompletionMode => f.write_str("completion mode is unknown"),
            Self::Selector(problem) => write!(f, "{problem}"),
        }
    }
}
