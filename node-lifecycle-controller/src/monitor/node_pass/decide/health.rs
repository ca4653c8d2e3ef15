//! The decisions of a pass over nodes: which nodes have no heartbeats, and which taints follow.
//!
//! A pass examines only nodes that changed and nodes that have reached their deadline.
//!
//! Upstream: `pkg/controller/nodelifecycle`, `monitorNodeHealth`.

use std::{collections::BTreeMap, sync::Arc};

use common::{clock::Instant, duration, intern::Text};

use crate::{
    disruption::{ClusterDisruption, ZoneStatus, zone_changes_and_cluster_disruption},
    monitor::node_pass::{
        plan::health::{Action, NodeDecision, Plan},
        snapshot::{ExaminedNode, HealthSnapshot},
    },
    objects::NodeReadyStatus,
    silence::{self, GracePeriods},
    taints::{self, TaintCause},
};

/// Decides about one node, with a grace period that starts at `from` or later. `is_total`: every zone is fully disrupted.
fn decide_for_node(
    examined: &ExaminedNode,
    now: Instant,
    from: Instant,
    grace: GracePeriods,
    is_total: bool,
) -> NodeDecision {
    let ExaminedNode {
        node,
        grace_period_start: heard,
        is_waiting_for_taint: waits,
        condition_write_denied_until: denied_until,
        ..
    } = examined;
    let silent_at = grace.grace_period_end(node, *heard, from);
    let is_silent = now > silent_at;
    let denied_until = denied_until.filter(|until| *until > now);
    let due = if is_silent { denied_until } else { Some(silent_at) };
    let judged = |action| NodeDecision { node: Arc::clone(node), next_examination_at: due, action };
    let lapsing =
        if is_silent && denied_until.is_none() { silence::conditions_to_set_unknown(node) } else { Vec::new() };
    if !lapsing.is_empty() {
        return judged(Some(Action::SetConditionsUnknown(lapsing)));
    }
    if taints::has_monitor_taint(node) && (is_total || node.ready_status() == NodeReadyStatus::True) {
        return judged(Some(Action::RemoveNoExecute));
    }
    let Some(cause) = TaintCause::for_node(node) else { return judged(None) };
    if taints::has_taint_of_cause(node, cause.opposite()) {
        return judged(Some(Action::ReplaceNoExecute(cause)));
    }
    // If another process has set the condition to `Unknown`, this process waits for its own grace period before it taints.
    let may_be_tainted = is_silent || !silence::is_marked_unknown_by_monitor(node);
    let action = !taints::has_taint_of_cause(node, cause) && may_be_tainted && !waits;
    judged(action.then_some(Action::WaitForTaint(cause)))
}

/// Returns the states and node counts of all zones. Nodes without heartbeats already count as not ready.
fn zones_counting_silent_nodes(snapshot: &HealthSnapshot, from: Instant) -> BTreeMap<Text, ZoneStatus> {
    let mut zones = snapshot.zones.clone();
    for ExaminedNode { node, grace_period_start: heard, is_counted_by_ready_condition: counts, .. } in
        &snapshot.examined_nodes
    {
        let is_silent = snapshot.now > snapshot.grace_periods.grace_period_end(node, *heard, from);
        if is_silent
            && *counts
            && node.ready_status() == NodeReadyStatus::True
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
    let HealthSnapshot { now, server_contact: sight, grace_periods: grace, pass_period: period, .. } = snapshot;
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
        next_pass_after: *period,
    };
    if let Some(trouble) = &snapshot.watch_error {
        plan.outage_reason = Some(trouble.clone());
        return plan;
    }
    let Some(since) = sight.contact_start(*now).filter(|_| sight.has_recent_contact(*now)) else {
        plan.reads_leases = true;
        plan.outage_reason = sight
            .time_without_contact(*now)
            .map(|time| format!("no event and no answer arrived for {}", duration::format(time)));
        return plan;
    };
    let from = snapshot.grace_periods_restarted_at.map_or(since, |from| from.max(since));
    (plan.zone_changes, plan.cluster_disruption) = zone_changes_and_cluster_disruption(
        &zones_counting_silent_nodes(snapshot, from),
        snapshot.was_total_disruption,
        &snapshot.zone_settings,
    );
    // After the end of a total disruption, every node gets a whole grace period.
    let from = if plan.cluster_disruption == ClusterDisruption::TotalEnds { *now } else { from };
    let judge = |examined| decide_for_node(examined, *now, from, *grace, plan.cluster_disruption.is_total());
    plan.node_decisions = snapshot.examined_nodes.iter().map(judge).collect();
    plan
}

#[cfg(test)]
mod tests;
