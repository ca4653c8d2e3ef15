//! The data that a pass reads: about nodes that changed or have reached their deadline, or about nodes that wait for a taint.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{clock::Instant, intern::Text, meta::Uid};

use crate::{
    disruption::{ZoneSettings, ZoneStatus},
    objects::{Node, NodeName},
    rate::TaintRateLimiter,
    server_contact::ServerContact,
    silence::GracePeriods,
};

/// Everything that one pass reads, by the kind of pass.
pub(crate) enum Snapshot {
    /// Data for nodes that changed or have reached their deadline.
    Health(Box<HealthSnapshot>),
    /// Data for nodes that wait for a `NoExecute` taint.
    Tainting(TaintingSnapshot),
}

/// A node that a pass examines.
#[derive(Clone, Debug)]
pub(crate) struct ExaminedNode {
    /// The state of the node that was received last, from a watch or in an answer of the server.
    pub(crate) node: Arc<Node>,
    /// Start of the grace period: the time of the last heartbeat, or a later restart of the grace period.
    pub(crate) grace_period_start: Instant,
    /// Earliest time of the next write of the node's conditions; `None` if the server did not deny the last write.
    pub(crate) condition_write_denied_until: Option<Instant>,
    /// Whether an earlier pass decided that the node waits for a `NoExecute` taint.
    pub(crate) is_waiting_for_taint: bool,
    /// Whether the condition `Ready` decides how the node counts for its zone; false for an excluded node and after a failed
    /// write.
    pub(crate) is_counted_by_ready_condition: bool,
}

/// Nodes that a pass records as Events, with their UIDs.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodesToReport {
    pub(crate) added_nodes: BTreeMap<NodeName, Uid>,
    pub(crate) removed_nodes: Vec<(NodeName, Uid)>,
    /// Nodes that an unanswered write of this process set to `Unknown`.
    pub(crate) nodes_set_unknown: Vec<(NodeName, Uid)>,
}

impl NodesToReport {
    /// Removes the nodes of `reported`. Nodes that were added or removed after the snapshot of that pass are kept.
    pub(crate) fn remove_reported(&mut self, reported: &Self) {
        self.added_nodes.retain(|name, uid| reported.added_nodes.get(name) != Some(uid));
        self.removed_nodes.drain(..reported.removed_nodes.len().min(self.removed_nodes.len()));
        self.nodes_set_unknown.drain(..reported.nodes_set_unknown.len().min(self.nodes_set_unknown.len()));
    }
}

/// Everything that a pass over nodes reads.
#[derive(Clone, Debug)]
pub(crate) struct HealthSnapshot {
    pub(crate) now: Instant,
    /// Whether this process can receive heartbeats, and since when.
    pub(crate) server_contact: ServerContact,
    /// Error of a watch; `None` if all watches work.
    pub(crate) watch_error: Option<String>,
    /// End of the last disruption of all zones, when all grace periods restarted; `None` before the first end.
    pub(crate) grace_periods_restarted_at: Option<Instant>,
    /// Grace periods of nodes with and without a condition `Ready`.
    pub(crate) grace_periods: GracePeriods,
    /// Nodes that changed or have reached their deadline.
    pub(crate) examined_nodes: Vec<ExaminedNode>,
    /// States and node counts of all zones, by key.
    pub(crate) zones: BTreeMap<Text, ZoneStatus>,
    /// Whether the last pass found every zone fully disrupted.
    pub(crate) was_total_disruption: bool,
    /// Thresholds and rates of zones, set by flags.
    pub(crate) zone_settings: ZoneSettings,
    /// Nodes to record as Events: added, removed, or set to `Unknown` by an unanswered write.
    pub(crate) nodes_to_report: NodesToReport,
    /// Pause between two passes.
    pub(crate) pass_period: Duration,
}

/// A zone in which nodes wait for a `NoExecute` taint.
#[derive(Clone, Debug)]
pub(crate) struct ZoneWithWaitingNodes {
    /// Key of the zone, made of the region and zone labels of its nodes.
    pub(crate) zone_key: Text,
    /// The node that has waited longest.
    pub(crate) node: Arc<Node>,
    /// Whether `node` no longer needs its taint, for example because of a new heartbeat.
    pub(crate) is_taint_unnecessary: bool,
    /// Count of waiting nodes in the zone, including the one that has waited longest.
    pub(crate) waiting_node_count: usize,
    /// Rate limiter for the `NoExecute` taints of this zone.
    pub(crate) limiter: TaintRateLimiter,
}

/// Limits for the share of tainted nodes, as fractions of all nodes between 0 and 1, set by flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TaintShareLimits {
    /// Share of tainted nodes above which an alarm is raised; 0 or less means never.
    pub(crate) alarm_share: f32,
    /// Upper limit for the share of tainted nodes; 0 or less means no limit.
    pub(crate) max_share: f32,
}

/// Count of tainted nodes and count of all nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaintedNodeShare {
    /// Nodes that have a `NoExecute` taint of this program, or wait for one in a zone with a positive tainting rate.
    pub(crate) tainted_node_count: usize,
    /// Number of nodes in the cluster.
    pub(crate) total_node_count: usize,
}

impl TaintedNodeShare {
    /// Returns the share of tainted nodes, between 0 and 1; 0 if the cluster has no nodes.
    pub(crate) fn fraction(self) -> f64 {
        self.tainted_node_count as f64 / self.total_node_count.max(1) as f64
    }

    /// Whether the share is above `alarm`; false if `alarm` is 0 or less.
    pub(crate) fn is_above_alarm_share(self, alarm: f32) -> bool {
        alarm > 0.0 && self.fraction() as f32 > alarm
    }
}

/// Everything that a pass over waiting nodes reads.
#[derive(Clone, Debug)]
pub(crate) struct TaintingSnapshot {
    pub(crate) now: Instant,
    /// Whether this process can receive heartbeats; if not, no node is tainted.
    pub(crate) has_server_contact: bool,
    /// Zones in which nodes wait for a `NoExecute` taint.
    pub(crate) zones_with_waiting_nodes: Vec<ZoneWithWaitingNodes>,
    /// Number of nodes in the cluster.
    pub(crate) total_node_count: usize,
    /// Number of nodes with a `NoExecute` taint of this program.
    pub(crate) tainted_node_count: usize,
    /// The shares of tainted nodes that raise the alarm and that prevent further taints.
    pub(crate) share_limits: TaintShareLimits,
    /// Whether the alarm was raised and the share of tainted nodes still exceeds `--node-taint-alarm-share`.
    pub(crate) is_taint_alarm_active: bool,
    /// Pause before the next pass if this process cannot receive heartbeats.
    pub(crate) pass_period: Duration,
}
