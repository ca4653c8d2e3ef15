//! Defines when a node is silent (without a heartbeat for its grace period), and which conditions it then gets.
//!
//! A heartbeat is a change of the renewal time of a Lease or of the report time of a node. It counts from the time at which
//! this process sees the change; the clock of the node is not used.

use std::time::Duration;

use common::{
    conditions::{self, UNKNOWN},
    prelude::Instant,
};

use crate::objects::{Node, NodeReadyStatus, READY_CONDITION};

/// Conditions that become `Unknown` if heartbeats are missing, in this order. `NetworkUnavailable` is never changed.
const KUBELET_CONDITIONS: [&str; 4] = [READY_CONDITION, "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Reason and message of a condition that becomes `Unknown` after the kubelet had reported it.
pub(crate) const KUBELET_STOPPED_REASON_AND_MESSAGE: (&str, &str) =
    ("NodeStatusUnknown", "Kubelet stopped posting node status.");
/// Reason and message of an `Unknown` condition that the kubelet has never reported.
pub(crate) const KUBELET_NEVER_REPORTED_REASON_AND_MESSAGE: (&str, &str) =
    ("NodeStatusNeverUpdated", "Kubelet never posted node status.");

/// Time without a heartbeat after which the conditions of a node become `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GracePeriods {
    /// Value for nodes with a condition `Ready`, from `--node-monitor-grace-period`.
    pub(crate) node_monitor_grace_period: Duration,
    /// Value for nodes without a condition `Ready`, from `--node-startup-grace-period`.
    pub(crate) node_startup_grace_period: Duration,
}

impl GracePeriods {
    /// Returns the grace period of a node, by the presence of its condition `Ready`.
    pub(crate) fn for_node(&self, node: &Node) -> Duration {
        if node.ready_status() == NodeReadyStatus::Missing {
            self.node_startup_grace_period
        } else {
            self.node_monitor_grace_period
        }
    }

    /// Returns the end of a node's grace period. `last_heartbeat` is its time; grace periods start at `from` or later.
    pub(crate) fn grace_period_end(&self, node: &Node, last_heartbeat: Instant, from: Instant) -> Instant {
        last_heartbeat.max(from) + self.for_node(node)
    }
}

/// A condition that becomes `Unknown` because heartbeats are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleCondition {
    /// Type of the condition, for example `Ready`.
    pub condition_type: &'static str,
    /// Whether the node does not have the condition yet.
    pub is_missing: bool,
}

/// Whether the condition `Ready` is `Unknown` with a reason that only node monitors write: heartbeats were missing.
pub(crate) fn is_marked_unknown_by_monitor(node: &Node) -> bool {
    conditions::get(node.conditions(), READY_CONDITION).is_some_and(|ready| {
        let reasons = [KUBELET_STOPPED_REASON_AND_MESSAGE.0, KUBELET_NEVER_REPORTED_REASON_AND_MESSAGE.0];
        ready.status == UNKNOWN && reasons.contains(&&*ready.reason)
    })
}

/// Returns the conditions that become `Unknown` if heartbeats are missing; empty if the condition `Ready` is already `Unknown`.
pub fn conditions_to_set_unknown(node: &Node) -> Vec<StaleCondition> {
    if node.ready_status() == NodeReadyStatus::Unknown {
        return Vec::new();
    }
    let stale_condition = |condition_type: &'static str| {
        let condition = conditions::get(node.conditions(), condition_type);
        let is_stale = condition.is_none_or(|condition| condition.status != UNKNOWN);
        is_stale.then_some(StaleCondition { condition_type, is_missing: condition.is_none() })
    };
    KUBELET_CONDITIONS.into_iter().filter_map(stale_condition).collect()
}
