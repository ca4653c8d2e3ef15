//! The decision which waiting nodes get a `NoExecute` taint now: one after the other in each zone, at the rate of the zone.
//!
//! Upstream has no limit for the share of tainted nodes. Here an alarm is raised before a large share of all nodes is tainted,
//! and operators may set a maximum for this share.
//!
//! Upstream: `pkg/controller/nodelifecycle`, `doNoExecuteTaintingPass`.

use std::{sync::Arc, time::Duration};

use common::clock::Instant;

use crate::{
    monitor::node_pass::{
        plan::tainting::{NodeToTaint, Plan},
        snapshot::{TaintedNodeShare, TaintingSnapshot},
    },
    taints::TaintCause,
};

/// Decides which nodes are tainted now, which nodes stop waiting, and whether an alarm is raised.
pub(crate) fn decide(snapshot: &TaintingSnapshot) -> Plan {
    let TaintingSnapshot {
        now,
        total_node_count: nodes,
        tainted_node_count: tainted,
        share_limits: brake,
        pass_period: period,
        ..
    } = snapshot;
    let waiting: usize = snapshot.zones_with_waiting_nodes.iter().map(|zone| zone.waiting_node_count).sum();
    let expected: usize = snapshot
        .zones_with_waiting_nodes
        .iter()
        .filter(|zone| zone.limiter.rate() > 0.0)
        .map(|zone| zone.waiting_node_count)
        .sum();
    let share = |count: usize| TaintedNodeShare { tainted_node_count: count, total_node_count: *nodes };
    let is_alarmed = share(tainted + expected).is_above_alarm_share(brake.alarm_share);
    let mut plan = Plan {
        nodes_to_taint: Vec::new(),
        nodes_no_longer_waiting_for_taint: Vec::new(),
        alarm_message: None,
        exceeds_alarm_share: is_alarmed,
        blocked_by_max_share_count: 0,
        waiting_node_count: waiting,
        taintable_waiting_node_count: expected,
        next_pass_after: None,
    };
    if snapshot.zones_with_waiting_nodes.is_empty() {
        return plan;
    }
    if !snapshot.has_server_contact {
        plan.next_pass_after = Some(*period);
        return plan;
    }
    let mut later: Option<Instant> = None;
    for zone in &snapshot.zones_with_waiting_nodes {
        let mut next = zone.limiter;
        if zone.is_taint_unnecessary {
            plan.nodes_no_longer_waiting_for_taint.push(Arc::clone(&zone.node.metadata.name));
            plan.next_pass_after = Some(Duration::ZERO);
        } else if !next.has_token(*now) {
        } else if brake.max_share > 0.0
            && share(tainted + plan.nodes_to_taint.len() + 1).fraction() as f32 > brake.max_share
        {
            plan.blocked_by_max_share_count += zone.waiting_node_count;
            continue;
        } else if let Some(cause) = TaintCause::for_node(&zone.node) {
            plan.nodes_to_taint.push(NodeToTaint {
                node: Arc::clone(&zone.node),
                zone_key: zone.zone_key.clone(),
                cause,
            });
            next.take_token(*now);
        }
        if zone.waiting_node_count
            > plan.nodes_to_taint.iter().filter(|chosen| chosen.zone_key == zone.zone_key).count()
        {
            later = later.into_iter().chain(next.next_token_at()).min();
        }
    }
    if is_alarmed
        && !snapshot.is_taint_alarm_active
        && !(plan.nodes_to_taint.is_empty() && plan.blocked_by_max_share_count == 0)
    {
        plan.alarm_message =
            Some(format!("{} of {nodes} nodes have a NoExecute taint or wait for it", tainted + expected));
    }
    // A zone without taints due to `--node-taint-max-share` sets no pause, because a health pass enqueues a tainting pass.
    let until = later.map(|later| later.saturating_duration_since(*now).max(Duration::from_millis(1)));
    plan.next_pass_after = if plan.next_pass_after.is_some() { Some(Duration::from_millis(1)) } else { until };
    plan
}

#[cfg(test)]
mod tests {
    use common::controller::SyncPlan as _;

    use super::*;
    use crate::{
        rate::TaintRateLimiter,
        world::{start_time, tainting_snapshot as snapshot, zone_with_waiting_nodes as zone},
    };

    fn names(plan: &Plan) -> Vec<&str> {
        plan.nodes_to_taint.iter().map(|chosen| &*chosen.node.metadata.name).collect()
    }

    /// NODE-33, NODE-35.
    #[test]
    fn each_zone_with_a_token_taints_one_node() {
        let now = start_time();
        let mut empty = TaintRateLimiter::new(0.1, now);
        empty.take_token(now);
        let plan = decide(&snapshot(now, vec![zone("a", 2, TaintRateLimiter::new(0.1, now)), zone("b", 1, empty)]));
        assert_eq!(names(&plan), ["a-0"]);
        assert_eq!(plan.requeue_after(), Some(Duration::from_secs(10)));
        let plan = decide(&snapshot(now, vec![zone("a", 1, TaintRateLimiter::new(0.1, now))]));
        assert_eq!((names(&plan), plan.requeue_after()), (vec!["a-0"], None), "no other node waits");
        let plan = decide(&snapshot(now, vec![zone("a", 1, TaintRateLimiter::new(0.0, now))]));
        assert_eq!((names(&plan).len(), plan.requeue_after()), (0, None), "a stopped zone");
    }

    /// NODE-16.
    #[test]
    fn a_blind_process_taints_no_node() {
        let now = start_time();
        let mut blind = snapshot(now, vec![zone("a", 2, TaintRateLimiter::new(0.1, now))]);
        blind.has_server_contact = false;
        let plan = decide(&blind);
        assert_eq!((names(&plan).len(), plan.requeue_after()), (0, Some(Duration::from_secs(5))));
    }

    /// NODE-41.
    #[test]
    fn a_node_with_a_new_heartbeat_no_longer_waits() {
        let now = start_time();
        let mut over = zone("a", 2, TaintRateLimiter::new(0.1, now));
        over.is_taint_unnecessary = true;
        let plan = decide(&snapshot(now, vec![over]));
        assert_eq!((names(&plan).len(), plan.nodes_no_longer_waiting_for_taint.len()), (0, 1));
        assert_eq!(plan.requeue_after(), Some(Duration::from_millis(1)), "the next node follows at once");
    }

    /// NODE-43, NODE-44, NODE-85.
    #[test]
    fn a_large_share_raises_one_alarm_and_the_limit_is_not_exceeded() {
        let now = start_time();
        let full = || TaintRateLimiter::new(0.1, now);
        let mut many = snapshot(now, vec![zone("a", 8, full())]);
        many.tainted_node_count = 4;
        let plan = decide(&many);
        let alarm = plan.alarm_message.as_deref();
        assert_eq!((names(&plan).len(), alarm), (1, Some("12 of 20 nodes have a NoExecute taint or wait for it")));
        many.is_taint_alarm_active = true;
        assert_eq!(decide(&many).alarm_message, None);
        let few = decide(&snapshot(now, vec![zone("a", 11, full())]));
        assert_eq!((few.alarm_message, few.exceeds_alarm_share), (None, false), "11 of 20 does not exceed the share");
        many.share_limits.max_share = 0.25;
        let plan = decide(&many);
        assert_eq!((names(&plan).len(), plan.blocked_by_max_share_count), (1, 0), "5 of 20");
        many.tainted_node_count = 5;
        let plan = decide(&many);
        assert_eq!((names(&plan).len(), plan.blocked_by_max_share_count, plan.requeue_after()), (0, 8, None));
    }
}
