//! What a round decides on.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{clock::Instant, intern::Text, meta::Uid};

use crate::{
    disruption::{ZoneLimits, ZoneStanding},
    objects::{Name, Node},
    rate::Limiter,
    sight::Sight,
    silence::Grace,
};

/// Everything a round may look at.
pub(crate) enum Snapshot {
    /// Of a pass.
    Health(Box<HealthSnapshot>),
    /// Of tainting.
    Tainting(TaintingSnapshot),
}

/// A node that a pass looks at.
#[derive(Clone, Debug)]
pub(crate) struct Examined {
    /// The newest known state.
    pub(crate) node: Arc<Node>,
    /// When the last sign of life was seen, or its grace period began anew.
    pub(crate) heard: Instant,
    /// Its conditions are not written before this time, because the server denied that.
    pub(crate) denied_until: Option<Instant>,
    /// Whether it waits for a taint already.
    pub(crate) waits: bool,
    /// Whether it counts for the state of its zone, by its condition.
    pub(crate) counts: bool,
}

/// Nodes of which a pass reports something, each with its uid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    /// Nodes that were added.
    pub(crate) arrived: BTreeMap<Name, Uid>,
    /// Nodes that were removed.
    pub(crate) departed: Vec<(Name, Uid)>,
    /// Nodes whose conditions became `Unknown` by a write of this process that was not answered.
    pub(crate) lapsed: Vec<(Name, Uid)>,
}

impl Reports {
    /// Removes what a pass has reported.
    pub(crate) fn remove(&mut self, reported: &Self) {
        self.arrived.retain(|name, uid| reported.arrived.get(name) != Some(uid));
        self.departed.drain(..reported.departed.len().min(self.departed.len()));
        self.lapsed.drain(..reported.lapsed.len().min(self.lapsed.len()));
    }
}

/// Everything a pass may look at.
#[derive(Clone, Debug)]
pub(crate) struct HealthSnapshot {
    /// The time of the pass.
    pub(crate) now: Instant,
    /// When this process has seen what nodes do.
    pub(crate) sight: Sight,
    /// What is wrong with a watch, if anything is.
    pub(crate) trouble: Option<String>,
    /// Grace periods begin no earlier than this.
    pub(crate) grace_from: Option<Instant>,
    /// How long nodes may be silent.
    pub(crate) grace: Grace,
    /// Nodes that changed or whose time is over.
    pub(crate) examined: Vec<Examined>,
    /// All zones.
    pub(crate) zones: BTreeMap<Text, ZoneStanding>,
    /// Whether every zone was fully disrupted.
    pub(crate) was_total: bool,
    /// Thresholds and rates of zones.
    pub(crate) limits: ZoneLimits,
    /// What is reported of nodes that came, went, or fell silent.
    pub(crate) reports: Reports,
    /// The pause between two passes.
    pub(crate) period: Duration,
}

/// A zone with waiting nodes.
#[derive(Clone, Debug)]
pub(crate) struct WaitingZone {
    /// Its key.
    pub(crate) zone: Text,
    /// The node that has waited longest.
    pub(crate) node: Arc<Node>,
    /// Whether the reason for which it waits is gone, for example because something was heard of it.
    pub(crate) is_over: bool,
    /// How many nodes wait.
    pub(crate) count: usize,
    /// When the next one may be tainted.
    pub(crate) limiter: Limiter,
}

/// Shares of all nodes, between 0 and 1, as flags set them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BrakeLimits {
    /// A larger share of tainted nodes is announced.
    pub(crate) alarm: f32,
    /// A larger share is not tainted; any if not positive.
    pub(crate) cap: f32,
}

/// Nodes as a share of all nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Nodes that have a `NoExecute` taint of this program, or wait for one that their zone allows.
    pub(crate) count: usize,
    /// All nodes.
    pub(crate) nodes: usize,
}

impl Share {
    /// Between 0 and 1.
    pub(crate) fn value(self) -> f64 {
        self.count as f64 / self.nodes.max(1) as f64
    }

    /// Whether this share is larger than the one that is announced; never if that is not positive.
    pub(crate) fn is_alarming(self, alarm: f32) -> bool {
        alarm > 0.0 && self.value() as f32 > alarm
    }
}

/// Everything a round may look at.
#[derive(Clone, Debug)]
pub(crate) struct TaintingSnapshot {
    /// The time of the round.
    pub(crate) now: Instant,
    /// Whether what nodes do is seen.
    pub(crate) sees: bool,
    /// Zones with waiting nodes.
    pub(crate) zones: Vec<WaitingZone>,
    /// All nodes.
    pub(crate) nodes: usize,
    /// Nodes that Pods have to leave for a cause of this program.
    pub(crate) tainted: usize,
    /// Shares of all nodes.
    pub(crate) brake: BrakeLimits,
    /// Whether the alarm was raised and is not over.
    pub(crate) is_alarmed: bool,
    /// The pause after which a round that could do nothing is repeated.
    pub(crate) period: Duration,
}
