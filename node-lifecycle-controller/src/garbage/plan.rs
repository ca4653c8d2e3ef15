//! The Pods that a pass removes, with the reasons.

use std::{sync::Arc, time::Duration};

use common::{controller::SyncPlan, duration, intern::Text};

use super::{quarantine::NodeQuarantine, snapshot::PodGcSettings};
use crate::objects::{CachedPod, Node};

/// Pause before the next pass if one pass could not remove the Pods of all nodes with a finished quarantine.
pub(crate) const PAUSE_AFTER_PARTIAL_PASS: Duration = Duration::from_millis(1);

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

    /// Whether the reason to remove the Pod `judged` also applies to `live`, the Pod with the same name on the server.
    pub(crate) fn still_applies(self, judged: &CachedPod, live: &CachedPod) -> bool {
        let holds = match self {
            Self::Terminated => live.is_finished(),
            Self::OutOfService | Self::Unscheduled => live.meta.is_deleting() && live.node_name == judged.node_name,
            Self::Orphaned => live.node_name == judged.node_name,
        };
        holds && live.meta.uid == judged.meta.uid
    }

    /// Whether this reason to remove Pods applies to their node on the server; `None` means that the node does not exist.
    pub(crate) fn is_confirmed_by_node(self, live: Option<&Node>) -> bool {
        match self {
            Self::OutOfService => live.is_some_and(Node::is_out_of_service),
            Self::Orphaned => live.is_none(),
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
    /// Count of all finished Pods to remove, including those that follow the first chunk.
    pub(crate) excess_finished_pod_count: usize,
    /// Terminating Pods on nodes that are out of service.
    pub(crate) out_of_service_pod_removals: Vec<PodRemovalsOnNode>,
    /// Pods of nodes that do not exist.
    pub(crate) orphaned_pod_removals: Vec<PodRemovalsOnNode>,
    /// Terminating Pods without a node.
    pub(crate) unscheduled_pod_removals: Vec<PodRemoval>,
    /// The missing nodes after this pass, each with the start of its quarantine.
    pub(crate) quarantine: NodeQuarantine,
    /// Missing nodes that are still in quarantine.
    pub(crate) names_of_quarantined_nodes: Vec<Text>,
    /// Whether the Pods of some nodes are left to the next pass, because a pass handles at most `MAX_NODES_PER_PASS` nodes.
    pub(crate) leaves_nodes_to_next_pass: bool,
    /// Number of all finished Pods in the cache.
    pub(crate) finished_pod_count: usize,
    pub(crate) settings: PodGcSettings,
}

impl Plan {
    /// Returns the pause before the next pass: 1 ms if nodes are left to the next pass, otherwise the usual period.
    pub(crate) fn pause_before_next_pass(&self) -> Duration {
        if self.leaves_nodes_to_next_pass { PAUSE_AFTER_PARTIAL_PASS } else { self.settings.pass_period }
    }
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        match self.settings.finished_pod_threshold {
            1.. => {
                format!(
                    "{} Pods have ended, {} are kept",
                    self.finished_pod_count, self.settings.finished_pod_threshold
                )
            }
            _ => "all Pods that have ended are kept".to_owned(),
        }
    }

    fn wait_reasons(&self) -> Vec<String> {
        let period = duration::format(self.settings.quarantine_period);
        let missing =
            |node: &Text| format!("Node {node} is missing; its Pods are removed if it is still missing after {period}");
        self.names_of_quarantined_nodes.iter().map(missing).collect()
    }

    fn requeue_after(&self) -> Option<Duration> {
        Some(self.pause_before_next_pass())
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
