//! Decides which waiting nodes get a `NoExecute` taint now: one after the other in each zone, at the rate of the zone.
//!
//! Pure code: no requests, no clock, no randomness.
//!
//! Upstream has no limit for the share of tainted nodes. Here an alarm is raised before a large share of all nodes is tainted,
//! and operators may set a maximum for this share.
//!
//! Upstream: `pkg/controller/nodelifecycle`, `doNoExecuteTaintingPass`.

use std::{sync::Arc, time::Duration};

use common::prelude::*;

use crate::{
    flags::NODE_TAINT_MAX_SHARE,
    objects::{Node, NodeName},
    rate::TaintRateLimiter,
    taints::TaintCause,
};

/// A zone in which nodes wait for a `NoExecute` taint.
#[derive(Clone, Debug)]
pub(crate) struct ZoneWithWaitingNodes {
    pub(crate) zone_key: Text,
    /// The node that has waited longest.
    pub(crate) node: Arc<Node>,
    /// Whether `node` no longer needs its taint, for example because of a new heartbeat.
    pub(crate) is_taint_unnecessary: bool,
    /// Number of waiting nodes in the zone, including the one that has waited longest.
    pub(crate) waiting_node_count: usize,
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

impl TaintShareLimits {
    pub(crate) fn is_above_alarm_share(self, share: f64) -> bool {
        self.alarm_share > 0.0 && share as f32 > self.alarm_share
    }
}

/// Returns the share of tainted nodes, between 0 and 1; 0 if the cluster has no nodes.
pub(crate) fn tainted_node_share(tainted_node_count: usize, total_node_count: usize) -> f64 {
    tainted_node_count as f64 / total_node_count.max(1) as f64
}

/// Everything that a pass over waiting nodes reads.
#[derive(Clone, Debug)]
pub(crate) struct TaintingSnapshot {
    pub(crate) now: Instant,
    /// Whether this process can receive heartbeats; if not, no node is tainted.
    pub(crate) has_server_contact: bool,
    pub(crate) zones_with_waiting_nodes: Vec<ZoneWithWaitingNodes>,
    pub(crate) total_node_count: usize,
    /// Number of nodes with a `NoExecute` taint of this program.
    pub(crate) tainted_node_count: usize,
    pub(crate) share_limits: TaintShareLimits,
    /// Whether the alarm was raised and the share of tainted nodes still exceeds `--node-taint-alarm-share`.
    pub(crate) is_taint_alarm_active: bool,
    /// Pause before the next pass if this process cannot receive heartbeats.
    pub(crate) pass_period: Duration,
}

/// A node that the pass taints, at the rate of its zone.
#[derive(Clone, Debug)]
pub(crate) struct NodeToTaint {
    pub(crate) node: Arc<Node>,
    pub(crate) zone_key: Text,
    /// Cause of the taint by the recorded state; the written taint follows from the state on the server.
    pub(crate) cause: TaintCause,
}

/// Decisions about the nodes that wait for a `NoExecute` taint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Nodes to taint now, at most one of each zone.
    pub(crate) nodes_to_taint: Vec<NodeToTaint>,
    /// Nodes that stop waiting, because they no longer need a taint.
    pub(crate) nodes_no_longer_waiting_for_taint: Vec<NodeName>,
    /// Message of the alarm that precedes the taints; `None` for no alarm.
    pub(crate) alarm_message: Option<String>,
    /// Whether the share of tainted and waiting nodes is above the flag `--node-taint-alarm-share`.
    pub(crate) exceeds_alarm_share: bool,
    /// Number of nodes that are not tainted because of the flag `--node-taint-max-share`.
    pub(crate) blocked_by_max_share_count: usize,
    pub(crate) waiting_node_count: usize,
    /// Share of nodes, between 0 and 1, with a taint or waiting for one in a zone with a positive tainting rate.
    pub(crate) tainted_node_share: f64,
    /// Pause before the next tainting pass; `None` if no further pass is necessary.
    pub(crate) next_pass_after: Option<Duration>,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        let alarm = self.alarm_message.as_ref().map_or_else(String::new, |alarm| format!("; {alarm}"));
        format!("{} nodes wait for a NoExecute taint{alarm}", self.waiting_node_count)
    }

    fn wait_reasons(&self) -> Vec<String> {
        let count = self.blocked_by_max_share_count;
        let blocked =
            (count > 0).then(|| format!("{count} nodes are not tainted because of --{}", NODE_TAINT_MAX_SHARE.name));
        blocked.into_iter().collect()
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.next_pass_after
    }

    fn is_notable(&self) -> bool {
        self.alarm_message.is_some()
    }
}

/// Decides which nodes are tainted now, which nodes stop waiting, and whether an alarm is raised.
pub(crate) fn decide(snapshot: &TaintingSnapshot) -> Plan {
    let TaintingSnapshot { now, total_node_count, tainted_node_count, share_limits, .. } = snapshot;
    let zones = &snapshot.zones_with_waiting_nodes;
    let taintable_zones = zones.iter().filter(|zone| zone.limiter.rate > 0.0);
    let taintable_waiting_node_count: usize = taintable_zones.map(|zone| zone.waiting_node_count).sum();
    let expected_tainted_node_count = tainted_node_count + taintable_waiting_node_count;
    let expected_share = tainted_node_share(expected_tainted_node_count, *total_node_count);
    let mut plan = Plan {
        exceeds_alarm_share: share_limits.is_above_alarm_share(expected_share),
        waiting_node_count: zones.iter().map(|zone| zone.waiting_node_count).sum(),
        tainted_node_share: expected_share,
        ..Plan::default()
    };
    if zones.is_empty() {
        return plan;
    }
    if !snapshot.has_server_contact {
        plan.next_pass_after = Some(snapshot.pass_period);
        return plan;
    }
    let mut later: Option<Instant> = None;
    for zone in zones {
        let mut limiter = zone.limiter;
        if zone.is_taint_unnecessary {
            plan.nodes_no_longer_waiting_for_taint.push(Arc::clone(&zone.node.metadata.name));
            plan.next_pass_after = Some(Duration::ZERO);
        } else if !limiter.has_token(*now) {
        } else if share_limits.max_share > 0.0
            && tainted_node_share(tainted_node_count + plan.nodes_to_taint.len() + 1, *total_node_count) as f32
                > share_limits.max_share
        {
            plan.blocked_by_max_share_count += zone.waiting_node_count;
            continue;
        } else if let Some(cause) = TaintCause::for_node(&zone.node) {
            plan.nodes_to_taint.push(NodeToTaint {
                node: Arc::clone(&zone.node),
                zone_key: zone.zone_key.clone(),
                cause,
            });
            limiter.take_token(*now);
        }
        if zone.waiting_node_count > plan.nodes_to_taint.iter().filter(|node| node.zone_key == zone.zone_key).count() {
            later = later.into_iter().chain(limiter.next_token_at()).min();
        }
    }
    if plan.exceeds_alarm_share
        && !snapshot.is_taint_alarm_active
        && !(plan.nodes_to_taint.is_empty() && plan.blocked_by_max_share_count == 0)
    {
        plan.alarm_message = Some(format!(
            "{expected_tainted_node_count} of {total_node_count} nodes have a NoExecute taint or wait for it"
        ));
    }
    // A zone without taints due to `--node-taint-max-share` sets no pause, because a health pass enqueues a tainting pass.
    let until = later.map(|later| later.saturating_duration_since(*now).max(Duration::from_millis(1)));
    plan.next_pass_after = if plan.next_pass_after.is_some() { Some(Duration::from_millis(1)) } else { until };
    plan
}

#[cfg(test)]
mod tests {
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
