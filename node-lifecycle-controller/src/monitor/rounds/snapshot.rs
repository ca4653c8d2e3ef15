//! The data that a round reads: for a pass over nodes, or for the tainting of waiting nodes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{clock::Instant, intern::Text, meta::Uid};

use crate::{
    disruption::{ZoneLimits, ZoneStanding},
    objects::{Name, Node},
    rate::Limiter,
    sight::Sight,
    silence::Grace,
};

/// Everything that one round reads, by the kind of round.
pub(crate) enum Snapshot {
    /// Snapshot of a pass over nodes.
    Health(Box<HealthSnapshot>),
    /// Snapshot for the tainting of waiting nodes.
    Tainting(TaintingSnapshot),
}

/// A node that a pass examines.
#[derive(Clone, Debug)]
pub(crate) struct Examined {
    /// Newest known state of the node.
    pub(crate) node: Arc<Node>,
    /// Start of the grace period: the time of the last heartbeat, or a later restart of the grace period.
    pub(crate) heard: Instant,
    /// Earliest time of the next write of the node's conditions; `None` if the server did not deny the last write.
    pub(crate) denied_until: Option<Instant>,
    /// Whether the node already waits for a taint.
    pub(crate) waits: bool,
    /// Whether the condition `Ready` decides how the node counts for its zone; false for an excluded node and after a failed
    /// write.
    pub(crate) counts: bool,
}

/// Nodes that a pass records as Events, with their UIDs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    pub(crate) arrived: BTreeMap<Name, Uid>,
    pub(crate) departed: Vec<(Name, Uid)>,
    /// Nodes whose conditions became `Unknown` by a write of this process whose answer was lost.
    pub(crate) lapsed: Vec<(Name, Uid)>,
}

impl Reports {
    /// Removes the nodes of `reported`. Nodes that were added or removed after the snapshot of that pass stay.
    pub(crate) fn remove(&mut self, reported: &Self) {
        self.arrived.retain(|name, uid| reported.arrived.get(name) != Some(uid));
        self.departed.drain(..reported.departed.len().min(self.departed.len()));
        self.lapsed.drain(..reported.lapsed.len().min(self.lapsed.len()));
    }
}

/// Everything that a pass reads.
#[derive(Clone, Debug)]
pub(crate) struct HealthSnapshot {
    pub(crate) now: Instant,
    /// Evidence that this process has a live view of nodes.
    pub(crate) sight: Sight,
    /// Error of a watch; `None` if all watches work.
    pub(crate) trouble: Option<String>,
    /// Earliest start of all grace periods; `None` until the first total disruption has ended.
    pub(crate) grace_from: Option<Instant>,
    /// Grace periods of nodes with and without a condition `Ready`.
    pub(crate) grace: Grace,
    /// Nodes that changed or whose deadline has passed.
    pub(crate) examined: Vec<Examined>,
    /// States and node counts of all zones, by key.
    pub(crate) zones: BTreeMap<Text, ZoneStanding>,
    /// Whether the last pass found every zone fully disrupted.
    pub(crate) was_total: bool,
    /// Thresholds and rates of zones, set by flags.
    pub(crate) limits: ZoneLimits,
    /// Nodes to record as Events: added, removed, or set to `Unknown` by a write whose answer was lost.
    pub(crate) reports: Reports,
    /// Pause between two passes.
    pub(crate) period: Duration,
}

/// A zone in which nodes wait for a `NoExecute` taint.
#[derive(Clone, Debug)]
pub(crate) struct WaitingZone {
    /// Key of the zone, made of the region and zone labels of its nodes.
    pub(crate) zone: Text,
    /// The node that has waited longest.
    pub(crate) node: Arc<Node>,
    /// True if `node` no longer needs its taint, for example because of a new heartbeat.
    pub(crate) is_over: bool,
    /// Number of waiting nodes in the zone, including `node`.
    pub(crate) count: usize,
    /// Rate limiter for the `NoExecute` taints of this zone.
    pub(crate) limiter: Limiter,
}

/// Limits for the share of tainted nodes, as fractions of all nodes between 0 and 1, set by flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BrakeLimits {
    /// Share of tainted nodes above which an alarm is raised; 0 or less means never.
    pub(crate) alarm: f32,
    /// Upper limit for the share of tainted nodes; 0 or less means no limit.
    pub(crate) cap: f32,
}

/// Number of tainted nodes as a fraction of all nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Nodes that have a `NoExecute` taint of this program, or wait for one in a zone with a positive tainting rate.
    pub(crate) count: usize,
    /// Number of nodes in the cluster.
    pub(crate) nodes: usize,
}

impl Share {
    /// Returns the fraction, between 0 and 1; 0 without nodes.
    pub(crate) fn value(self) -> f64 {
        self.count as f64 / self.nodes.max(1) as f64
    }

    /// Whether the share is above `alarm`; false if `alarm` is 0 or less.
    pub(crate) fn is_alarming(self, alarm: f32) -> bool {
        alarm > 0.0 && self.value() as f32 > alarm
    }
}

/// Everything that a round of tainting reads.
#[derive(Clone, Debug)]
pub(crate) struct TaintingSnapshot {
    pub(crate) now: Instant,
    /// Whether this process has a live view of nodes.
    pub(crate) sees: bool,
    /// Zones in which nodes wait for a `NoExecute` taint.
    pub(crate) zones: Vec<WaitingZone>,
    /// Number of nodes in the cluster.
    pub(crate) nodes: usize,
    /// Number of nodes with a `NoExecute` taint of this program.
    pub(crate) tainted: usize,
    /// Alarm and upper limit for the share of tainted nodes.
    pub(crate) brake: BrakeLimits,
    /// True from an alarm until the share of tainted nodes no longer exceeds `--node-taint-alarm-share`.
    pub(crate) is_alarmed: bool,
    /// Pause after which a round without a live view is repeated.
    pub(crate) period: Duration,
}
