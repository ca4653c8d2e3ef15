use std::collections::BTreeSet;

use common::intern::Text;
use jiff::Timestamp;

use crate::{
    decide::contribution::{NodeContribution, RolloutRole},
    snapshot::nodes::NodeCounts,
};

/// The sums over the contributions of all nodes of a DaemonSet.
#[derive(Default)]
pub(super) struct NodeIndexTotals {
    pub(super) node_counts: NodeCounts,
    /// The nodes that need an action or block a rollout.
    pub(super) node_lists: NodeLists,
    /// The times at which a contribution changes without an event, each with the name of the node.
    timers: BTreeSet<(Timestamp, Text)>,
}

/// The nodes that need an action or block a rollout, by kind of action. A node may be in several lists.
#[derive(Default)]
pub(super) struct NodeLists {
    pub(super) nodes_needing_pod: BTreeSet<Text>,
    pub(super) nodes_with_pods_to_delete: BTreeSet<Text>,
    pub(super) blocking_nodes: BTreeSet<Text>,
    pub(super) nodes_with_unavailable_outdated_pod: BTreeSet<Text>,
    pub(super) nodes_with_available_outdated_pod: BTreeSet<Text>,
    pub(super) nodes_with_unneeded_outdated_pod: BTreeSet<Text>,
    pub(super) ineligible_nodes_with_available_pod: BTreeSet<Text>,
}

impl NodeIndexTotals {
    /// Adds the contribution of a node to the counts, the lists and the timers.
    pub(super) fn add_contribution(&mut self, node: &Text, contribution: &NodeContribution) {
        self.node_counts.add(&contribution.node_counts, 1);
        for list in self.node_lists.lists_for(contribution) {
            list.insert(node.clone());
        }
        self.timers.extend(contribution.next_change_at.map(|due| (due, node.clone())));
    }

    /// Subtracts the contribution of a node from all sums. `contribution` must be the value that was added.
    pub(super) fn subtract_contribution(&mut self, node: &Text, contribution: &NodeContribution) {
        self.node_counts.add(&contribution.node_counts, -1);
        for list in self.node_lists.lists_for(contribution) {
            list.remove(node);
        }
        if let Some(due) = contribution.next_change_at {
            self.timers.remove(&(due, node.clone()));
        }
    }

    /// Removes the timers that have expired, and returns their nodes.
    pub(super) fn take_nodes_with_expired_timer(&mut self, now: Timestamp) -> impl Iterator<Item = Text> {
        std::iter::from_fn(move || {
            self.timers.first().filter(|(due, _)| *due <= now)?;
            self.timers.pop_first().map(|(_, node)| node)
        })
    }

    /// Returns the first time at which the contribution of a node changes without an event; `None` if only an event changes it.
    pub(super) fn first_change_at(&self) -> Option<Timestamp> {
        self.timers.first().map(|(due, _)| *due)
    }
}

impl NodeLists {
    /// Returns the lists to which a node with this contribution belongs.
    fn lists_for(&mut self, contribution: &NodeContribution) -> impl Iterator<Item = &mut BTreeSet<Text>> {
        let rollout = match contribution.rollout_role {
            RolloutRole::NoAction => None,
            RolloutRole::BlocksRollout => Some(&mut self.blocking_nodes),
            RolloutRole::ReplaceUnavailable => Some(&mut self.nodes_with_unavailable_outdated_pod),
            RolloutRole::ReplaceWithinLimit => Some(&mut self.nodes_with_available_outdated_pod),
            RolloutRole::DeleteOutdated => Some(&mut self.nodes_with_unneeded_outdated_pod),
            RolloutRole::DeleteWhenOthersAvailable => Some(&mut self.ineligible_nodes_with_available_pod),
        };
        let create = contribution.needs_pod.then_some(&mut self.nodes_needing_pod);
        let delete = contribution.has_pods_to_delete.then_some(&mut self.nodes_with_pods_to_delete);
        [create, delete, rollout].into_iter().flatten()
    }
}
