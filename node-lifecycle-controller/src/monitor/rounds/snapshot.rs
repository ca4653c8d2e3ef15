//! The snapshots of rounds.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{clock::Instant, intern::Text, meta::Uid};

use crate::{
    disruption::{ZoneLimits, ZoneStanding},
    objects::{Name, Node},
    rate::Limiter,
    sight::Sight,
    silence::Grace,
};

/// Everything that a round reads.
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
    /// Time of the last heartbeat, or of the restart of the grace period.
    pub(crate) heard: Instant,
    /// Earliest time of the next write of the node's conditions, because the server denied the last one.
    pub(crate) denied_until: Option<Instant>,
    /// Whether the node already waits for a taint.
    pub(crate) waits: bool,
    /// Whether the condition of the node decides how it counts for its zone.
    pub(crate) counts: bool,
}

/// Nodes that a pass reports, with their UIDs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    /// Nodes that were added.
    pub(crate) arrived: BTreeMap<Name, Uid>,
    /// Nodes that were removed.
    pub(crate) departed: Vec<(Name, Uid)>,
    /// Nodes whose conditions became `Unknown` by an unanswered write of this process.
    pub(crate) lapsed: Vec<(Name, Uid)>,
}

impl Reports {
    /// Removes the nodes that a pass has reported.
    pub(crate) fn remove(&mut self, reported: &Self) {
        self.arrived.retain(|name, uid| reported.arrived.get(name) != Some(uid));
        self.departed.drain(..reported.departed.len().min(self.departed.len()));
        self.lapsed.drain(..reported.lapsed.len().min(self.lapsed.len()));
    }
}

/// Everything that a pass reads.
#[derive(Clone, Debug)]
pub(crate) struct HealthSnapshot {
    /// Time of the pass.
    pub(crate) now: Instant,
    /// Times at which this process had a live view.
    pub(crate) sight: Sight,
    /// Error of a watch; `None` if all watches work.
    pub(crate) trouble: Option<String>,
    /// Earliest start of all grace periods; `None` until the first total disruption has ended.
    pub(crate) grace_from: Option<Instant>,
    /// Grace periods of nodes.
    pub(crate) grace: Grace,
    /// Nodes that changed or whose deadline has passed.
    pub(crate) examined: Vec<Examined>,
    /// States and node counts of all zones, by key.
    pub(crate) zones: BTreeMap<Text, ZoneStanding>,
    /// Whether the last pass found every zone fully disrupted.
    pub(crate) was_total: bool,
    /// Thresholds and rates of zones.
    pub(crate) limits: ZoneLimits,
    /// Added, removed and lapsed nodes to report.
    pub(crate) reports: Reports,
    /// Pause between two passes.
    pub(crate) period: Duration,
}

/// A zone with waiting nodes.
#[derive(Clone, Debug)]
pub(crate) struct WaitingZone {
    /// Key of the zone.
    pub(crate) zone: Text,
    /// The node that has waited longest.
    pub(crate) node: Arc<Node>,
    /// Whether this node no longer needs its taint, for example because of a new heartbeat.
    pub(crate) is_over: bool,
    /// Number of waiting nodes.
    pub(crate) count: usize,
    /// Limits the rate of tainting in this zone.
    pub(crate) limiter: Limiter,
}

/// Shares of all nodes, between 0 and 1, set by flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BrakeLimits {
    /// Share of tainted nodes above which an alarm is raised; 0 or less: never.
    pub(crate) alarm: f32,
    /// Upper limit for the share of tainted nodes; 0 or less: no limit.
    pub(crate) cap: f32,
}

/// A number of nodes as a share of all nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Nodes that have a `NoExecute` taint of this program, or wait for one in a zone with a positive tainting rate.
    pub(crate) count: usize,
    /// Number of all nodes.
    pub(crate) nodes: usize,
}

impl Share {
    /// The share, between 0 and 1.
    pub(crate) fn value(self) -> f64 {
        self.count as f64 / self.nodes.max(1) as f64
    }

    /// Whether the share is above `alarm`; never if `alarm` is 0 or less.
    pub(crate) fn is_alarming(self, alarm: f32) -> bool {
        alarm > 0.0 && self.value() as f32 > alarm
    }
}

/// Everything that a round of tainting reads.
#[derive(Clone, Debug)]
pub(crate) struct TaintingSnapshot {
    /// Time of the round.
    pub(crate) now: Instant,
    /// Whether this process has a live view of nodes.
    pub(crate) sees: bool,
    /// Zones with waiting nodes.
    pub(crate) zones: Vec<WaitingZone>,
    /// Number of all nodes.
    pub(crate) nodes: usize,
    /// Number of nodes with a `NoExecute` taint of this program.
    pub(crate) tainted: usize,
    /// Alarm and upper limit for the share of tainted nodes.
    pub(crate) brake: BrakeLimits,
    /// Whether the alarm was raised and has not ended.
    pub(crate) is_alarmed: bool,
    /// Pause after which a round without a live view is repeated.
    pub(crate) period: Duration,
}
