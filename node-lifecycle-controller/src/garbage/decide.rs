//! Decides which Pods a pass of the Pod garbage collector removes.

use std::{
    cmp::{Ordering, Reverse},
    collections::BTreeSet,
    sync::Arc,
};

use common::{intern::Text, pods::Phase};

use super::{
    plan::{Plan, PodRemoval, PodRemovalsOnNode, RemovalReason},
    snapshot::Snapshot,
};
use crate::objects::CachedPod;

/// Returns the number of finished Pods above the threshold; 0 if the threshold is 0 or less.
pub(crate) fn excess_finished_pod_count(ended_count: usize, threshold: i64) -> usize {
    match usize::try_from(threshold) {
        Ok(0) | Err(_) => 0,
        Ok(threshold) => ended_count.saturating_sub(threshold),
    }
}

/// Decides which Pods a pass removes. Upstream: `pkg/controller/podgc`, `gc`.
pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    let Snapshot {
        names_of_missing_nodes: missing,
        quarantine,
        settings: limits,
        now,
        finished_pod_count: ended_count,
        ..
    } = snapshot;
    let out_of_service =
        snapshot.terminating_pods_of_out_of_service_nodes.iter().filter(|(node, _)| node.is_out_of_service());
    let out_of_service = out_of_service.map(|(node, pods)| PodRemovalsOnNode {
        node_name: Text::new(&node.metadata.name),
        pod_removals: removals_for_reason(pods, RemovalReason::OutOfService),
    });
    let orphaned = |(node, pods): (&Text, &Vec<_>)| PodRemovalsOnNode {
        node_name: node.clone(),
        pod_removals: removals_for_reason(pods, RemovalReason::Orphaned),
    };
    let due: BTreeSet<&Text> =
        quarantine.node_names_after_quarantine(missing, *now, limits.quarantine_period).collect();
    Plan {
        finished_pod_removals: removals_for_reason(&snapshot.finished_pods_to_remove, RemovalReason::Terminated),
        excess_finished_pod_count: excess_finished_pod_count(*ended_count, limits.finished_pod_threshold),
        out_of_service_pod_removals: out_of_service.filter(has_pod_removals).collect(),
        orphaned_pod_removals: {
            let orphaned = snapshot.pods_of_nodes_after_quarantine.iter().map(orphaned);
            orphaned.filter(has_pod_removals).collect()
        },
        unscheduled_pod_removals: removals_for_reason(
            &snapshot.terminating_pods_without_node,
            RemovalReason::Unscheduled,
        ),
        quarantine: quarantine.quarantine_after_pass(missing, snapshot.pods_of_nodes_after_quarantine.keys(), *now),
        names_of_quarantined_nodes: missing.iter().filter(|node| !due.contains(node)).cloned().collect(),
        leaves_nodes_to_next_pass: due.len() > snapshot.pods_of_nodes_after_quarantine.len(),
        finished_pod_count: *ended_count,
        settings: *limits,
    }
}

/// Returns the removals of these Pods, except those that only finalizers keep: no request would change them.
fn removals_for_reason(pods: &[Arc<CachedPod>], reason: RemovalReason) -> Vec<PodRemoval> {
    let remaining = pods.iter().filter(|pod| !pod.is_removed());
    remaining.map(|pod| PodRemoval { pod: Arc::clone(pod), reason }).collect()
}

/// Whether the pass has to read the node, because it removes a Pod of the node.
fn has_pod_removals(of_node: &PodRemovalsOnNode) -> bool {
    !of_node.pod_removals.is_empty()
}

/// Compares finished Pods by the order of removal: evicted Pods first, then older Pods, then by name and namespace.
pub(crate) fn compare_removal_order(a: &Arc<CachedPod>, b: &Arc<CachedPod>) -> Ordering {
    let is_evicted = |pod: &CachedPod| pod.phase == Phase::Failed && pod.is_evicted_by_kubelet;
    let order = Reverse(is_evicted(a)).cmp(&Reverse(is_evicted(b)));
    let order = order.then_with(|| a.meta.creation_timestamp.cmp(&b.meta.creation_timestamp));
    order.then_with(|| a.meta.name.cmp(&b.meta.name)).then_with(|| a.meta.namespace.as_str().cmp(&b.meta.namespace))
}

#[cfg(test)]
mod tests;
