//! The decision which waiting nodes get a `NoExecute` taint now: one after the other in each zone, at the rate of the zone.
//!
//! Unlike upstream there is a brake: an alarm is raised before a large share of all nodes is tainted, and operators may set an
//! upper limit for this share.
//!
//! Upstream: `pkg/controller/nodelifecycle`, `doNoExecuteTaintingPass`.

use std::{sync::Arc, time::Duration};

use common::clock::Instant;

use crate::{
    monitor::rounds::{
        plan::tainting::{Chosen, Plan},
        snapshot::{Share, TaintingSnapshot},
    },
    taints::Cause,
};

/// Decides which nodes are tainted now, which nodes stop waiting, and whether an alarm is raised.
pub(crate) fn decide(snapshot: &TaintingSnapshot) -> Plan {
    let TaintingSnapshot { now, nodes, tainted, brake, period, .. } = snapshot;
    let waiting: usize = snapshot.zones.iter().map(|zone| zone.count).sum();
    let expected: usize = snapshot.zones.iter().filter(|zone| zone.limiter.rate() > 0.0).map(|zone| zone.count).sum();
    let share = |count: usize| Share { count, nodes: *nodes };
    let is_alarmed = share(tainted + expected).is_alarming(brake.alarm);
    let mut plan =
        Plan { chosen: Vec::new(), over: Vec::new(), alarm: None, is_alarmed, held: 0, waiting, expected, pause: None };
    if snapshot.zones.is_empty() {
        return plan;
    }
    if !snapshot.sees {
        plan.pause = Some(*period);
        return plan;
    }
    let mut later: Option<Instant> = None;
    for zone in &snapshot.zones {
        let mut next = zone.limiter;
        if zone.is_over {
            plan.over.push(Arc::clone(&zone.node.metadata.name));
            plan.pause = Some(Duration::ZERO);
        } else if !next.grants(*now) {
        } else if brake.cap > 0.0 && share(tainted + plan.chosen.len() + 1).value() as f32 > brake.cap {
            plan.held += zone.count;
            continue;
        } else if let Some(cause) = Cause::of(&zone.node) {
            plan.chosen.push(Chosen { node: Arc::clone(&zone.node), zone: zone.zone.clone(), cause });
            next.take(*now);
        }
        if zone.count > plan.chosen.iter().filter(|chosen| chosen.zone == zone.zone).count() {
            later = later.into_iter().chain(next.next()).min();
        }
    }
    if is_alarmed && !snapshot.is_alarmed && !(plan.chosen.is_empty() && plan.held == 0) {
        plan.alarm = Some(format!("{} of {nodes} nodes have a NoExecute taint or wait for it", tainted + expected));
    }
    // A zone that the limit holds back sets no pause, because every pass over nodes enqueues a round of tainting.
    let until = later.map(|later| later.saturating_duration_since(*now).max(Duration::from_millis(1)));
    plan.pause = if plan.pause.is_some() { Some(Duration::from_millis(1)) } else { until };
    plan
}

#[cfg(test)]
mod tests {
    use common::controller::Explain as _;

    use super::*;
    use crate::{
        rate::Limiter,
        world::{start, tainting as snapshot, waiting_zone as zone},
    };

    fn names(plan: &Plan) -> Vec<&str> {
        plan.chosen.iter().map(|chosen| &*chosen.node.metadata.name).collect()
    }

    /// NODE-33, NODE-35.
    #[test]
    fn each_zone_with_a_token_taints_one_node() {
        let now = start();
        let mut empty = Limiter::new(0.1, now);
        empty.take(now);
        let plan = decide(&snapshot(now, vec![zone("a", 2, Limiter::new(0.1, now)), zone("b", 1, empty)]));
        assert_eq!(names(&plan), ["a-0"]);
        assert_eq!(plan.requeue_after(), Some(Duration::from_secs(10)));
        let plan = decide(&snapshot(now, vec![zone("a", 1, Limiter::new(0.1, now))]));
        assert_eq!((names(&plan), plan.requeue_after()), (vec!["a-0"], None), "no other node waits");
        let plan = decide(&snapshot(now, vec![zone("a", 1, Limiter::new(0.0, now))]));
        assert_eq!((names(&plan).len(), plan.requeue_after()), (0, None), "a stopped zone");
    }

    /// NODE-16.
    #[test]
    fn a_blind_process_taints_no_node() {
        let now = start();
        let mut blind = snapshot(now, vec![zone("a", 2, Limiter::new(0.1, now))]);
        blind.sees = false;
        let plan = decide(&blind);
        assert_eq!((names(&plan).len(), plan.requeue_after()), (0, Some(Duration::from_secs(5))));
    }

    /// NODE-41.
    #[test]
    fn a_node_with_a_new_heartbeat_no_longer_waits() {
        let now = start();
        let mut over = zone("a", 2, Limiter::new(0.1, now));
        over.is_over = true;
        let plan = decide(&snapshot(now, vec![over]));
        assert_eq!((names(&plan).len(), plan.over.len()), (0, 1));
        assert_eq!(plan.requeue_after(), Some(Duration::from_millis(1)), "the next node follows at once");
    }

    /// NODE-43, NODE-44, NODE-85.
    #[test]
    fn a_large_share_raises_one_alarm_and_the_limit_is_not_exceeded() {
        let now = start();
        let full = || Limiter::new(0.1, now);
        let mut many = snapshot(now, vec![zone("a", 8, full())]);
        many.tainted = 4;
        let plan = decide(&many);
        let alarm = plan.alarm.as_deref();
        assert_eq!((names(&plan).len(), alarm), (1, Some("12 of 20 nodes have a NoExecute taint or wait for it")));
        many.is_alarmed = true;
        assert_eq!(decide(&many).alarm, None);
        let few = decide(&snapshot(now, vec![zone("a", 11, full())]));
        assert_eq!((few.alarm, few.is_alarmed), (None, false), "11 of 20 does not exceed the share");
        many.brake.cap = 0.25;
        let plan = decide(&many);
        assert_eq!((names(&plan).len(), plan.held), (1, 0), "5 of 20");
        many.tainted = 5;
        let plan = decide(&many);
        assert_eq!((names(&plan).len(), plan.held, plan.requeue_after()), (0, 8, None));
    }
}
