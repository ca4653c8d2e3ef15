//! The plan of a sync: adoptions, Pods to create and to delete, the status, and the revisions to delete.

use std::{fmt, sync::Arc, time::Duration};

use common::{explain::BoundedLines, pod_creation_pauses::PodCreationPause, prelude::*, selector::SelectorError};

use crate::{
    objects::{DaemonSet, DaemonSetStatus, SharedPod, SharedRevision},
    snapshot::nodes::NodeCounts,
};

/// The decisions of one sync, made before its first request.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The DaemonSet as the cache showed it.
    pub set: Arc<DaemonSet>,
    /// The reason why no Pods of the DaemonSet are managed; `None` if its selector is valid and not empty.
    pub selector_problem: Option<SelectorProblem>,
    /// The kinds of work that this sync does.
    pub sync_scope: SyncScope,
    /// The hash of the current revision, which new Pods get as a label.
    pub revision_hash: Text,
    /// The orphans that this sync adopts; always empty if the scope is not `ClaimsOnly`.
    pub orphans_to_adopt: Vec<SharedPod>,
    /// Number of orphans that this sync leaves to the next sync.
    pub deferred_adoption_count: usize,
    /// The Pods to create in this sync, at most `burst-replicas`.
    pub pod_creations: Vec<PodCreation>,
    /// The pause because of which this sync creates no Pods; `None` if it needs no Pods, or may create them.
    pub pod_creation_pause: Option<PodCreationPause>,
    /// The Pods to delete in this sync, at most `burst-replicas`.
    pub pod_deletions: Vec<PodDeletion>,
    /// Numbers of nodes on which later syncs create or delete Pods, because this sync has reached `burst-replicas`.
    pub deferred_node_counts: DeferredNodeCounts,
    /// The status to write after the work on Pods.
    pub status: DaemonSetStatus,
    /// The revisions to delete because `spec.revisionHistoryLimit` is exceeded.
    pub revisions_to_delete: Vec<SharedRevision>,
    /// The counts of the DaemonSet's nodes, from which the sync computes the status.
    pub node_counts: NodeCounts,
    /// The reasons why the DaemonSet does not progress, for `/debug/explain`.
    pub waiting_reasons: BoundedLines,
    /// Time until the decision may change without an event; `None` if only an event can change it.
    pub requeue_after: Option<Duration>,
}

/// Numbers of nodes on which later syncs create or delete Pods, because one sync has reached `burst-replicas`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeferredNodeCounts {
    /// Number of nodes on which a later sync creates a Pod.
    pub creation_node_count: usize,
    /// Number of nodes on which a later sync deletes Pods.
    pub deletion_node_count: usize,
}

impl DeferredNodeCounts {
    /// Returns the number of nodes for creations plus the number of nodes for deletions. A node may count twice.
    pub fn total(self) -> usize {
        self.creation_node_count.saturating_add(self.deletion_node_count)
    }
}

/// A defect of the selector that prevents the management of Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorProblem {
    /// `spec.selector` is empty and would select every Pod.
    EmptySelector,
    /// `spec.selector` cannot be parsed; the value is the error.
    InvalidSelector(SelectorError),
}

impl fmt::Display for SelectorProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptySelector => {
                f.write_str("This daemon set is selecting all pods. A non-empty selector is required.")
            }
            Self::InvalidSelector(error) => fmt::Display::fmt(error, f),
        }
    }
}

/// The kinds of work that one sync of a DaemonSet does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncScope {
    /// The sync does nothing, because the DaemonSet is terminating.
    Nothing,
    /// The sync only writes the status, because the caches do not show a write of this process.
    StatusOnly,
    /// The sync writes revisions, and adopts, releases and relabels Pods. It leaves creations and deletions to the next sync.
    ClaimsOnly,
    /// The sync writes revisions, releases, creates and deletes Pods, and writes the status.
    Everything,
}

/// A Pod to create for one node, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCreation {
    /// The name of the node to which the Pod will be pinned.
    pub node_name: Text,
    /// The reason for the creation, for the explanation of the plan.
    pub creation_reason: CreationReason,
}

/// The state of a node that requires a new Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreationReason {
    /// The node has no Pod, apart from Pods that have finished and are terminating.
    NoPod,
    /// The node has no running Pod, and surge allows a new Pod beside terminating or failed Pods.
    NoRunningPod,
    /// The Pod of the node is outdated and not available. The new Pod is created regardless of `maxSurge`.
    OutdatedAndUnavailable,
    /// The Pod of the node is outdated and available. The number of new Pods is limited by `maxSurge`.
    Outdated,
}

impl fmt::Display for CreationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPod => "it has no Pod",
            Self::NoRunningPod => "it has no running Pod",
            Self::OutdatedAndUnavailable => "its Pod is outdated and not available",
            Self::Outdated => "its Pod is outdated",
        })
    }
}

/// A Pod to delete, and the reason.
#[derive(Clone, Debug)]
pub struct PodDeletion {
    /// The Pod as the cache showed it. Its uid and version are the preconditions of the deletion.
    pub pod: SharedPod,
    /// The name of the node to which the Pod is bound or pinned.
    pub node_name: Text,
    /// The reason for the deletion. It is checked again if the Pod has changed.
    pub deletion_reason: DeletionReason,
}

/// The state of a Pod, or of its node, that requires the deletion of the Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionReason {
    /// The phase of the Pod is `Failed`, and the back-off of the node has ended.
    PodFailed,
    /// The phase of the Pod is `Succeeded`, although the containers of a daemon should not end.
    PodSucceeded,
    /// The node has another Pod, which is kept: bound Pods are preferred to other Pods, and older Pods to newer ones.
    SurplusPod,
    /// No Pod should run on the node.
    NodeNotEligible,
    /// The Pod is not bound, and the node to which it is pinned does not exist.
    NodeDeleted,
    /// The Pod is outdated and not needed, because its replacement is available, or because it is not ready or not available.
    OutdatedAndUnneeded,
    /// The Pod is outdated and not available. It is deleted regardless of `maxUnavailable`.
    OutdatedAndUnavailable,
    /// The Pod is outdated and available. The number of such deletions is limited by `maxUnavailable`.
    Outdated,
}

impl fmt::Display for DeletionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PodFailed => "it has failed",
            Self::PodSucceeded => "it has succeeded",
            Self::SurplusPod => "its node has another Pod",
            Self::NodeNotEligible => "no Pod should run on its node",
            Self::NodeDeleted => "its node does not exist",
            Self::OutdatedAndUnneeded => "another Pod takes its place",
            Self::OutdatedAndUnavailable => "it is outdated and not available",
            Self::Outdated => "it is outdated",
        })
    }
}

impl Plan {
    /// Whether the scope includes the status, and the new status differs from the stored one.
    pub fn writes_status(&self) -> bool {
        matches!(self.sync_scope, SyncScope::StatusOnly | SyncScope::Everything)
            && self.status.must_replace(&self.set.status)
    }

    /// Returns the deletions of failed Pods, which begin or extend the back-off of their nodes.
    pub fn deletions_of_failed_pods(&self) -> impl Iterator<Item = &PodDeletion> {
        self.pod_deletions.iter().filter(|deletion| deletion.deletion_reason == DeletionReason::PodFailed)
    }

    /// Whether the sync writes revisions and claims Pods.
    pub fn claims_objects(&self) -> bool {
        matches!(self.sync_scope, SyncScope::ClaimsOnly | SyncScope::Everything)
    }
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        if self.selector_problem.is_some() {
            return String::new();
        }
        let NodeCounts { desired, current, ready, available, updated, misscheduled, .. } = self.node_counts;
        format!(
            "{desired} nodes should run a Pod: {current} have one, {ready} ready, {available} available, {updated} of revision {}; {misscheduled} other nodes have one",
            self.revision_hash,
        )
    }

    fn wait_reasons(&self) -> Vec<String> {
        if let Some(problem) = &self.selector_problem {
            return vec![problem.to_string()];
        }
        let mut waiting = self.waiting_reasons.clone().into_vec();
        let deferred = self.deferred_node_counts.total();
        if deferred > 0 {
            waiting.push(format!("{deferred} more nodes are left to the next syncs"));
        }
        let end_of_pause = self.pod_creation_pause.and_then(|pause| pause.requeue_after());
        let is_explained = self.sync_scope == SyncScope::StatusOnly || self.requeue_after == end_of_pause;
        if let Some(due) = self.requeue_after.filter(|_| !is_explained) {
            let seconds = due.as_secs().saturating_add(u64::from(due.subsec_nanos() > 0));
            waiting.push(format!("a Pod becomes available, or a failed Pod may be deleted, in {seconds}s"));
        }
        waiting
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
    }
}
