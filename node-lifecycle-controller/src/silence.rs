//! When a node counts as silent, and how its conditions say so.
//!
//! A node's own clock plays no part: a heartbeat is a renewal time or a report time that differs from the last one, seen at a time of this
//! process.

use std::time::Duration;

use common::{
    clock::Instant,
    conditions::{self, UNKNOWN},
};

use crate::objects::{Node, NodeReady, READY};

/// Conditions that become `Unknown` when a node is silent, in this order. `NetworkUnavailable` is never touched.
const CONDITIONS: [&str; 4] = [READY, "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Reason and message of a condition that was reported before.
pub(crate) const STOPPED: (&str, &str) = ("NodeStatusUnknown", "Kubelet stopped posting node status.");
/// Reason and message of a condition that was never reported.
pub(crate) const NEVER: (&str, &str) = ("NodeStatusNeverUpdated", "Kubelet never posted node status.");

/// How long nodes may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grace {
    /// For nodes that have reported a status.
    pub(crate) monitor: Duration,
    /// For nodes that never have.
    pub(crate) startup: Duration,
}

impl Grace {
    /// The grace period of a node.
    pub(crate) fn of(&self, node: &Node) -> Duration {
        if node.ready() == NodeReady::Absent { self.startup } else { self.monitor }
    }

    /// When a node counts as silent of which something was heard at `heard`. Grace periods begin no earlier than `from`.
    pub(crate) fn end(&self, node: &Node, heard: Instant, from: Instant) -> Instant {
        heard.max(from) + self.of(node)
    }
}

/// A condition that becomes `Unknown`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lapsed {
    /// Its type.
    pub kind: &'static str,
    /// Whether the node never had it.
    pub is_missing: bool,
}

/// Whether the condition `Unknown` was written because nothing was heard of the node. A kubelet gives other reasons.
pub(crate) fn is_lapsed(node: &Node) -> bool {
    conditions::get(node.conditions(), READY)
        .is_some_and(|ready| ready.status == UNKNOWN && (ready.reason == STOPPED.0 || ready.reason == NEVER.0))
}

/// The conditions that become `Unknown` when the node is silent; none if its condition `Ready` is `Unknown` already.
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
