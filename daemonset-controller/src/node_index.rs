//! The node index of a DaemonSet: its nodes with their Pods and counts, kept up to date by events.
//!
//! A node index is derived from the stores of the informers: a sync builds it if it is missing, each event changes one node,
//! and it may be dropped at any time. The cost of an update grows with the number of changed nodes, and the cost of a snapshot
//! with the number of nodes on which a sync can act. Neither cost depends on the total number of nodes.

mod hashes;
mod totals;
mod undecided;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use common::prelude::*;
use jiff::Timestamp;
use smallvec::SmallVec;

pub(crate) use self::undecided::ChangeNumber;
use self::{hashes::PodRevisionHashes, totals::NodeIndexTotals, undecided::NodesWithUndecidedEligibility};
use crate::{
    decide::{
        contribution::{NodeContribution, compute_node_contribution},
        rolling::{RollingUpdateLimits, max_deletions_on_ineligible_nodes, pod_criteria},
    },
    failed_pods::FailedPodBackoff,
    objects::{DaemonSet, ParsedPodTemplate, SharedPod},
    snapshot::nodes::{
        ActionableNodes, DelayedPodCreations, Eligibility, NodeCursor, NodeList, NodePods, NodeView, PodCriteria,
        RefusedNodeCursors, ReplacementOrder, pod_sort_key,
    },
};

/// Greatest number of nodes without an available Pod that an explanation names.
const MAX_EXPLAINED_NODES: usize = 3;

/// The nodes of one DaemonSet with their Pods, and the sums over all nodes.
pub(crate) struct NodeIndex {
    selector: Selector,
    pub(crate) template: Arc<ParsedPodTemplate>,
    criteria: PodCriteria,
    /// The nodes on which a Pod should run, and the nodes that have Pods.
    nodes: BTreeMap<Text, IndexedNode>,
    /// Pods that are neither bound nor pinned to a node, by Pod name.
    untargeted: BTreeMap<Arc<str>, SharedPod>,
    /// Pods that the selector does not match, by Pod name.
    unselected: BTreeMap<Arc<str>, SharedPod>,
    /// The hashes in the labels of the Pods that the selector matches.
    pub(crate) pod_revision_hashes: PodRevisionHashes,
    /// Nodes with an outdated eligibility, which must be decided again.
    pub(crate) nodes_with_undecided_eligibility: NodesWithUndecidedEligibility,
    /// Nodes with an outdated contribution to the counts, which must be decided again.
    changed: BTreeSet<Text>,
    /// The sums of the decided contributions of all nodes.
    totals: NodeIndexTotals,
    /// Number of decided contributions since the last call of [`take_node_decision_count`](Self::take_node_decision_count).
    decided: u64,
}

/// The list of a node index to which a Pod belongs.
enum PodLocation<'p> {
    /// The selector does not match the Pod.
    Unselected,
    /// The Pod is neither bound nor pinned to a node.
    Untargeted,
    /// The Pod is bound or pinned to this node.
    Node(&'p Text),
}

/// A node on which a Pod should run, or that has Pods.
struct IndexedNode {
    eligibility: Eligibility,
    /// The Pods of the node, ordered by [`pod_sort_key`].
    pods: SmallVec<[SharedPod; 1]>,
    /// The contribution of this node to the totals; all counts are 0 before the first decision.
    contribution: NodeContribution,
}

impl IndexedNode {
    fn new(eligibility: Eligibility) -> Self {
        Self { eligibility, pods: SmallVec::new(), contribution: NodeContribution::default() }
    }

    fn insert(&mut self, pod: &SharedPod) {
        let at = self.pods.partition_point(|other| pod_sort_key(other) < pod_sort_key(pod));
        self.pods.insert(at, Arc::clone(pod));
    }

    /// Removes the Pod with this uid. Returns whether the node had such a Pod.
    fn remove(&mut self, pod: &SharedPod) -> bool {
        let at = self.pods.iter().position(|known| known.meta().uid == pod.meta().uid);
        at.map(|at| self.pods.remove(at)).is_some()
    }
}

impl NodeIndex {
    /// Builds a node index from the Pods of a DaemonSet and the names of all nodes. The eligibility of all nodes is undecided.
    pub(crate) fn new(
        set: &DaemonSet,
        template: Arc<ParsedPodTemplate>,
        pods: Vec<SharedPod>,
        nodes: impl Iterator<Item = Text>,
    ) -> Self {
        let mut node_index = Self {
            selector: set.selector.clone(),
            template,
            criteria: pod_criteria(set, "", &BTreeSet::new(), 0),
            nodes: BTreeMap::new(),
            untargeted: BTreeMap::new(),
            unselected: BTreeMap::new(),
            pod_revision_hashes: PodRevisionHashes::default(),
            nodes_with_undecided_eligibility: NodesWithUndecidedEligibility::default(),
            changed: BTreeSet::new(),
            totals: NodeIndexTotals::default(),
            decided: 0,
        };
        for node in nodes {
            node_index.mark_eligibility_undecided(&node);
        }
        for pod in pods.iter().filter(|pod| pod.is_controlled_by(&set.metadata.name, &set.metadata.uid)) {
            node_index.insert_pod(pod);
        }
        node_index
    }

    /// Compares the selector of the node index with that of `set`. If they differ, a new node index must be built.
    pub(crate) fn has_selector_of(&self, set: &DaemonSet) -> bool {
        self.selector == set.selector
    }

    /// Replaces the template. If the new template has another placement, the eligibility of all `nodes` becomes undecided.
    pub(crate) fn set_template(&mut self, template: &Arc<ParsedPodTemplate>, nodes: impl FnOnce() -> Vec<Text>) {
        if Arc::ptr_eq(&self.template, template) {
            return;
        }
        let is_other = self.template.placement != template.placement;
        self.template = Arc::clone(template);
        if is_other {
            let known: Vec<Text> = self.nodes.keys().cloned().collect();
            for node in nodes().iter().chain(&known) {
                self.mark_eligibility_undecided(node);
            }
        }
    }

    fn location_of<'p>(&self, pod: &'p SharedPod) -> PodLocation<'p> {
        if !self.selector.matches(&pod.meta().labels) {
            PodLocation::Unselected
        } else if pod.target_node().is_empty() {
            PodLocation::Untargeted
        } else {
            PodLocation::Node(pod.target_node())
        }
    }

    /// Adds a Pod with this DaemonSet as its controller.
    pub(crate) fn insert_pod(&mut self, pod: &SharedPod) {
        let name = Arc::clone(&pod.meta().name);
        match self.location_of(pod) {
            PodLocation::Unselected => {
                self.unselected.insert(name, Arc::clone(pod));
                return;
            }
            PodLocation::Untargeted => {
                self.untargeted.insert(name, Arc::clone(pod));
            }
            PodLocation::Node(target) => {
                let node = self.nodes.entry(target.clone()).or_insert_with(|| {
                    // The node index omits nodes that neither need nor have a Pod, so the eligibility of this node is unknown.
                    self.nodes_with_undecided_eligibility.add(target);
                    IndexedNode::new(Eligibility::NodeDeleted)
                });
                node.insert(pod);
                self.changed.insert(target.clone());
            }
        }
        self.pod_revision_hashes.add(pod);
    }

    /// Removes a Pod. `pod` must be the version of the Pod that was inserted, because its labels and node determine its list.
    pub(crate) fn remove_pod(&mut self, pod: &SharedPod) {
        let name = &pod.meta().name;
        let is_removed = match self.location_of(pod) {
            PodLocation::Unselected => {
                self.unselected.remove(name);
                return;
            }
            PodLocation::Untargeted => self.untargeted.remove(name).is_some(),
            PodLocation::Node(target) => self.nodes.get_mut(target).is_some_and(|node| node.remove(pod)),
        };
        if is_removed {
            self.pod_revision_hashes.remove(pod);
            self.changed.insert(pod.target_node().clone());
        }
    }

    /// Marks the eligibility of a node as undecided, because the node was added, changed or deleted.
    pub(crate) fn mark_eligibility_undecided(&mut self, node: &Text) {
        self.nodes_with_undecided_eligibility.add(node);
    }

    /// Marks the eligibility of a deleted node as undecided; does nothing for a node that needs no Pod and has none.
    pub(crate) fn record_node_deletion(&mut self, node: &Text) {
        if self.nodes.contains_key(node) {
            self.mark_eligibility_undecided(node);
        } else {
            self.nodes_with_undecided_eligibility.remove(node);
        }
    }

    /// Stores the eligibility that was decided after `change`; does nothing if the node has changed again since then.
    pub(crate) fn store_eligibility(&mut self, name: Text, change: ChangeNumber, eligibility: Eligibility) {
        if !self.nodes_with_undecided_eligibility.remove_if_unchanged(&name, change) {
            return;
        }
        match self.nodes.get_mut(&name) {
            Some(node) => node.eligibility = eligibility,
            None if eligibility.should_run() => {
                self.nodes.insert(name.clone(), IndexedNode::new(eligibility));
            }
            None => return,
        }
        self.changed.insert(name);
    }

    /// Marks the contribution of a node as undecided, because the back-off of its failed Pods has changed.
    pub(crate) fn mark_contribution_undecided(&mut self, node: &Text) {
        self.changed.insert(node.clone());
    }

    /// Returns the last decided eligibility of a node; `None` if the node index does not list the node.
    pub(crate) fn decided_eligibility(&self, node: &Text) -> Option<Eligibility> {
        self.nodes.get(node).map(|node| node.eligibility)
    }

    /// Whether a node has a Pod with a uid that is not in `known`; false for a node that is not in the index.
    pub(crate) fn has_pods_besides(&self, node: &Text, known: &[Uid]) -> bool {
        self.nodes.get(node).is_some_and(|node| node.pods.iter().any(|pod| !known.contains(&pod.meta().uid)))
    }

    /// Whether the DaemonSet has Pods on this node, including terminating Pods.
    pub(crate) fn has_pods_on(&self, node: &Text) -> bool {
        self.nodes.get(node).is_some_and(|node| !node.pods.is_empty())
    }

    /// Returns the DaemonSet's Pods that the selector does not match.
    pub(crate) fn unselected_pods(&self) -> Vec<SharedPod> {
        self.unselected.values().cloned().collect()
    }

    /// Returns the Pods with one of these hashes in their labels.
    pub(crate) fn pods_with_revision_hashes(&self, hashes: &BTreeSet<Text>) -> Vec<SharedPod> {
        if !hashes.iter().any(|hash| self.pod_revision_hashes.contains_hash(hash)) {
            return Vec::new();
        }
        let placed = self.nodes.values().flat_map(|node| &node.pods);
        placed.chain(self.untargeted.values()).filter(|pod| hashes.contains(pod.revision_hash())).cloned().collect()
    }

    /// Returns the number of decided contributions since the last call.
    pub(crate) fn take_node_decision_count(&mut self) -> u64 {
        std::mem::take(&mut self.decided)
    }

    /// Updates contributions and totals for the events since the last update, the criteria and the time. The eligibility of all
    /// nodes must have been decided before.
    ///
    /// `hash` is the hash of the current revision; `same_hashes` are the hashes of its duplicates.
    pub(crate) fn update(
        &mut self,
        set: &DaemonSet,
        hash: &str,
        same_hashes: &BTreeSet<Text>,
        now: Timestamp,
        failed_pod_backoff: &FailedPodBackoff,
    ) {
        self.changed.extend(self.totals.take_nodes_with_expired_timer(now));
        let criteria = pod_criteria(set, hash, same_hashes, self.totals.node_counts.desired);
        self.update_contributions(criteria, now, failed_pod_backoff);
        // The number of desired nodes may have changed, and with it whether a `maxSurge` in percent is zero.
        let criteria = pod_criteria(set, hash, same_hashes, self.totals.node_counts.desired);
        if criteria != self.criteria {
            self.update_contributions(criteria, now, failed_pod_backoff);
        }
    }

    /// Decides the contribution of the changed nodes or, with new criteria, of every node.
    fn update_contributions(&mut self, criteria: PodCriteria, now: Timestamp, failed_pod_backoff: &FailedPodBackoff) {
        if self.criteria != criteria {
            self.criteria = criteria;
            self.changed.extend(self.nodes.keys().cloned());
        }
        for name in std::mem::take(&mut self.changed) {
            let Some(node) = self.nodes.get_mut(&name) else { continue };
            self.totals.subtract_contribution(&name, &node.contribution);
            if node.pods.is_empty() && !node.eligibility.should_run() {
                self.nodes.remove(&name);
                continue;
            }
            let view = NodeView {
                eligibility: node.eligibility,
                pods: &node.pods,
                failed_pod_deletion_delayed_until: failed_pod_backoff.deletion_delayed_until(&name, now),
            };
            node.contribution = compute_node_contribution(&view, &self.criteria, now);
            self.totals.add_contribution(&name, &node.contribution);
            self.decided += 1;
        }
    }

    /// Returns the counts, and the nodes on which a sync can act. No list is longer than `burst` or the limits of the update.
    ///
    /// A node that gets no Pod now is in no list of creations, in which it would take the place of another node in every sync.
    pub(crate) fn actionable_nodes(
        &self,
        set: &DaemonSet,
        burst: usize,
        cursors: &RefusedNodeCursors,
        delayed_pod_creations: DelayedPodCreations,
        now: Timestamp,
        failed_pod_backoff: &FailedPodBackoff,
    ) -> ActionableNodes {
        let none = BTreeSet::new();
        let node_pods = |name: &Text| {
            let node = self.nodes.get(name)?;
            Some(NodePods {
                name: name.clone(),
                eligibility: node.eligibility,
                pods: node.pods.to_vec(),
                failed_pod_deletion_delayed_until: failed_pod_backoff.deletion_delayed_until(name, now),
                next_failed_pod_delay: failed_pod_backoff.next_delay(name, now),
            })
        };
        let take_without = |list: &BTreeSet<Text>, without: &BTreeSet<Text>, at_most: usize, cursor: &NodeCursor| {
            let names = nodes_after_cursor(list, cursor).filter(|name| !without.contains(*name)).take(at_most);
            NodeList {
                nodes: names.filter_map(node_pods).collect(),
                total_count: list.len() - without.iter().filter(|name| list.contains(*name)).count(),
            }
        };
        let take = |list: &BTreeSet<Text>, at_most, cursor: &NodeCursor| take_without(list, &none, at_most, cursor);
        let RefusedNodeCursors { creation_cursor, deletion_cursor } = cursors;
        let NodeIndexTotals { node_counts, node_lists: lists, .. } = &self.totals;
        let delayed = &delayed_pod_creations.nodes;
        let replacement = self.criteria.replacement_order;
        let (replace, waits) = match replacement {
            ReplacementOrder::CreateFirst => (creation_cursor, delayed),
            ReplacementOrder::DeleteFirst | ReplacementOrder::OnDelete => (deletion_cursor, &none),
        };
        let room = RollingUpdateLimits::new(set, node_counts.desired)
            .map_or(0, |limits| limits.remaining_replacement_count(node_counts, replacement));
        let unanswered = delayed_pod_creations.unanswered.keys();
        let possible_second_pod_count = unanswered.filter(|node| !lists.nodes_needing_pod.contains(*node)).count();
        let max_ineligible = max_deletions_on_ineligible_nodes(node_counts);
        ActionableNodes {
            pod_criteria: self.criteria.clone(),
            node_counts: *node_counts,
            refused_node_cursors: cursors.clone(),
            nodes_needing_pod: take_without(&lists.nodes_needing_pod, delayed, burst, creation_cursor),
            nodes_with_pods_to_delete: take(&lists.nodes_with_pods_to_delete, burst, deletion_cursor),
            nodes_with_unavailable_outdated_pod: take_without(
                &lists.nodes_with_unavailable_outdated_pod,
                waits,
                burst,
                replace,
            ),
            nodes_with_unneeded_outdated_pod: take(&lists.nodes_with_unneeded_outdated_pod, burst, deletion_cursor),
            ineligible_nodes_with_available_pod: take(
                &lists.ineligible_nodes_with_available_pod,
                burst.min(max_ineligible),
                deletion_cursor,
            ),
            nodes_with_available_outdated_pod: take_without(
                &lists.nodes_with_available_outdated_pod,
                waits,
                burst.min(room),
                replace,
            ),
            blocking_nodes: take(&lists.blocking_nodes, MAX_EXPLAINED_NODES, &NodeCursor::default()),
            possible_second_pod_count,
            delayed_pod_creations,
            pods_without_node_count: self.untargeted.len(),
            next_change_at: self.totals.first_change_at(),
        }
    }
}

/// Returns the nodes after the cursor (the node of the last refused request), and then the nodes up to the cursor.
fn nodes_after_cursor<'a>(list: &'a BTreeSet<Text>, cursor: &'a NodeCursor) -> impl Iterator<Item = &'a Text> {
    let refused = cursor.0.as_ref();
    let later = list.range::<Text, _>((refused.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
    let earlier = refused.map(|refused| list.range::<Text, _>((Bound::Unbounded, Bound::Included(refused))));
    later.chain(earlier.into_iter().flatten())
}

#[cfg(test)]
mod tests;
