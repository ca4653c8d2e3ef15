//! The decision about a pass of the node monitor: which nodes are silent, and which taints follow.
//!
//! A pass examines only nodes that changed and nodes whose deadline has passed.
//!
//! Upstream: `pkg/controller/nodelifecycle`, `monitorNodeHealth`.

use std::{collections::BTreeMap, sync::Arc};

use common::{clock::Instant, duration, intern::Text};

use crate::{
    disruption::{Disruption, ZoneStanding, transition},
    monitor::rounds::{
        plan::health::{Action, Judged, Plan},
        snapshot::{Examined, HealthSnapshot},
    },
    objects::NodeReady,
    silence::{self, Grace},
    taints::{self, Cause},
};

/// Decides about one node. Its grace period starts at `from` or later. `is_total` is true if every zone is fully disrupted.
fn judge(examined: &Examined, now: Instant, from: Instant, grace: Grace, is_total: bool) -> Judged {
    let Examined { node, heard, waits, denied_until, .. } = examined;
    let silent_at = grace.end(node, *heard, from);
    let is_silent = now > silent_at;
    let denied_until = denied_until.filter(|until| *until > now);
    let due = if is_silent { denied_until } else { Some(silent_at) };
    let judged = |action| Judged { node: Arc::clone(node), due, action };
    let lapsing = if is_silent && denied_until.is_none() { silence::lapsing(node) } else { Vec::new() };
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
    // If another process found the node silent, this process still waits for the whole grace period before it taints the node.
    let may_be_tainted = is_silent || !silence::is_lapsed(node);
    let action = !taints::has_cause(node, cause) && may_be_tainted && !waits;
    judged(action.then_some(Action::Wait(cause)))
}

/// Returns the states and node counts of all zones. Silent nodes count as not ready, even if their condition is still `True`.
fn projected(snapshot: &HealthSnapshot, from: Instant) -> BTreeMap<Text, ZoneStanding> {
    let mut zones = snapshot.zones.clone();
    for Examined { node, heard, counts, .. } in &snapshot.examined {
        let is_silent = snapshot.now > snapshot.grace.end(node, *heard, from);
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

/// Decides which examined nodes need new conditions or taints, and which zones change their state or rate.
pub(crate) fn decide(snapshot: &HealthSnapshot) -> Plan {
    let HealthSnapshot { now, sight, grace, period, .. } = snapshot;
    let mut plan = Plan {
        blind: None,
        checks: false,
        judged: Vec::new(),
        zones: BTreeMap::new(),
        disruption: if snapshot.was_total { Disruption::Lasts } else { Disruption::None },
        reports: snapshot.reports.clone(),
        pause: *period,
    };
    if let Some(trouble) = &snapshot.trouble {
        plan.blind = Some(trouble.clone());
        return plan;
    }
    let Some(since) = sight.since(*now).filter(|_| sight.is_fresh(*now)) else {
        plan.checks = true;
        plan.blind =
            sight.blind_for(*now).map(|time| format!("no event and no answer arrived for {}", duration::format(time)));
        return plan;
    };
    let from = snapshot.grace_from.map_or(since, |from| from.max(since));
    (plan.zones, plan.disruption) = transition(&projected(snapshot, from), snapshot.was_total, &snapshot.limits);
    // After the end of a total disruption, every node gets a whole grace period.
    let from = if plan.disruption == Disruption::Ends { *now } else { from };
    let judge = |examined| judge(examined, *now, from, *grace, plan.disruption.is_total());
    plan.judged = snapshot.examined.iter().map(judge).collect();
    plan
}

#[cfg(test)]
mod tests;
