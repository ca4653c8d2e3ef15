//! What is decided before the first request of a sync: revisions, claims, Pods to create and to delete, a status, and what is
//! forgotten of the history.

mod explain;

use std::{fmt, sync::Arc, time::Duration};

use common::{explain::Lines, intern::Text, selector::SelectorError};

use crate::{
    objects::{DaemonSet, PodRef, RevisionRef, Status},
    snapshot::nodes::Tally,
};

/// What one sync does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The set.
    pub set: Arc<DaemonSet>,
    /// Why nothing can be done at all.
    pub problem: Option<Problem>,
    /// How much of the set is looked after.
    pub scope: Scope,
    /// The hash of the current revision.
    pub hash: Text,
    /// Pods to adopt.
    pub adopt: Vec<PodRef>,
    /// How many Pods are left for the next sync to adopt.
    pub orphans: usize,
    /// Pods to create.
    pub creates: Vec<Creation>,
    /// Pods to delete.
    pub deletes: Vec<Deletion>,
    /// How many nodes are left to later syncs because this one has enough to do.
    pub deferred: Deferred,
    /// The status, once all of that is done.
    pub status: Status,
    /// Revisions to delete.
    pub forget: Vec<RevisionRef>,
    /// The counts of all nodes.
    pub tally: Tally,
    /// What the sync waits for.
    pub waiting: Lines,
    /// When the passing of time alone changes the decision.
    pub due: Option<Duration>,
}

/// How many nodes are left to later syncs because one sync has enough to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deferred {
    /// Nodes on which a Pod is created later.
    pub creates: usize,
    /// Nodes on which Pods are deleted later.
    pub deletes: usize,
}

impl Deferred {
    /// The number of these nodes.
    pub fn total(self) -> usize {
        self.creates.saturating_add(self.deletes)
    }
}

/// Why nothing can be done for a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Its selector selects every Pod.
    SelectsEverything,
    /// Its selector breaks the rules.
    Selector(SelectorError),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SelectsEverything => {
                f.write_str("This daemon set is selecting all pods. A non-empty selector is required.")
            }
            Self::Selector(error) => fmt::Display::fmt(error, f),
        }
    }
}

/// How much of a set one sync looks after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The set is being deleted.
    Nothing,
    /// The caches do not show a write of this process: the status is written, and nothing else.
    Status,
    /// Revisions are written and Pods are claimed. What that changes is seen by the next sync.
    Claims,
    /// Everything.
    Everything,
}

/// A Pod to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation {
    /// The node that it is for.
    pub node: Text,
    /// The reason.
    pub lack: Lack,
}

/// Why a Pod is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The node has no Pod.
    NoPod,
    /// The node has no running Pod, and surge allows a new one beside those that are going.
    NoRunningPod,
    /// The Pod of the node is outdated and not available.
    OldUnavailable,
    /// The Pod of the node is outdated.
    Outdated,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPod => "it has none",
            Self::NoRunningPod => "it has none that runs",
            Self::OldUnavailable => "the one it has is outdated and not available",
            Self::Outdated => "the one it has is outdated",
        })
    }
}

/// A Pod to delete.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// The Pod.
    pub pod: PodRef,
    /// The node that it is meant for.
    pub node: Text,
    /// The reason.
    pub why: Why,
}

/// Why a Pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has failed.
    Failed,
    /// It has succeeded, which a daemon should not.
    Succeeded,
    /// Another Pod is there before it.
    Duplicate,
    /// No Pod should run on its node.
    NotEligible,
    /// It is not bound, and the node that it is meant for does not exist.
    NodeVanished,
    /// It is outdated, and the Pod that replaces it is available or it is not ready itself.
    Replaced,
    /// It is outdated and not available.
    Unavailable,
    /// It is outdated.
    Outdated,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed => "it has failed",
            Self::Succeeded => "it has succeeded",
            Self::Duplicate => "its node has another Pod",
            Self::NotEligible => "no Pod should run on its node",
            Self::NodeVanished => "its node does not exist",
            Self::Replaced => "another Pod takes its place",
            Self::Unavailable => "it is outdated and not available",
            Self::Outdated => "it is outdated",
        })
    }
}

impl Plan {
    /// Whether the status is written.
    pub fn writes_status(&self) -> bool {
        matches!(self.scope, Scope::Status | Scope::Everything) && self.status.differs(&self.set.status)
    }

    /// Whether revisions are written, and Pods claimed.
    pub fn claims(&self) -> bool {
        matches!(self.scope, Scope::Claims | Scope::Everything)
    }
}
