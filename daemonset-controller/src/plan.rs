//! The plan of a sync: adoptions, Pods to create and to delete, the status, and the revisions to delete.

mod explain;

use std::{fmt, sync::Arc, time::Duration};

use common::{explain::Lines, intern::Text, selector::SelectorError};

use crate::{
    objects::{DaemonSet, PodRef, RevisionRef, Status},
    snapshot::nodes::Tally,
};

/// The decisions of one sync, before its first request.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The set that is synced.
    pub set: Arc<DaemonSet>,
    /// The reason why the set is not managed.
    pub problem: Option<Problem>,
    /// The part of the set that this sync handles.
    pub scope: Scope,
    /// The hash of the current revision, with which new Pods are labelled.
    pub hash: Text,
    /// Orphans that this sync adopts.
    pub adopt: Vec<PodRef>,
    /// Number of Pods that the next sync adopts.
    pub orphans: usize,
    /// The creations of this sync, at most `burst-replicas`.
    pub creates: Vec<Creation>,
    /// The deletions of this sync, at most `burst-replicas`.
    pub deletes: Vec<Deletion>,
    /// Numbers of nodes that are left to later syncs, because this sync has reached its limit.
    pub deferred: Deferred,
    /// The status to write after the work on Pods.
    pub status: Status,
    /// Revisions to delete because the history is longer than its limit.
    pub forget: Vec<RevisionRef>,
    /// The sum of the counts of all nodes.
    pub tally: Tally,
    /// The reasons why the set does not progress, for `/debug/explain`.
    pub waiting: Lines,
    /// Time until the decision changes without an event; `None` if it does not.
    pub due: Option<Duration>,
}

/// Numbers of nodes that are left to later syncs, because one sync has reached its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deferred {
    /// Nodes on which a Pod is created later.
    pub creates: usize,
    /// Nodes on which Pods are deleted later.
    pub deletes: usize,
}

impl Deferred {
    /// Returns the sum of both numbers.
    pub fn total(self) -> usize {
        self.creates.saturating_add(self.deletes)
    }
}

/// The reason why a set is not managed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// `spec.selector` is empty and would select every Pod.
    SelectsEverything,
    /// `spec.selector` is invalid.
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

/// The part of a set that one sync handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Nothing, because the set is terminating.
    Nothing,
    /// Only the status, because the caches do not show a write of this process.
    Status,
    /// Revisions and claims of Pods. The next sync sees the changed Pods.
    Claims,
    /// Revisions, claims, creations, deletions and the status.
    Everything,
}

/// The creation of a Pod for one node, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation {
    /// Name of the node to which the Pod will be pinned.
    pub node: Text,
    /// The reason for the creation.
    pub lack: Lack,
}

/// The reason for the creation of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The node has no Pod.
    NoPod,
    /// The node has no running Pod, and surge allows a new Pod beside terminating or failed Pods.
    NoRunningPod,
    /// The Pod of the node is outdated and not available.
    OldUnavailable,
    /// The Pod of the node is outdated.
    Outdated,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPod => "it has no Pod",
            Self::NoRunningPod => "it has no running Pod",
            Self::OldUnavailable => "its Pod is outdated and not available",
            Self::Outdated => "its Pod is outdated",
        })
    }
}

/// The deletion of one Pod, with the reason.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// The Pod to delete.
    pub pod: PodRef,
    /// Name of the node to which the Pod is bound or pinned.
    pub node: Text,
    /// The reason for the deletion.
    pub why: Why,
}

/// The reason for the deletion of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The phase is `Failed`.
    Failed,
    /// The phase is `Succeeded`, although daemons should not end.
    Succeeded,
    /// The node has another Pod that ranks before this Pod.
    Duplicate,
    /// No Pod should run on the node.
    NotEligible,
    /// The Pod is not bound, and the node to which it is pinned does not exist.
    NodeVanished,
    /// The Pod is outdated, and its replacement is available or the Pod itself is not ready.
    Replaced,
    /// The Pod is outdated and not available.
    Unavailable,
    /// The Pod is outdated.
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
    /// Whether the sync writes the status.
    pub fn writes_status(&self) -> bool {
        matches!(self.scope, Scope::Status | Scope::Everything) && self.status.differs(&self.set.status)
    }

    /// Whether the sync writes revisions and claims Pods.
    pub fn claims(&self) -> bool {
        matches!(self.scope, Scope::Claims | Scope::Everything)
    }
}
