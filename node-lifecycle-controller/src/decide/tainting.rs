//! Which waiting nodes get a `NoExecute` taint now, one after the other in each zone at the rate of the zone.
//!
//! Beyond upstream there is a brake: when a large share of all nodes is tainted or waits for it, that is said before anything
//! is done, and an operator may set a share that is never exceeded.
//!
//! Upstream: `pkg/controller/nodelifecycle`, `doNoExecuteTaintingPass`.

use std::{sync::Arc, time::Duration};

use common::{clock::Instant, controller::Explain, intern::Text};

use crate::objects::Node;

use super::{rate::Limiter, taints::Cause};

/// The next node of a zone.
#[derive(Clone, Debug)]
pub struct Head {
    /// The node.
    pub node: Arc<Node>,
    /// Whether the reason for which it waits is gone: something was heard of it.
    pub is_over: bool,
}

/// A zone with waiting nodes.
#[derive(Clone, Debug)]
pub struct WaitingZone {
    /// Its key.
    pub zone: Text,
    /// The node that has waited longest.
    pub head: Head,
    /// How many nodes wait.
    pub count: usize,
    /// When the next one may be tainted.
    pub limiter: Limiter,
}

/// Shares of all nodes, between 0 and 1, as flags set them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BrakeLimits {
    /// A larger share of tainted nodes is announced.
    pub alarm: f32,
    /// A larger share is not tainted; any if not positive.
    pub cap: f32,
}

/// Nodes as a share of all nodes.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Nodes that have a `NoExecute` taint of this program, or wait for one that their zone allows.
    pub count: usize,
    /// All nodes.
    pub nodes: usize,
}

impl Share {
    /// Between 0 and 1.
    pub fn value(self) -> f64 {
        self.count as f64 / self.nodes.max(1) as f64
    }

    /// Whether this share is larger than the one that is announced; never if that is not positive.
    pub fn is_alarming(self, alarm: f32) -> bool {
        alarm > 0.0 && self.value() as f32 > alarm
    }
}

/// Everything a round may look at.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The time of the round.
    pub now: Instant,
    /// Whether what nodes do is seen.
    pub sees: bool,
    /// Zones with waiting nodes.
    pub zones: Vec<WaitingZone>,
    /// All nodes.
    pub nodes: usize,
    /// Nodes that Pods have to leave for a cause of this program.
    pub tainted: usize,
    /// Shares of all nodes.
    pub brake: BrakeLimits,
    /// Whether the alarm was raised and is not over.
    pub is_alarmed: bool,
    /// The pause after which a round that could do nothing is repeated.
    pub period: Duration,
}

/// A node that is tainted.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The node.
    pub node: Arc<Node>,
    /// Its zone.
    pub zone: Text,
    /// The cause as it is known; what the server says counts.
    pub cause: Cause,
}

/// What a round does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Nodes that are tainted.
    pub chosen: Vec<Chosen>,
    /// Nodes that no longer wait, each with its zone.
    pub over: Vec<(Text, Arc<str>)>,
    /// The alarm to raise before anything is done.
    pub alarm: Option<String>,
    /// Whether the share of tainted nodes is above the alarm.
    pub is_alarmed: bool,
    /// Nodes that wait because of the cap.
    pub held: usize,
    /// All nodes that wait.
    pub waiting: usize,
    /// Those of them whose zone lets nodes be tainted now.
    pub expected: usize,
    pause: Option<Duration>,
}

/// Decides about one round.
pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    let Snapshot { now, nodes, tainted, brake, period, .. } = snapshot;
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
        if zone.head.is_over {
            plan.over.push((zone.zone.clone(), Arc::clone(&zone.head.node.metadata.name)));
            plan.pause = Some(Duration::ZERO);
        } else if !next.grants(*now) {
        } else if brake.cap > 0.0 && share(tainted + plan.chosen.len() + 1).value() as f32 > brake.cap {
            plan.held += zone.count;
            continue;
        } else if let Some(cause) = Cause::of(&zone.head.node) {
            plan.chosen.push(Chosen { node: Arc::clone(&zone.head.node), zone: zone.zone.clone(), cause });
            next.take(*now);
        }
        if zone.count > plan.chosen.iter().filter(|chosen| chosen.zone == zone.zone).count() {
            later = later.into_iter().chain(next.next()).min();
        }
    }
    if is_alarmed && !snapshot.is_alarmed && !(plan.chosen.is_empty() && plan.held == 0) {
        plan.alarm = Some(format!("{} of {nodes} nodes have a NoExecute taint or wait for it", tainted + expected));
    }
    // A held node is looked at again with every pass.
    let until = later.map(|later| later.saturating_duration_since(*now).max(Duration::from_millis(1)));
    plan.pause = if plan.pause.is_some() { Some(Duration::from_millis(1)) } else { until };
    plan
}

impl Explain for Plan {
    fn situation(&self) -> String {
        let alarm = self.alarm.as_ref().map_or_else(String::new, |alarm| format!("; {alarm}"));
        format!("{} nodes wait for a NoExecute taint{alarm}", self.waiting)
    }

    fn waiting(&self) -> Vec<String> {
        let held = (self.held > 0).then(|| format!("{} nodes are not tainted because of --{CAP_FLAG}", self.held));
        held.into_iter().collect()
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.pause
    }

    fn is_notable(&self) -> bool {
        self.alarm.is_some()
    }
}

/// The flag with the share of nodes that is never exceeded.
pub const CAP_FLAG: &str = "node-taint-max-share";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str) -> Arc<Node> {
        let node =
            json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        Arc::new(serde_json::from_str(&node.to_string()).unwrap())
    }

    fn start() -> Instant {
        common::clock::Clock::system().instant()
    }

    fn zone(name: &str, count: usize, limiter: Limiter) -> WaitingZone {
        let head = Head { node: node(&format!("{name}-0")), is_over: false };
        WaitingZone { zone: Text::new(name), head, count, limiter }
    }

    fn snapshot(now: Instant, zones: Vec<WaitingZone>) -> Snapshot {
        Snapshot {
            now,
            sees: true,
            zones,
            nodes: 20,
            tainted: 0,
            brake: BrakeLimits { alarm: 0.55, cap: 0.0 },
            is_alarmed: false,
            period: Duration::from_secs(5),
        }
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.chosen.iter().map(|chosen| &*chosen.node.metadata.name).collect()
    }

    #[test]
    fn each_zone_gives_one_node_when_its_limiter_grants() {
        let now = start();
        let mut empty = Limiter::new(0.1, now);
        empty.take(now);
        let plan = decide(&snapshot(now, vec![zone("a", 2, Limiter::new(0.1, now)), zone("b", 1, empty)]));
        assert_eq!(names(&plan), ["a-0"]);
        assert_eq!(plan.requeue_after(), Some(Duration::from_secs(10)));
        let plan = decide(&snapshot(now, vec![zone("a", 1, Limiter::new(0.1, now))]));
        assert_eq!((names(&plan), plan.requeue_after()), (vec!["a-0"], None), "nobody else waits");
        let plan = decide(&snapshot(now, vec![zone("a", 1, Limiter::new(0.0, now))]));
        assert_eq!((names(&plan).len(), plan.requeue_after()), (0, None), "a stopped zone");
    }

    #[test]
    fn a_blind_process_taints_nothing() {
        let now = start();
        let mut blind = snapshot(now, vec![zone("a", 2, Limiter::new(0.1, now))]);
        blind.sees = false;
        let plan = decide(&blind);
        assert_eq!((names(&plan).len(), plan.requeue_after()), (0, Some(Duration::from_secs(5))));
    }

    #[test]
    fn a_node_of_which_something_was_heard_no_longer_waits() {
        let now = start();
        let mut over = zone("a", 2, Limiter::new(0.1, now));
        over.head.is_over = true;
        let plan = decide(&snapshot(now, vec![over]));
        assert_eq!((names(&plan).len(), plan.over.len()), (0, 1));
        assert_eq!(plan.requeue_after(), Some(Duration::from_millis(1)), "the next one has its turn");
    }

    #[test]
    fn a_large_share_is_announced_once_and_a_cap_holds() {
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
        assert_eq!((few.alarm, few.is_alarmed), (None, false), "11 of 20 are not more than the share");
        many.brake.cap = 0.25;
        let plan = decide(&many);
        assert_eq!((names(&plan).len(), plan.held), (1, 0), "5 of 20");
        many.tainted = 5;
        let plan = decide(&many);
        assert_eq!((names(&plan).len(), plan.held, plan.requeue_after()), (0, 8, None));
    }
}
