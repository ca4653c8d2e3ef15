//! What one sync of a Job does.

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

/// What one sync does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The Job it is about.
    pub job: Arc<Job>,
    /// Pods that lose their finalizer without being counted, because the Job is being deleted and does not count them.
    pub untrack_uncounted: Vec<PodRef>,
    /// How the Job is synced, or why it is left alone.
    pub sync: Result<SyncPlan, LeftAlone>,
}

/// How a Job is synced if every request is granted.
#[derive(Clone, Debug)]
pub struct SyncPlan {
    /// What the Pods mean.
    pub situation: Situation,
    /// How Pods are scheduled.
    pub gang: Gang,
    /// What is done about the number of Pods.
    pub manage: Manage,
    /// The numbers once that is done.
    pub managed: Managed,
    /// What the status becomes first.
    pub tracked: Tracked,
    /// When the passing of time may change the decision.
    pub requeue_after: Option<Duration>,
}

/// Why a Job is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftAlone {
    /// It has finished.
    Finished,
    /// Another controller manages it.
    ManagedBy(String),
    /// This version does not know its completion mode.
    UnknownCompletionMode,
    /// Its selector breaks the rules.
    Selector(SelectorError),
}

impl fmt::Display for LeftAlone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("it has finished"),
            Self::ManagedBy(by) => write!(f, "{by} manages it"),
            Self::UnknownCompletionMode => f.write_str("completion mode is unknown"),
            Self::Selector(problem) => write!(f, "{problem}"),
        }
    }
}
