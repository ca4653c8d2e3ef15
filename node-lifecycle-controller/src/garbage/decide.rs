//! Decides which Pods a pass of the Pod garbage collector removes. Pure code: no requests, no clock, no randomness.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{duration, pods::Phase, prelude::*};

use super::quarantine::NodeQuarantine;
use crate::objects::{CachedPod, Node};

/// Maximum number of missing nodes from which one pass removes Pods. If there are more, the next pass follows at once.
pub const MAX_NODES_PER_PASS: usize = 100;
/// Number of finished Pods that a pass reads and removes at a time. Limits the memory of a pass that removes many Pods, and the
/// time of one read of the cache.
pub(crate) const MAX_FINISHED_PODS_PER_CHUNK: usize = 500;
/// Pause before the next pass if one pass could not remove the Pods of all nodes with a finished quarantine.
pub(crate) const PAUSE_AFTER_PARTIAL_PASS: Duration = Duration::from_millis(1);

/// The part of the caches that concerns a pass, and the settings of the pass.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The first finished Pods to remove, at most [`MAX_FINISHED_PODS_PER_CHUNK`], in the order of removal.
    pub(crate) finished_pods_to_remove: Vec<Arc<CachedPod>>,
    pub(crate) finished_pod_count: usize,
    pub(crate) terminating_pods_of_out_of_service_nodes: Vec<(Arc<Node>, Vec<Arc<CachedPod>>)>,
    /// Terminating Pods that were never scheduled, so that no kubelet finishes their deletion.
    pub(crate) terminating_pods_without_node: Vec<Arc<CachedPod>>,
    /// Nodes that do not exist although Pods are assigned to them.
    pub(crate) names_of_missing_nodes: BTreeSet<Text>,
    /// Missing nodes with a finished quarantine, at most [`MAX_NODES_PER_PASS`], each with its Pods.
    pub(crate) pods_of_nodes_after_quarantine: BTreeMap<Text, Vec<Arc<CachedPod>>>,
    /// The missing nodes after the last pass, each with the start of its quarantine.
    pub(crate) quarantine: NodeQuarantine,
    pub(crate) settings: PodGcSettings,
    pub(crate) now: Instant,
}

/// Threshold and periods of a pass, from flags and settings of `--tune`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodGcSettings {
    /// Number of finished Pods that are kept; 0 or less keeps all.
    pub(crate) finished_pod_threshold: i64,
    pub(crate) pass_period: Duration,
    /// How long a node must be missing before its Pods are removed.
    pub(crate) quarantine_period: Duration,
}

/// Reason of a removal, named as in upstream's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemovalReason {
    /// The Pod has finished, and more Pods have finished than the threshold allows.
    Terminated,
    /// The Pod is terminating on a node that is out of service.
    OutOfService,
    /// The node of the Pod does not exist.
    Orphaned,
    /// The Pod is terminating and has no node, so no kubelet can finish it.
    Unscheduled,
}

impl RemovalReason {
    /// Returns the value of the metric label `reason`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }

    /// Whether the reason to remove `cached_pod` also applies to `live_pod`, the Pod with the same name on the server.
    pub(crate) fn still_applies(self, cached_pod: &CachedPod, live_pod: &CachedPod) -> bool {
        let holds = match self {
            Self::Terminated => live_pod.is_finished(),
            Self::OutOfService | Self::Unscheduled => {
                live_pod.meta.is_deleting() && live_pod.node_name == cached_pod.node_name
            }
            Self::Orphaned => live_pod.node_name == cached_pod.node_name,
        };
        holds && live_pod.meta.uid == cached_pod.meta.uid
    }

    /// Whether this reason to remove Pods applies to their node on the server; `None` means that the node does not exist.
    pub(crate) fn is_confirmed_by_node(self, live_node: Option<&Node>) -> bool {
        match self {
            Self::OutOfService => live_node.is_some_and(Node::is_out_of_service),
            Self::Orphaned => live_node.is_none(),
            Self::Terminated | Self::Unscheduled => false,
        }
    }
}

/// A Pod that a pass removes, with the reason.
#[derive(Clone, Debug)]
pub(crate) struct PodRemoval {
    /// The version of the Pod for which the removal was decided.
    pub(crate) pod: Arc<CachedPod>,
    pub(crate) reason: RemovalReason,
}

/// The Pods that a pass removes because of their node. The node is read from the server first.
#[derive(Clone, Debug)]
pub(crate) struct PodRemovalsOnNode {
    pub(crate) node_name: Text,
    /// Pods to remove if the server confirms the state of the node.
    pub(crate) pod_removals: Vec<PodRemoval>,
}

/// The removals of a pass, executed in the order of the fields.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The first finished Pods to remove, at most `MAX_FINISHED_PODS_PER_CHUNK`.
    pub(crate) finished_pod_removals: Vec<PodRemoval>,
    /// Number of all finished Pods to remove, including those that follow the first chunk.
    pub(crate) excess_finished_pod_count: usize,
    pub(crate) out_of_service_pod_removals: Vec<PodRemovalsOnNode>,
    pub(crate) orphaned_pod_removals: Vec<PodRemovalsOnNode>,
    pub(crate) unscheduled_pod_removals: Vec<PodRemoval>,
    /// The missing nodes after this pass, each with the start of its quarantine.
    pub(crate) quarantine: NodeQuarantine,
    /// Missing nodes that are still in quarantine.
    pub(crate) names_of_quarantined_nodes: Vec<Text>,
    /// Pause before the next pass: short if nodes remain, because a pass handles at most `MAX_NODES_PER_PASS` nodes.
    pub(crate) next_pass_after: Duration,
    pub(crate) finished_pod_count: usize,
    pub(crate) settings: PodGcSettings,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        match self.settings.finished_pod_threshold {
            threshold @ 1.. => format!("{} Pods have ended, {threshold} are kept", self.finished_pod_count),
            _ => "all Pods that have ended are kept".to_owned(),
        }
    }

    fn wait_reasons(&self) -> Vec<String> {
        let period = duration::format(self.settings.quarantine_period);
        let missing_line =
            |node: &Text| format!("Node {node} is missing; its Pods are removed if it is still missing after {period}");
        self.names_of_quarantined_nodes.iter().map(missing_line).collect()
    }

    fn requeue_after(&self) -> Option<Duration> {
        Some(self.next_pass_after)
    }
}

impl PodRemoval {
    /// Returns the reason with the namespace of the Pod, because one pass removes Pods of many namespaces.
    pub(crate) fn reason_text(&self) -> String {
        let why = match self.reason {
            RemovalReason::Terminated => "more Pods have ended than are kept",
            RemovalReason::OutOfService => "it is terminating, and its node is out of service",
            RemovalReason::Orphaned => "its node does not exist",
            RemovalReason::Unscheduled => "it is terminating and has no node",
        };
        format!("{why} (namespace {})", self.pod.meta.namespace)
    }
}

/// Returns the number of finished Pods above the threshold; 0 if the threshold is 0 or less.
pub(crate) fn excess_finished_pod_count(finished_pod_count: usize, threshold: i64) -> usize {
    match usize::try_from(threshold) {
        Ok(0) | Err(_) => 0,
        Ok(threshold) => finished_pod_count.saturating_sub(threshold),
    }
}

/// Decides which Pods a pass removes. Upstream: `pkg/controller/podgc`, `gc`.
pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    let Snapshot { names_of_missing_nodes, quarantine, settings, now, finished_pod_count, .. } = snapshot;
    // A pass reads only the nodes of Pods that it removes.
    let removals_on_node = |node_name, pods, reason| {
        let pod_removals = removals_for_reason(pods, reason);
        (!pod_removals.is_empty()).then_some(PodRemovalsOnNode { node_name, pod_removals })
    };
    let out_of_service =
        snapshot.terminating_pods_of_out_of_service_nodes.iter().filter(|(node, _)| node.is_out_of_service());
    let out_of_service = out_of_service
        .filter_map(|(node, pods)| removals_on_node(Text::new(&node.metadata.name), pods, RemovalReason::OutOfService));
    let orphaned = snapshot.pods_of_nodes_after_quarantine.iter();
    let orphaned = orphaned.filter_map(|(node, pods)| removals_on_node(node.clone(), pods, RemovalReason::Orphaned));
    let period = settings.quarantine_period;
    let due: BTreeSet<&Text> = quarantine.node_names_after_quarantine(names_of_missing_nodes, *now, period).collect();
    let leaves_nodes = due.len() > snapshot.pods_of_nodes_after_quarantine.len();
    let examined = snapshot.pods_of_nodes_after_quarantine.keys();
    Plan {
        finished_pod_removals: removals_for_reason(&snapshot.finished_pods_to_remove, RemovalReason::Terminated),
        excess_finished_pod_count: excess_finished_pod_count(*finished_pod_count, settings.finished_pod_threshold),
        out_of_service_pod_removals: out_of_service.collect(),
        orphaned_pod_removals: orphaned.collect(),
        unscheduled_pod_removals: removals_for_reason(
            &snapshot.terminating_pods_without_node,
            RemovalReason::Unscheduled,
        ),
        quarantine: quarantine.quarantine_after_pass(names_of_missing_nodes, examined, *now),
        names_of_quarantined_nodes: names_of_missing_nodes.iter().filter(|node| !due.contains(node)).cloned().collect(),
        next_pass_after: if leaves_nodes { PAUSE_AFTER_PARTIAL_PASS } else { settings.pass_period },
        finished_pod_count: *finished_pod_count,
        settings: *settings,
    }
}

/// Returns the removals of these Pods, except those that only finalizers keep: no request would change them.
fn removals_for_reason(pods: &[Arc<CachedPod>], reason: RemovalReason) -> Vec<PodRemoval> {
    let remaining = pods.iter().filter(|pod| !pod.is_removed());
    remaining.map(|pod| PodRemoval { pod: Arc::clone(pod), reason }).collect()
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
