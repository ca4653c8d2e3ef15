//! What a pass of the node monitor does: whether nodes have been silent for too long, and which taints follow.
//!
//! A pass looks at nodes that changed and at nodes whose time is over, at no others. A node's own clock plays no part: a
//! heartbeat is a renewal time or a report time that differs from the last one, seen at a time of this process.
//!
//! Upstream: `pkg/controller/nodelifecycle`, `monitorNodeHealth`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    clock::Instant,
    conditions::{self, UNKNOWN},
    controller::Explain,
    duration,
    intern::Text,
    meta::Uid,
};

use crate::objects::{Node, NodeReady, READY};

use super::{
    sight::Sight,
    taints::{self, Cause},
    zones::{self, Disruption, ZoneChange, ZoneLimits, ZoneStanding, ZoneState},
};

/// Conditions that become `Unknown` when a node is silent, in this order. `NetworkUnavailable` is never touched.
const CONDITIONS: [&str; 4] = [READY, "MemoryPressure", "DiskPressure", "PIDPressure"];
/// How many nodes an explanation lists one by one.
const LISTED: usize = 10;

/// How long nodes may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// Nodes that have reported a status.
    pub monitor: Duration,
    /// Nodes that never have.
    pub startup: Duration,
}

impl Grace {
    /// The grace period of a node.
    pub fn of(&self, node: &Node) -> Duration {
        if node.ready() == NodeReady::Absent { self.startup } else { self.monitor }
    }
}

/// A node that a pass looks at.
#[derive(Clone, Debug)]
pub struct Examined {
    /// The newest known state.
    pub node: Arc<Node>,
    /// When the last sign of life was seen, or its grace period began anew.
    pub heard: Instant,
    /// Its conditions are not written before this time, because the server denied that.
    pub denied_until: Option<Instant>,
    /// Whether it waits for a taint already.
    pub waits: bool,
    /// Whether it counts for the state of its zone, by its condition.
    pub counts: bool,
}

/// Everything a pass may look at.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The time of the pass.
    pub now: Instant,
    /// When this process has seen what nodes do.
    pub sight: Sight,
    /// What is wrong with a watch, if anything is.
    pub trouble: Option<String>,
    /// Grace periods begin no earlier than this.
    pub grace_from: Option<Instant>,
    /// How long nodes may be silent.
    pub grace: Grace,
    /// Nodes that changed or whose time is over.
    pub examined: Vec<Examined>,
    /// All zones.
    pub zones: BTreeMap<Text, ZoneStanding>,
    /// Whether every zone was fully disrupted.
    pub was_total: bool,
    /// Thresholds and rates of zones.
    pub limits: ZoneLimits,
    /// Nodes that were added, and removed, since the last pass.
    pub arrived: Vec<(Arc<str>, Uid)>,
    /// See `arrived`.
    pub departed: Vec<(Arc<str>, Uid)>,
    /// Nodes whose conditions became `Unknown` by a write of this process that was not answered.
    pub lapsed: Vec<(Arc<str>, Uid)>,
    /// The pause between two passes.
    pub period: Duration,
}

/// A condition that becomes `Unknown`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lapsed {
    /// Its type.
    pub kind: &'static str,
    /// Whether the node never had it.
    pub is_missing: bool,
}

/// What happens to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It has been silent for too long: these conditions become `Unknown`.
    Lapse(Vec<Lapsed>),
    /// Pods may stay there again.
    Relieve,
    /// Its taint does not fit its condition any more: this one takes its place, whatever the rate.
    Swap(Cause),
    /// It waits for its turn to be tainted.
    Wait(Cause),
}

/// What a pass finds out about a node.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The node.
    pub node: Arc<Node>,
    /// When it counts as silent if nothing is heard of it; none if nothing depends on that.
    pub due: Option<Instant>,
    /// What happens to it.
    pub action: Option<Action>,
}

/// What a pass does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Why nothing is decided about nodes, if nothing is.
    pub blind: Option<String>,
    /// Whether proof of sight is asked for.
    pub checks: bool,
    /// The nodes that were looked at; none while the process is blind.
    pub judged: Vec<Judged>,
    /// Zones whose state or rate changes.
    pub zones: BTreeMap<Text, ZoneChange>,
    /// Whether every zone is fully disrupted.
    pub disruption: Disruption,
    /// Nodes that were added, and removed.
    pub arrived: Vec<(Arc<str>, Uid)>,
    /// See `arrived`.
    pub departed: Vec<(Arc<str>, Uid)>,
    /// Nodes whose conditions became `Unknown` by a write of this process that was not answered.
    pub lapsed: Vec<(Arc<str>, Uid)>,
    /// The pause before the next pass.
    pub pause: Duration,
}

/// Whether the condition `Unknown` was written because nothing was heard of the node. A kubelet gives other reasons.
pub fn is_lapsed(node: &Node) -> bool {
    conditions::get(node.conditions(), READY)
        .is_some_and(|ready| ready.status == UNKNOWN && (ready.reason == STOPPED.0 || ready.reason == NEVER.0))
}

/// Reason and message of a condition that was reported before.
pub const STOPPED: (&str, &str) = ("NodeStatusUnknown", "Kubelet stopped posting node status.");
/// Reason and message of a condition that was never reported.
pub const NEVER: (&str, &str) = ("NodeStatusNeverUpdated", "Kubelet never posted node status.");

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

/// When a node counts as silent.
pub fn silent_at(node: &Node, heard: Instant, from: Instant, grace: Grace) -> Instant {
    heard.max(from) + grace.of(node)
}

/// What happens to one node. `is_total`: every zone is fully disrupted.
fn judge(examined: &Examined, now: Instant, from: Instant, grace: Grace, is_total: bool) -> Judged {
    let Examined { node, heard, waits, denied_until, .. } = examined;
    let silent_at = silent_at(node, *heard, from, grace);
    let is_silent = now > silent_at;
    let denied_until = denied_until.filter(|until| *until > now);
    let due = if is_silent { denied_until } else { Some(silent_at) };
    let judged = |action| Judged { node: Arc::clone(node), due, action };
    let lapsing = if is_silent && denied_until.is_none() { lapsing(node) } else { Vec::new() };
    if !lapsing.is_empty() {
        return judged(Some(Action::Lapse(lapsing)));
    }
    if taints::has_any_cause(node) && (is_total || node.ready() == NodeReady::True) {
        return judged(Some(Action::Relieve));
    }
    let Some(cause) = Cause::of(node) else { return judged(None) };
    if taints::has_cause(node, cause.other()) {
        return judged(Some(Action::Swap(cause)));
    }
    // Others may have found it silent; here it gets its whole grace period, too.
    let may_be_tainted = is_silent || !is_lapsed(node);
    let action = !taints::has_cause(node, cause) && may_be_tainted && !waits;
    judged(action.then_some(Action::Wait(cause)))
}

/// The zones as they are when every node that is found silent counts as not ready.
fn projected(snapshot: &Snapshot, from: Instant) -> BTreeMap<Text, ZoneStanding> {
    let mut zones = snapshot.zones.clone();
    for Examined { node, heard, counts, .. } in &snapshot.examined {
        let is_silent = snapshot.now > silent_at(node, *heard, from, snapshot.grace);
        if is_silent
            && *counts
            && node.ready() == NodeReady::True
            && let Some(zone) = zones.get_mut(&node.zone())
        {
            zone.count.ready = zone.count.ready.saturating_sub(1);
            zone.count.not_ready += 1;
        }
    }
    zones
}

/// Decides about a pass.
pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    let Snapshot { now, sight, grace, period, .. } = snapshot;
    let mut plan = Plan {
        blind: None,
        checks: false,
        judged: Vec::new(),
        zones: BTreeMap::new(),
        disruption: if snapshot.was_total { Disruption::Lasts } else { Disruption::None },
        arrived: snapshot.arrived.clone(),
        departed: snapshot.departed.clone(),
        lapsed: snapshot.lapsed.clone(),
        pause: *period,
    };
    if let Some(trouble) = &snapshot.trouble {
        plan.blind = Some(trouble.clone());
        return plan;
    }
    let Some(since) = sight.since(*now).filter(|_| sight.is_fresh(*now)) else {
        plan.checks = true;
        plan.blind = sight.blind_for(*now).map(|time| format!("nothing was seen for {}", duration::format(time)));
        return plan;
    };
    let from = snapshot.grace_from.map_or(since, |from| from.max(since));
    (plan.zones, plan.disruption) = zones::decide(&projected(snapshot, from), snapshot.was_total, &snapshot.limits);
    // Everyone gets a whole grace period after the end of a total disruption.
    let from = if plan.disruption == Disruption::Ends { *now } else { from };
    let judge = |examined| judge(examined, *now, from, *grace, plan.disruption.is_total());
    plan.judged = snapshot.examined.iter().map(judge).collect();
    plan
}

impl Plan {
    /// Nodes with an action, in the order in which they were looked at.
    pub(crate) fn actions(&self) -> impl Iterator<Item = (&Arc<Node>, &Action)> {
        self.judged.iter().filter_map(|judged| judged.action.as_ref().map(|action| (&judged.node, action)))
    }
}

impl Action {
    /// What is done, without the node.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Self::Lapse(_) => "set the conditions to Unknown",
            Self::Relieve => "remove the NoExecute taints",
            Self::Swap(_) => "replace the NoExecute taint",
            Self::Wait(_) => "wait for the NoExecute taint",
        }
    }
}

impl Explain for Plan {
    fn situation(&self) -> String {
        let zone = |(zone, change): (&Text, &ZoneChange)| {
            let state = if change.state == ZoneState::Initial { "" } else { change.state.as_str() };
            format!("; zone {zone:?} is in state {state}, {} nodes a second are tainted", change.rate)
        };
        let zones: String = self.zones.iter().map(zone).collect();
        format!("{} nodes were looked at{zones}", self.judged.len())
    }

    fn waiting(&self) -> Vec<String> {
        let mut out = Vec::new();
        if let Some(why) = &self.blind {
            out.push(format!("nodes are not judged, because this process is blind: {why}"));
        }
        if self.disruption.is_total() {
            out.push("no node is tainted, because no node of any zone is ready".to_owned());
        }
        let wait = |(node, action): (&Arc<Node>, &Action)| {
            let Action::Wait(cause) = action else { return None };
            Some(format!("Node {} waits for its turn to get the NoExecute taint {}", node.metadata.name, cause.key()))
        };
        let count = self.actions().filter_map(wait).count();
        out.extend(self.actions().filter_map(wait).take(LISTED));
        if count > LISTED {
            out.push(format!("and {} more nodes", count - LISTED));
        }
        out
    }

    fn requeue_after(&self) -> Option<Duration> {
        Some(self.pause)
    }

    fn is_notable(&self) -> bool {
        !self.zones.is_empty() || self.actions().next().is_some()
    }
}

#[cfg(test)]
mod tests;
