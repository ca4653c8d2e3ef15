//! Defines when a node counts as silent, and which conditions a silent node gets.
//!
//! A heartbeat is a change of the renewal time of a Lease or of the report time of a node. It counts from the time at which
//! this process sees the change; the clock of the node is not used.

use std::time::Duration;

use common::{
    clock::Instant,
    conditions::{self, UNKNOWN},
};

use crate::objects::{Node, NodeReady, READY};

/// Conditions that become `Unknown` for a silent node, in this order. `NetworkUnavailable` is never changed.
const CONDITIONS: [&str; 4] = [READY, "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Reason and message of a condition that the kubelet reported before.
pub(crate) const STOPPED: (&str, &str) = ("NodeStatusUnknown", "Kubelet stopped posting node status.");
/// Reason and message of a condition that the kubelet never reported.
pub(crate) const NEVER: (&str, &str) = ("NodeStatusNeverUpdated", "Kubelet never posted node status.");

/// How long a node may send no heartbeat before it counts as silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grace {
    /// Value for nodes with a condition `Ready`, from `--node-monitor-grace-period`.
    pub(crate) monitor: Duration,
    /// Value for nodes without a condition `Ready`, from `--node-startup-grace-period`.
    pub(crate) startup: Duration,
}

impl Grace {
    /// Returns the grace period of a node, by the presence of its condition `Ready`.
    pub(crate) fn of(&self, node: &Node) -> Duration {
        if node.ready() == NodeReady::Absent { self.startup } else { self.monitor }
    }

    /// Returns the time at which a node counts as silent. `heard` is the time of the last heartbeat; grace periods start at
    /// `from` or later.
    pub(crate) fn end(&self, node: &Node, heard: Instant, from: Instant) -> Instant {
        heard.max(from) + self.of(node)
    }
}

/// A condition of a silent node that becomes `Unknown`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lapsed {
    /// Type of the condition, for example `Ready`.
    pub kind: &'static str,
    /// Whether the node does not have the condition yet.
    pub is_missing: bool,
}

/// Whether the condition `Ready` is `Unknown` with a reason that only node monitors write: the node was found silent.
pub(crate) fn is_lapsed(node: &Node) -> bool {
    conditions::get(node.conditions(), READY)
        .is_some_and(|ready| ready.status == UNKNOWN && (ready.reason == STOPPED.0 || ready.reason == NEVER.0))
}

/// Returns the conditions that become `Unknown` if the node is silent; empty if its condition `Ready` is already `Unknown`.
pub fn lapsing(node: &Node) -> Vec<Lapsed> {
    if node.ready() == NodeReady::Unknown {
        return Vec::new();
    }
    let lapsed = |kind: &'static str| match conditions::get(node.conditions(), kind) {
        None => Some(Lapsed { kind, is_missing: true }),
        Some(condition) => (condition.status != UNKNOWN).then_some(Lapsed { kind, is_missing: false }),
    };
    CONDITIONS.into_iter().filter_map(lapsed).collect()
}
