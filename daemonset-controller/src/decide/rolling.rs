//! Rolling updates: the replacement of outdated Pods within `maxUnavailable` and `maxSurge`.

use std::collections::BTreeSet;

use common::{
    intstr::{IntOrString, Rounding},
    prelude::*,
};

use crate::{
    objects::{DaemonSet, UpdateStrategy},
    plan::{CreationReason, DeletionReason, Plan},
    snapshot::{
        Snapshot,
        nodes::{NodeCounts, NodePods, PodCriteria, ReplacementOrder},
    },
};

/// Returns the properties of a DaemonSet that decide whether a Pod is current, available or replaced. `hash` is the hash of the
/// current revision, `same_hashes` are the hashes of its duplicates, and `desired` is the number of nodes on which a Pod should
/// run.
pub fn pod_criteria(set: &DaemonSet, hash: &str, same_hashes: &BTreeSet<Text>, desired: i32) -> PodCriteria {
    PodCriteria {
        current_hash: Text::new(hash),
        duplicate_hashes: same_hashes.clone(),
        template_generation: set.template_generation().map(|generation| Text::new(&generation.to_string())),
        min_ready_seconds: set.min_ready_seconds,
        allows_surge: set.allows_surge(),
        replacement_order: RollingUpdateLimits::replacement_order(set, desired),
    }
}

/// The limits of a rolling update as numbers of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollingUpdateLimits {
    /// Greatest number of nodes without an available Pod; 0 with `OnDelete`.
    pub max_unavailable: i32,
    /// Greatest number of nodes with a new Pod beside the outdated Pod; 0 with `OnDelete`.
    pub max_surge: i32,
}

impl RollingUpdateLimits {
    /// Converts the limits in the spec to numbers of nodes. A percentage is relative to `desired`, the number of nodes on which
    /// a Pod should run, and is rounded up. The error names a value that the API server's validation refuses.
    ///
    /// Upstream: `pkg/controller/daemon`, `updatedDesiredNodeCounts`.
    pub fn new(set: &DaemonSet, desired: i32) -> Result<Self, String> {
        let UpdateStrategy::RollingUpdate { max_unavailable, max_surge } = &set.update_strategy else {
            return Ok(Self { max_unavailable: 0, max_surge: 0 });
        };
        let resolve = |field: &str, value: &Option<IntOrString>, absent: i32| match value {
            Some(value) => value
                .resolve(desired, Rounding::Up)
                .map(|n| n.max(0))
                .map_err(|error| format!("spec.updateStrategy.rollingUpdate.{field}: {error}")),
            None => Ok(absent),
        };
        let max_unavailable = resolve("maxUnavailable", max_unavailable, 1)?;
        let max_surge = resolve("maxSurge", max_surge, 0)?;
        // With both limits zero, a rollout would never progress.
        let blocked = desired > 0 && max_unavailable == 0 && max_surge == 0;
        Ok(Self { max_unavailable: if blocked { 1 } else { max_unavailable }, max_surge })
    }

    /// Returns the order of creation and deletion. The new Pod is created first if `maxSurge` is at least one node.
    pub fn replacement_order(set: &DaemonSet, desired: i32) -> ReplacementOrder {
        match (&set.update_strategy, Self::new(set, desired)) {
            (UpdateStrategy::OnDelete, _) => ReplacementOrder::OnDelete,
            (UpdateStrategy::RollingUpdate { .. }, Ok(limits)) if limits.max_surge > 0 => ReplacementOrder::CreateFirst,
            (UpdateStrategy::RollingUpdate { .. }, _) => ReplacementOrder::DeleteFirst,
        }
    }

    /// Returns the number of further nodes on which an available outdated Pod may be replaced now.
    pub fn remaining_replacement_count(&self, node_counts: &NodeCounts, replacement: ReplacementOrder) -> usize {
        let limit = match replacement {
            ReplacementOrder::OnDelete => 0,
            ReplacementOrder::DeleteFirst => self.max_unavailable,
            ReplacementOrder::CreateFirst => self.max_surge,
        };
        usize::try_from(limit.saturating_sub(node_counts.blocking_rollout)).unwrap_or(0)
    }
}

/// Returns the number of available Pods that may be deleted on nodes on which no Pod should run: the number of existing nodes
/// with an available Pod, minus the number of nodes on which a Pod should run.
pub fn max_deletions_on_ineligible_nodes(node_counts: &NodeCounts) -> usize {
    usize::try_from(node_counts.with_available_pod.saturating_sub(node_counts.desired)).unwrap_or(0)
}

/// Adds the replacements of outdated Pods to the plan. Nodes that get no Pod now are skipped in favour of other nodes.
///
/// Upstream: `pkg/controller/daemon`, `rollingUpdate`.
pub fn decide_rolling_update(snapshot: &Snapshot, plan: &mut Plan) {
    let nodes = &snapshot.actionable_nodes;
    let (node_counts, criteria) = (&nodes.node_counts, &nodes.pod_criteria);
    if criteria.replacement_order == ReplacementOrder::OnDelete {
        if node_counts.updated < node_counts.current {
            let outdated = node_counts.current - node_counts.updated;
            plan.waiting_reasons
                .push(|| format!("{outdated} outdated Pods are replaced when users delete them (OnDelete)"));
        }
        return;
    }
    let limits = match RollingUpdateLimits::new(&snapshot.set, node_counts.desired) {
        Ok(limits) => limits,
        Err(error) => {
            plan.waiting_reasons.push(|| format!("outdated Pods are not replaced: {error}"));
            return;
        }
    };
    let creates_first = criteria.replacement_order == ReplacementOrder::CreateFirst;
    let unseen = if creates_first { nodes.possible_second_pod_count } else { 0 };
    let room = limits.remaining_replacement_count(node_counts, criteria.replacement_order).saturating_sub(unseen);
    explain_waiting_pods(snapshot, limits, room, plan);
    let (unavailable, available) =
        (&nodes.nodes_with_unavailable_outdated_pod, &nodes.nodes_with_available_outdated_pod);
    let deferred = unavailable.unlisted_count() + room.min(available.total_count).saturating_sub(available.nodes.len());
    let delete = |node: &NodePods, reason| {
        let outdated_pod = node.as_node_view().only_outdated_pod(criteria);
        outdated_pod.map(|pod| node.deletion(pod, reason))
    };
    if !creates_first {
        plan.deferred_node_counts.deletion_node_count += deferred;
        let unavailable = unavailable.nodes.iter();
        plan.pod_deletions.extend(unavailable.filter_map(|node| delete(node, DeletionReason::OutdatedAndUnavailable)));
        let chosen = available.nodes.iter().take(room);
        return plan.pod_deletions.extend(chosen.filter_map(|node| delete(node, DeletionReason::Outdated)));
    }
    let unneeded = &nodes.nodes_with_unneeded_outdated_pod;
    plan.deferred_node_counts.creation_node_count += deferred;
    plan.deferred_node_counts.deletion_node_count += unneeded.unlisted_count();
    plan.pod_deletions
        .extend(unneeded.nodes.iter().filter_map(|node| delete(node, DeletionReason::OutdatedAndUnneeded)));
    let max_ineligible = max_deletions_on_ineligible_nodes(node_counts);
    let ineligible = nodes.ineligible_nodes_with_available_pod.nodes.iter().take(max_ineligible);
    plan.pod_deletions.extend(ineligible.filter_map(|node| delete(node, DeletionReason::NodeNotEligible)));
    let is_free = |node: &&NodePods| !nodes.delayed_pod_creations.nodes.contains(&node.name);
    let unavailable = unavailable.nodes.iter().filter(is_free);
    plan.pod_creations.extend(unavailable.map(|node| node.creation(CreationReason::OutdatedAndUnavailable)));
    let chosen = available.nodes.iter().filter(is_free).take(room);
    plan.pod_creations.extend(chosen.map(|node| node.creation(CreationReason::Outdated)));
}

/// Adds to the explanation the reasons why outdated Pods are not replaced now.
fn explain_waiting_pods(snapshot: &Snapshot, limits: RollingUpdateLimits, room: usize, plan: &mut Plan) {
    let (nodes, node_counts) = (&snapshot.actionable_nodes, &snapshot.actionable_nodes.node_counts);
    let waiting = nodes.nodes_with_available_outdated_pod.total_count.saturating_sub(room);
    if waiting > 0 {
        let blocking = node_counts.blocking_rollout;
        let RollingUpdateLimits { max_unavailable, max_surge } = limits;
        let reason = match nodes.pod_criteria.replacement_order {
            ReplacementOrder::CreateFirst => {
                format!("maxSurge is {max_surge}, and on {blocking} nodes a new Pod is not available yet")
            }
            _ => format!("maxUnavailable is {max_unavailable}, and {blocking} nodes have no available Pod"),
        };
        plan.waiting_reasons.push(|| format!("{waiting} outdated Pods wait: {reason}"));
    }
    let max_ineligible = max_deletions_on_ineligible_nodes(node_counts);
    let stay = nodes.ineligible_nodes_with_available_pod.total_count.saturating_sub(max_ineligible);
    if stay > 0 {
        let reason = "Pods stay on nodes where no Pod should run until enough other nodes have an available Pod";
        plan.waiting_reasons.push(|| format!("{stay} {reason}"));
    }
    if waiting > 0 || node_counts.blocking_rollout > 0 {
        for node in &nodes.blocking_nodes.nodes {
            plan.waiting_reasons.push(|| describe_blocking_node(node));
        }
    }
}

/// Returns a line of the explanation that says why a node counts against the limit of the rolling update.
fn describe_blocking_node(node: &NodePods) -> String {
    let name = &node.name;
    let present: Vec<_> = node.pods.iter().filter(|pod| !pod.is_finished_and_terminating()).collect();
    match present.iter().find(|pod| !pod.meta().is_deleting()) {
        None if present.is_empty() => format!("node {name} has no Pod"),
        None => format!("node {name}: Pod {} is terminating", present[0].meta().name),
        Some(pod) if !pod.is_bound() => format!("node {name}: Pod {} is not scheduled", pod.meta().name),
        Some(pod) if !pod.is_ready() => format!("node {name}: Pod {} is not ready", pod.meta().name),
        Some(pod) => format!("node {name}: Pod {} is not available yet, or the node has several Pods", pod.meta().name),
    }
}

#[cfg(test)]
mod tests;
