//! What one sync of a Job does.

mod end;
mod explain;
mod gang;
mod manage;
mod situation;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use common::{map::HashSet, meta::Uid, selector::SelectorError};

pub use self::{
    end::{End, Verdict},
    gang::{Gang, Ordinary},
    manage::{Failures, Manage, NewPod, PodWrites, Victim, Why},
    situation::{Claimed, Situation},
};
use super::snapshot::PodRef;
use crate::objects::{Action, Job, Status};

/// What one sync does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The Job it is about.
    pub job: Arc<Job>,
    /// Why the Job is left alone; `None` if it is synced.
    pub left_alone: Option<LeftAlone>,
    /// Pods to adopt.
    pub adopt: Vec<PodRef>,
    /// Pods to release.
    pub release: Vec<PodRef>,
    /// Pods that lose their finalizer uncounted, because the Job is being deleted and does not count them.
    pub untrack: Vec<PodRef>,
    /// What the Pods mean, if every adoption succeeds.
    pub situation: Situation,
    /// How Pods are scheduled, if every adoption succeeds.
    pub gang: Gang,
    /// What is done about the number of Pods, if every adoption succeeds.
    pub manage: Manage,
    /// What the status becomes first, if everything goes well.
    pub tracked: Tracked,
    /// When the passing of time may change the decision, if every adoption succeeds.
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

/// The first status, and what may follow once it is written.
#[derive(Clone, Debug)]
pub struct Tracked {
    /// The status.
    pub status: Status,
    /// Whether it has to be written.
    pub writes: bool,
    /// The Pods whose finalizer goes once it is written, as positions in [`Situation::pods`].
    pub release: Vec<usize>,
    /// Pods that carry the finalizer and are not counted yet.
    pub uncounted: HashSet<Uid>,
    /// Whether there are more Pods to count than one status names.
    pub capped: bool,
    /// What the Job's failure policy decided about Pods, by action.
    pub actions: BTreeMap<Action, u64>,
    /// How the Job ends, if it does.
    pub end: Option<End>,
    /// How many Pods are terminating.
    pub terminating: usize,
    /// Whether the Job was suspended or resumed.
    pub suspension: Option<Suspension>,
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
    /// The reason of the Event about it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Suspended => "Suspended",
            Self::Resumed => "Resumed",
        }
    }

    /// The message of the Event and of the condition.
    pub fn message(self) -> &'static str {
        match self {
            Self::Suspended => "Job suspended",
            Self::Resumed => "Job resumed",
        }
    }
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
