//! Decides which nodes have no heartbeats, and which taints follow. Pure code: no requests, no clock, no randomness.
//!
//! A pass examines only nodes that changed and nodes that have reached their deadline.
//!
//! Upstream: `pkg/controller/nodelifecycle`, `monitorNodeHealth`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{duration, prelude::*};

use crate::{
    disruption::{ClusterDisruption, ZoneSettings, ZoneStateChange, ZoneStatus, zone_changes_and_cluster_disruption},
    objects::{Node, NodeName, NodeReadyStatus},
    server_contact::ServerContact,
    silence::{self, GracePeriods, StaleCondition},
    taints::{self, TaintCause},
};

/// Maximum number of waiting nodes that an explanation lists by name; further waiting nodes are only counted.
const MAX_LISTED_NODES: usize = 10;

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
    /// Whether the node is a ready node of its zone; false for an excluded node and after a failed write.
    pub(crate) is_counted_as_ready: bool,
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
    pub(crate) server_contact: ServerContact,
    pub(crate) watch_error: Option<String>,
    /// End of the last disruption of all zones, when all grace periods restarted; `None` before the first end.
    pub(crate) grace_periods_restarted_at: Option<Instant>,
    pub(crate) grace_periods: GracePeriods,
    pub(crate) examined_nodes: Vec<ExaminedNode>,
    pub(crate) zones: BTreeMap<Text, ZoneStatus>,
    /// Whether the last pass found every zone fully disrupted.
    pub(crate) was_total_disruption: bool,
    pub(crate) zone_settings: ZoneSettings,
    pub(crate) nodes_to_report: NodesToReport,
    pub(crate) pass_period: Duration,
}

/// Action of a pass on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The node has sent no heartbeat for its grace period: these conditions become `Unknown`.
    SetConditionsUnknown(Vec<StaleCondition>),
    /// The `NoExecute` taints of this program are removed: the node is ready, or every zone is fully disrupted.
    RemoveNoExecute,
    /// The taint of this cause replaces a `NoExecute` taint that no longer fits the condition `Ready`, regardless of the rate.
    ReplaceNoExecute(TaintCause),
    /// The node waits for its `NoExecute` taint until the rate limiter of its zone has a token.
    WaitForTaint(TaintCause),
}

/// Decision about one examined node.
#[derive(Clone, Debug)]
pub(crate) struct NodeDecision {
    pub(crate) node: Arc<Node>,
    /// Time at which a pass examines the node even without a change, usually the end of its grace period; `None` for never.
    pub(crate) next_examination_at: Option<Instant>,
    /// `None` if no action is necessary.
    pub(crate) action: Option<Action>,
}

/// Decisions of one pass over nodes.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Reason why the pass makes no decisions about nodes; `None` if it makes decisions.
    pub(crate) outage_reason: Option<String>,
    /// Whether the pass reads Leases to find out whether this process reaches the server, because events are missing.
    pub(crate) reads_leases: bool,
    pub(crate) node_decisions: Vec<NodeDecision>,
    /// New states and tainting rates by the key of the zone; only zones with a change.
    pub(crate) zone_changes: BTreeMap<Text, ZoneStateChange>,
    pub(crate) cluster_disruption: ClusterDisruption,
    pub(crate) nodes_to_report: NodesToReport,
    /// Pause before the next pass, unless an action of this pass makes the next pass follow at once.
    pub(crate) next_pass_after: Duration,
}

impl Plan {
    /// Returns the nodes with an action, in the order of their examination.
    pub(crate) fn nodes_with_action(&self) -> impl Iterator<Item = (&Arc<Node>, &Action)> {
        self.node_decisions.iter().filter_map(|decision| Some((&decision.node, decision.action.as_ref()?)))
    }
}

impl Action {
    /// Returns a description of the action for explanations, without the name of the node.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Self::SetConditionsUnknown(_) => "set the conditions to Unknown",
            Self::RemoveNoExecute => "remove the NoExecute taints",
            Self::ReplaceNoExecute(_) => "replace the NoExecute taint",
            Self::WaitForTaint(_) => "wait for the NoExecute taint",
        }
    }
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        let zone = |(zone, change): (&Text, &ZoneStateChange)| {
            let ZoneStateChange { state, tainting_rate } = change;
            format!("; zone {zone:?} is in state {}, {tainting_rate} nodes a second are tainted", state.as_str())
        };
        let zones: String = self.zone_changes.iter().map(zone).collect();
        format!("{} nodes were examined{zones}", self.node_decisions.len())
    }

    fn wait_reasons(&self) -> Vec<String> {
        let outage = |why: &String| format!("nodes are not judged, because this process is blind: {why}");
        let mut out: Vec<String> = self.outage_reason.iter().map(outage).collect();
        if self.cluster_disruption.is_total() {
            out.push("no node is tainted, because no node of any zone is ready".to_owned());
        }
        let waits = || {
            self.nodes_with_action().filter_map(|(node, action)| {
                let Action::WaitForTaint(cause) = action else { return None };
                let (name, taint) = (&node.metadata.name, cause.taint_key());
                Some(format!("Node {name} waits for its turn to get the NoExecute taint {taint}"))
            })
        };
        let count = waits().count();
        out.extend(waits().take(MAX_LISTED_NODES));
        if count > MAX_LISTED_NODES {
            out.push(format!("and {} more nodes", count - MAX_LISTED_NODES));
        }
        out
    }

    fn requeue_after(&self) -> Option<Duration> {
        Some(self.next_pass_after)
    }

    fn is_notable(&self) -> bool {
        !self.zone_changes.is_empty() || self.nodes_with_action().next().is_some()
    }
}

/// Decides about one node, with a grace period that starts at `from` or later. `is_total`: every zone is fully disrupted.
fn decide_for_node(examined: &ExaminedNode, snapshot: &HealthSnapshot, from: Instant, is_total: bool) -> NodeDecision {
    let ExaminedNode { node, grace_period_start, is_waiting_for_taint, .. } = examined;
    let silent_at = snapshot.grace_periods.grace_period_end(node, *grace_period_start, from);
    let is_silent = snapshot.now > silent_at;
    let denied_until = examined.condition_write_denied_until.filter(|until| *until > snapshot.now);
    let next_examination_at = if is_silent { denied_until } else { Some(silent_at) };
    let decision = |action| NodeDecision { node: Arc::clone(node), next_examination_at, action };
    let stale_conditions =
        if is_silent && denied_until.is_none() { silence::conditions_to_set_unknown(node) } else { Vec::new() };
    if !stale_conditions.is_empty() {
        return decision(Some(Action::SetConditionsUnknown(stale_conditions)));
    }
    if taints::has_monitor_taint(node) && (is_total || node.ready_status() == NodeReadyStatus::True) {
        return decision(Some(Action::RemoveNoExecute));
    }
    let Some(cause) = TaintCause::for_node(node) else { return decision(None) };
    if taints::has_taint_of_cause(node, cause.opposite()) {
        return decision(Some(Action::ReplaceNoExecute(cause)));
    }
    // If another process has set the condition to `Unknown`, this process waits for its own grace period before it taints.
    let may_be_tainted = is_silent || !silence::is_marked_unknown_by_monitor(node);
    let must_wait = !taints::has_taint_of_cause(node, cause) && may_be_tainted && !is_waiting_for_taint;
    decision(must_wait.then_some(Action::WaitForTaint(cause)))
}

/// Returns the states and node counts of all zones. Nodes without heartbeats already count as not ready.
fn zones_counting_silent_nodes(snapshot: &HealthSnapshot, from: Instant) -> BTreeMap<Text, ZoneStatus> {
    let mut zones = snapshot.zones.clone();
    for ExaminedNode { node, grace_period_start, is_counted_as_ready, .. } in &snapshot.examined_nodes {
        let is_silent = snapshot.now > snapshot.grace_periods.grace_period_end(node, *grace_period_start, from);
        if is_silent
            && *is_counted_as_ready
            && let Some(zone) = zones.get_mut(&node.zone_key())
        {
            zone.node_counts.ready = zone.node_counts.ready.saturating_sub(1);
            zone.node_counts.not_ready += 1;
        }
    }
    zones
}

/// Decides which examined nodes need new conditions or taints, and which zones change their state or rate.
pub(crate) fn decide(snapshot: &HealthSnapshot) -> Plan {
    let HealthSnapshot { now, server_contact, .. } = snapshot;
    let mut plan = Plan {
        outage_reason: None,
        reads_leases: false,
        node_decisions: Vec::new(),
        zone_changes: BTreeMap::new(),
        cluster_disruption: if snapshot.was_total_disruption {
            ClusterDisruption::TotalLasts
        } else {
            ClusterDisruption::NotTotal
        },
        nodes_to_report: snapshot.nodes_to_report.clone(),
        next_pass_after: snapshot.pass_period,
    };
    if snapshot.watch_error.is_some() {
        plan.outage_reason.clone_from(&snapshot.watch_error);
        return plan;
    }
    let contact_start = server_contact.contact_start(*now).filter(|_| server_contact.has_recent_contact(*now));
    let Some(contact_start) = contact_start else {
        plan.reads_leases = true;
        plan.outage_reason = server_contact
            .time_without_contact(*now)
            .map(|time| format!("no event and no answer arrived for {}", duration::format(time)));
        return plan;
    };
    let from = snapshot.grace_periods_restarted_at.map_or(contact_start, |restart| restart.max(contact_start));
    (plan.zone_changes, plan.cluster_disruption) = zone_changes_and_cluster_disruption(
        &zones_counting_silent_nodes(snapshot, from),
        snapshot.was_total_disruption,
        &snapshot.zone_settings,
    );
    // After the end of a total disruption, every node gets a whole grace period.
    let from = if plan.cluster_disruption == ClusterDisruption::TotalEnds { *now } else { from };
    let is_total = plan.cluster_disruption.is_total();
    let decide = |node| decide_for_node(node, snapshot, from, is_total);
    plan.node_decisions = snapshot.examined_nodes.iter().map(decide).collect();
    plan
}

#[cfg(test)]
mod tests;
