//! The nodes of a DaemonSet with their Pods, and the criteria for current and available Pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::prelude::*;
use jiff::Timestamp;

use crate::{
    objects::SharedPod,
    plan::{CreationReason, DeletionReason, PodCreation, PodDeletion},
};

/// The counts of a DaemonSet's nodes, and the nodes on which one sync can create or delete Pods.
///
/// The lists are ordered by node name, and no longer than one sync can use. Lists of creations and deletions begin after the
/// [cursor](RefusedNodeCursors) and wrap around.
#[derive(Clone, Debug)]
pub struct ActionableNodes {
    /// The properties of the DaemonSet that decide whether a Pod is current and available.
    pub pod_criteria: PodCriteria,
    /// The nodes of the last refused creation and of the last refused deletion, after which the lists begin.
    pub refused_node_cursors: RefusedNodeCursors,
    /// The sum of the counts of all nodes.
    pub node_counts: NodeCounts,
    /// Nodes that need a Pod regardless of the update strategy.
    pub nodes_needing_pod: NodeList,
    /// Nodes on which Pods must be deleted regardless of the update strategy.
    pub nodes_with_pods_to_delete: NodeList,
    /// Nodes with an outdated Pod that is not available. The Pod is replaced regardless of the limit of the rolling update.
    pub nodes_with_unavailable_outdated_pod: NodeList,
    /// Nodes with an outdated Pod that is deleted, because the new Pod is available or, on a node on which no Pod should run,
    /// because the outdated Pod is not available. Empty without surge.
    pub nodes_with_unneeded_outdated_pod: NodeList,
    /// Nodes on which no Pod should run and that have an available outdated Pod. Empty without surge.
    pub ineligible_nodes_with_available_pod: NodeList,
    /// Nodes with an available outdated Pod that is replaced within the limit of the rolling update.
    pub nodes_with_available_outdated_pod: NodeList,
    /// At most three of the nodes that block the rolling update, for the explanation.
    pub blocking_nodes: NodeList,
    /// Nodes that get no Pod now.
    pub delayed_pod_creations: DelayedPodCreations,
    /// Number of nodes with an unanswered creation that need no first Pod. There, the creation counts as a second Pod.
    pub possible_second_pod_count: usize,
    /// Number of Pods that are neither bound nor pinned to a node.
    pub pods_without_node_count: usize,
    /// The first time at which the contribution of a node changes without an event; `None` if only an event changes it.
    pub next_change_at: Option<Timestamp>,
}

/// Nodes that get no Pod now, because a creation got no answer and may still take effect, or because an orphan on the node is
/// to be adopted first.
#[derive(Clone, Debug, Default)]
pub struct DelayedPodCreations {
    /// Nodes for which a creation got no answer, each with the time until the creation can no longer take effect.
    pub unanswered: BTreeMap<Text, Duration>,
    /// All nodes that get no Pod now.
    pub nodes: BTreeSet<Text>,
}

impl DelayedPodCreations {
    /// Adds the nodes of the orphans to the nodes with an unanswered creation.
    pub fn new(unanswered: BTreeMap<Text, Duration>, orphan_pods: &[SharedPod]) -> Self {
        let nodes = unanswered.keys().chain(orphan_pods.iter().map(|pod| pod.target_node())).cloned().collect();
        Self { unanswered, nodes }
    }
}

/// The node of the last refused creation, and the node of the last refused deletion. The next sync begins after these nodes.
///
/// Without cursors, every sync would begin with a Pod that the server always refuses, and the nodes after its node would get no
/// Pod.
#[derive(Clone, Debug, Default)]
pub struct RefusedNodeCursors {
    /// The node of the last refused creation. Creations begin with the next node in the order of names.
    pub creation_cursor: NodeCursor,
    /// The node of the last refused deletion. Deletions begin with the next node in the order of names.
    pub deletion_cursor: NodeCursor,
}

/// The name of the node of the last refused request. `None` if no request was refused; then work begins with the first node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCursor(pub Option<Text>);

impl NodeCursor {
    /// Sorts `work` by node name, beginning after the cursor and wrapping around. Without a cursor, the order does not change.
    pub fn sort_after_cursor<T>(&self, work: &mut [T], node: impl Fn(&T) -> &Text) {
        if let Some(refused) = &self.0 {
            let position = |one: &T| (node(one) <= refused, node(one).clone());
            work.sort_by_cached_key(position);
        }
    }
}

/// The first nodes of a list, and the length of the whole list.
#[derive(Clone, Debug, Default)]
pub struct NodeList {
    /// The first nodes, in the order of the list.
    pub nodes: Vec<NodePods>,
    /// Number of nodes in the whole list.
    pub total_count: usize,
}

impl NodeList {
    /// Returns the number of nodes of the whole list that `nodes` does not contain.
    pub fn unlisted_count(&self) -> usize {
        self.total_count.saturating_sub(self.nodes.len())
    }
}

/// A node of a snapshot with the Pods that are bound or pinned to it.
#[derive(Clone, Debug)]
pub struct NodePods {
    /// `metadata.name` of the node.
    pub name: Text,
    /// Whether a Pod of the DaemonSet should run on the node.
    pub eligibility: Eligibility,
    /// The Pods of the node, ordered by [`pod_sort_key`].
    pub pods: Vec<SharedPod>,
    /// The time before which a failed Pod on the node is not deleted; `None` if it may be deleted now.
    pub failed_pod_deletion_delayed_until: Option<Timestamp>,
    /// The delay that would follow if a failed Pod on the node were deleted in this sync.
    pub next_failed_pod_delay: Duration,
}

impl NodePods {
    /// Returns the node in the form that decisions use, without a copy of the Pods.
    pub fn as_node_view(&self) -> NodeView<'_> {
        NodeView {
            eligibility: self.eligibility,
            pods: &self.pods,
            failed_pod_deletion_delayed_until: self.failed_pod_deletion_delayed_until,
        }
    }

    pub(crate) fn creation(&self, creation_reason: CreationReason) -> PodCreation {
        PodCreation { node_name: self.name.clone(), creation_reason }
    }

    pub(crate) fn deletion(&self, pod: &SharedPod, deletion_reason: DeletionReason) -> PodDeletion {
        PodDeletion { pod: Arc::clone(pod), node_name: self.name.clone(), deletion_reason }
    }
}

/// The decision whether Pods of a DaemonSet are created, kept or deleted on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// A Pod should run on the node.
    RunsPods,
    /// No Pod is created, and an existing Pod is kept: the node has a `NoSchedule` taint that the Pods do not tolerate.
    KeepsPods,
    /// No Pod may run on the node, and existing Pods are deleted.
    RemovesPods,
    /// The cache does not have the node.
    NodeDeleted,
}

impl Eligibility {
    /// Whether a Pod should run on the node, and is created if it is missing.
    pub fn should_run(self) -> bool {
        self == Self::RunsPods
    }

    /// Whether an existing Pod of the node is kept; false for a deleted node.
    pub fn should_continue_running(self) -> bool {
        matches!(self, Self::RunsPods | Self::KeepsPods)
    }
}

/// The properties of a DaemonSet that decide whether a Pod is current, available or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCriteria {
    /// The hash of the current revision; empty before the first sync has chosen a revision.
    pub current_hash: Text,
    /// The hashes of other revisions with the same template.
    pub duplicate_hashes: BTreeSet<Text>,
    /// The value of the label `pod-template-generation` on Pods of the current template; `None` if it is unknown.
    pub template_generation: Option<Text>,
    /// How long a Pod must be ready before it is available, in seconds (`spec.minReadySeconds`).
    pub min_ready_seconds: i32,
    /// Whether `maxSurge` is above zero, so a node may have a new Pod beside the outdated Pod.
    pub allows_surge: bool,
    /// The order of the creation and the deletion when a Pod is replaced.
    pub replacement_order: ReplacementOrder,
}

/// The order of creation and deletion when an outdated Pod is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplacementOrder {
    /// The controller does not replace outdated Pods. Users delete them.
    OnDelete,
    /// The outdated Pod is deleted before the new Pod is created (`maxUnavailable`).
    DeleteFirst,
    /// The new Pod is created before the outdated Pod is deleted (`maxSurge`).
    CreateFirst,
}

impl PodCriteria {
    /// Whether a Pod has the hash of a revision of the current template.
    pub fn has_current_hash(&self, pod: &SharedPod) -> bool {
        !self.current_hash.is_empty()
            && (pod.revision_hash() == self.current_hash.as_str()
                || self.duplicate_hashes.contains(pod.revision_hash()))
    }

    /// Whether a Pod has the current template, according to the hash of the revision or the generation of the template.
    ///
    /// Upstream: `pkg/controller/daemon/util`, `IsPodUpdated`.
    pub fn is_updated(&self, pod: &SharedPod) -> bool {
        self.has_current_hash(pod)
            || (self.template_generation.is_some() && pod.template_generation() == self.template_generation.as_deref())
    }

    /// Whether a Pod is ready at `now`, and has been ready for `min_ready_seconds`.
    pub fn is_available(&self, pod: &SharedPod, now: Timestamp) -> bool {
        pod.is_available(self.min_ready_seconds, now)
    }
}

/// A node with the Pods that are bound or pinned to it, in the form that decisions use.
#[derive(Clone, Debug)]
pub struct NodeView<'a> {
    /// Whether a Pod of the DaemonSet should run on the node.
    pub eligibility: Eligibility,
    /// The Pods of the node, ordered by [`pod_sort_key`]. They include Pods that have [finished and are
    /// terminating](crate::objects::CachedPod::is_finished_and_terminating).
    pub pods: &'a [SharedPod],
    /// The time before which a failed Pod on the node is not deleted; `None` if it may be deleted now.
    pub failed_pod_deletion_delayed_until: Option<Timestamp>,
}

impl<'a> NodeView<'a> {
    /// Returns the Pods of the node, except for Pods that have finished and are terminating.
    pub fn present_pods(&self) -> impl Iterator<Item = &'a SharedPod> + use<'a> {
        self.pods.iter().filter(|pod| !pod.is_finished_and_terminating())
    }

    /// Returns the Pods that are not terminating: first the Pods of the current template, then the outdated Pods.
    pub(crate) fn current_and_outdated_pods(&self, criteria: &PodCriteria) -> (Vec<&'a SharedPod>, Vec<&'a SharedPod>) {
        self.present_pods().filter(|pod| !pod.meta().is_deleting()).partition(|pod| criteria.is_updated(pod))
    }

    /// Returns the outdated Pod of the node; `None` if the node has no outdated Pod or several.
    pub fn only_outdated_pod(&self, criteria: &PodCriteria) -> Option<&'a SharedPod> {
        match self.current_and_outdated_pods(criteria).1[..] {
            [old] => Some(old),
            _ => None,
        }
    }
}

/// Returns the sort key of a Pod among the Pods of its node: bound Pods come first, then older Pods, then names in order.
///
/// Upstream: `pkg/controller/daemon`, `podByCreationTimestampAndPhase`.
pub fn pod_sort_key(pod: &SharedPod) -> impl Ord + use<'_> {
    let meta = pod.meta();
    (!pod.is_bound(), meta.creation_timestamp, &*meta.name)
}

/// Numbers of nodes of a DaemonSet. The first Pod of a node is the first one by [`pod_sort_key`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Nodes on which a Pod should run: the desired nodes.
    pub desired: i32,
    /// Desired nodes that have a Pod.
    pub current: i32,
    /// Desired nodes with a first Pod that is ready.
    pub ready: i32,
    /// Desired nodes with a first Pod that is available.
    pub available: i32,
    /// Desired nodes with a first Pod of the current template.
    pub updated: i32,
    /// Nodes on which no Pod should run, and that have a Pod.
    pub misscheduled: i32,
    /// Nodes that count against the limit of the rolling update.
    pub blocking_rollout: i32,
    /// Existing nodes with an available Pod, desired or not. Counted only with surge.
    pub with_available_pod: i32,
}

impl NodeCounts {
    /// Adds the counts of one node; with the sign -1, subtracts them.
    pub fn add(&mut self, other: &Self, sign: i32) {
        self.desired += sign * other.desired;
        self.current += sign * other.current;
        self.ready += sign * other.ready;
        self.available += sign * other.available;
        self.updated += sign * other.updated;
        self.misscheduled += sign * other.misscheduled;
        self.blocking_rollout += sign * other.blocking_rollout;
        self.with_available_pod += sign * other.with_available_pod;
    }
}
