//! What always holds of the health of nodes, and what holds in the end, read off the API server's true state.

use std::{sync::Arc, time::Duration};

use common::clock::Instant;
use serde_json::Value;

use crate::{
    json::{condition, is_deleting, is_ready, items, label, name, text},
    scenario::{Invariant, Promise},
    world::{Logged, World},
};

const CONTROLLER: &str = "node-lifecycle-controller";
const NODES: &str = "nodes";
const TAINTS: &str = "/spec/taints";
const ZONE: &str = "topology.kubernetes.io/zone";
const PODS: &str = "pods";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The flag `--node-monitor-grace-period` by default.
const GRACE: Duration = Duration::from_secs(50);
/// The pause between two passes of the controller.
const PASS: Duration = Duration::from_secs(5);
/// How long a taint may be on its way to the server.
const ON_THE_WAY: Duration = Duration::from_secs(3);
/// How long what the server said of a node may be old when a node is judged or a Pod is deleted because of it: a second, and
/// three requests, each of which the server may send away for two seconds.
const LIVE: Duration = Duration::from_secs(7);
/// The longest time for which the rate of a zone is added up.
const MEMORY: Duration = Duration::from_mins(30);
/// The flags `--node-eviction-rate`, `--secondary-node-eviction-rate` and `--unhealthy-zone-threshold` by default.
const RATE: f64 = 0.1;
const SECONDARY_RATE: f64 = 0.01;
const UNHEALTHY: f64 = 0.55;
/// The flag `--large-cluster-size-threshold` by default, and in the suite of large zones.
const USUAL_ZONE: usize = 50;
pub(super) const LARGE_ZONE: usize = 3;

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: "living-nodes-are-not-judged",
        claims: "NODE-6, NODE-10, NODE-11",
        check: living_nodes_are_not_judged,
    },
    Invariant {
        name: "living-nodes-are-not-tainted",
        claims: "NODE-10, NODE-23, NODE-41",
        check: living_nodes_are_not_tainted,
    },
    Invariant { name: "pods-stay-on-living-nodes", claims: "NODE-56, NODE-59", check: pods_stay_on_living_nodes },
    Invariant { name: "taints-of-others-stay", claims: "NODE-27", check: taints_of_others_stay },
    Invariant { name: "one-cause-at-a-time", claims: "NODE-24", check: one_cause_at_a_time },
];

const fn rate_of_zones<const LARGE: usize>() -> Invariant {
    Invariant {
        name: "zones-are-tainted-at-their-rate",
        claims: "NODE-32, NODE-33, NODE-34, NODE-35, NODE-38",
        check: zones_are_tainted_at_their_rate::<LARGE>,
    }
}

/// The rates of zones by the default flags.
pub(super) const OF_ZONES: &[Invariant] = &[rate_of_zones::<USUAL_ZONE>()];
/// The same where zones of more than [`LARGE_ZONE`] nodes are large.
pub(super) const OF_LARGE_ZONES: &[Invariant] = &[rate_of_zones::<LARGE_ZONE>()];

const fn promises<const LARGE: usize>() -> [Promise; 3] {
    [
        Promise {
            name: "silent-nodes-are-marked",
            claims: "NODE-8, NODE-22, NODE-23, NODE-38",
            check: silent_nodes_are_marked::<LARGE>,
        },
        Promise {
            name: "living-nodes-are-as-they-say",
            claims: "NODE-22, NODE-23, NODE-25",
            check: living_nodes_are_as_they_say::<LARGE>,
        },
        Promise { name: "pods-leave-lost-nodes", claims: "NODE-48", check: pods_leave_lost_nodes::<LARGE> },
    ]
}

pub(super) const PROMISES: &[Promise] = &promises::<USUAL_ZONE>();
/// The same where zones of more than [`LARGE_ZONE`] nodes are large.
pub(super) const PROMISES_OF_LARGE_ZONES: &[Promise] = &promises::<LARGE_ZONE>();

fn says_not_ready(node: &Value) -> bool {
    condition(node, "Ready", "status") == "False"
}

fn is_silent(world: &World, node: &Value) -> bool {
    world.silence(name(node), world.now()) >= GRACE
}

/// Whether a node has been silent for long enough to be judged, or was until a moment ago: what is on its way still arrives, but
/// not what was on its way before an outage.
fn may_be_judged(world: &World, node: &str) -> bool {
    let moment = |ago: u64| world.now().checked_sub(Duration::from_secs(ago)).unwrap_or(world.now());
    (0..=LIVE.as_secs()).map(moment).any(|at| !world.was_away_since(at) && world.silence(node, at) >= GRACE)
}

/// Whether a node may have its taint: it is silent, or has said itself lately that it is not ready.
fn may_be_tainted(world: &World, node: &str) -> bool {
    let says_so = || world.within(NODES, "", node, LIVE).into_iter().flatten().any(|state| says_not_ready(state));
    may_be_judged(world, node) || (says_so() && world.is_up_to_date(node, GRACE))
}

fn has_taint(node: &Value, key: &str, effect: &str) -> bool {
    items(node, TAINTS).iter().any(|taint| taint["key"] == key && taint["effect"] == effect)
}

fn is_ours(taint: &Value) -> bool {
    taint["key"].as_str().is_some_and(|key| key.starts_with("node.kubernetes.io/"))
}

/// The node that a write of the controller gave its `NoExecute` taint. A taint that takes the place of another is none.
fn tainted_node(logged: &Logged) -> Option<Arc<Value>> {
    let evicts = |node: &Value| [UNREACHABLE, NOT_READY].iter().any(|key| has_taint(node, key, "NoExecute"));
    logged.changed(CONTROLLER, NODES).filter(|(before, after)| !evicts(before) && evicts(after)).map(|(_, after)| after)
}

fn living_nodes_are_not_judged(world: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.changed(CONTROLLER, NODES)?;
    let ready = |node: &Value| condition(node, "Ready", "status").to_owned();
    if ready(&before) == ready(&after) || may_be_judged(world, name(&after)) {
        return None;
    }
    let silence = world.silence(name(&after), world.now());
    Some(format!("{} becomes {} after a silence of {silence:?}", name(&after), ready(&after)))
}

fn living_nodes_are_not_tainted(world: &World, logged: &Logged) -> Option<String> {
    let after = tainted_node(logged)?;
    (!may_be_tainted(world, name(&after))).then(|| {
        format!("{} is tainted after a silence of {:?}", name(&after), world.silence(name(&after), world.now()))
    })
}

fn pods_stay_on_living_nodes(world: &World, logged: &Logged) -> Option<String> {
    let pod = logged.deleted(CONTROLLER, PODS)?;
    let node = text(&pod, "/spec/nodeName");
    (!may_be_tainted(world, node)).then(|| format!("{} is evicted from {node}, which lives", name(&pod)))
}

fn taints_of_others_stay(_: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.changed(CONTROLLER, NODES)?;
    let others = |node: &Value| items(node, TAINTS).iter().filter(|t| !is_ours(t)).cloned().collect::<Vec<_>>();
    (others(&before) != others(&after)).then(|| format!("a taint of {} is lost", name(&after)))
}

fn one_cause_at_a_time(_: &World, logged: &Logged) -> Option<String> {
    let (_, after) = logged.changed(CONTROLLER, NODES)?;
    let has_both = has_taint(&after, UNREACHABLE, "NoExecute") && has_taint(&after, NOT_READY, "NoExecute");
    has_both.then(|| format!("{} has both causes", name(&after)))
}

/// How many nodes a second of a zone may be tainted while nodes are in these states.
fn rate(nodes: &[&Arc<Value>], of: &str, large: usize, is_ready: impl Fn(&Value) -> bool) -> f64 {
    let is_ready = |node: &&&Arc<Value>| is_ready(node);
    if !nodes.iter().any(|node| is_ready(&node)) {
        return 0.0;
    }
    let of_zone: Vec<&&Arc<Value>> = nodes.iter().filter(|node| label(node, ZONE) == of).collect();
    let ready = of_zone.iter().filter(|node| is_ready(node)).count();
    let not_ready = of_zone.len() - ready;
    let is_partial = ready > 0 && not_ready > 2 && not_ready as f64 / of_zone.len() as f64 >= UNHEALTHY;
    if !is_partial {
        RATE
    } else if of_zone.len() > large {
        SECONDARY_RATE
    } else {
        0.0
    }
}

/// The highest rate of a zone in a stretch of time.
///
/// A node that has been silent for long counts as not ready, too, while its conditions cannot be written: the state of a zone is
/// that which the nodes are in, and both views of it are allowed.
fn highest_rate(world: &World, of: &str, large: usize, from: Instant, to: Instant) -> f64 {
    let names: Vec<&str> = world.list(NODES).map(|node| name(node)).collect();
    let changes = names.iter().flat_map(|node| world.states(NODES, "", node)).map(|(at, _)| *at);
    let times = changes.filter(|at| (from..=to).contains(at)).chain([from]);
    let at_time = |time: Instant| {
        let state = |node: &&str| {
            let states = world.states(NODES, "", node);
            let before = states.partition_point(|(at, _)| *at <= time).checked_sub(1)?;
            states[before].1.as_ref()
        };
        let nodes = names.iter().filter_map(state).collect::<Vec<_>>();
        let is_lost = |node: &Value| world.silence(name(node), time) >= GRACE;
        let lives = |node: &Value| is_ready(node) && !is_lost(node);
        rate(&nodes, of, large, is_ready).max(rate(&nodes, of, large, lives))
    };
    times.map(at_time).fold(0.0, f64::max)
}

/// A zone has one token, which comes back at the rate of its state. Each process has its own tokens: a new one begins with all.
///
/// The controller learns of a new state with its next pass, so the higher rate counts for that long.
fn zones_are_tainted_at_their_rate<const LARGE: usize>(world: &World, logged: &Logged) -> Option<String> {
    let node = tainted_node(logged)?;
    let of = label(&node, ZONE);
    let unseen = PASS + world.lag();
    let rate_at = |time: Instant| highest_rate(world, of, LARGE, time.checked_sub(unseen).unwrap_or(time), time);
    let is_earlier = |earlier: &&Logged| {
        let is_its = earlier.write.identity == logged.write.identity && !Arc::ptr_eq(&earlier.write, &logged.write);
        is_its && tainted_node(earlier).is_some_and(|node| label(&node, ZONE) == of)
    };
    let Some(last) = world.log().iter().rev().find(is_earlier) else {
        return if rate_at(logged.at) > 0.0 {
            None
        } else {
            Some(format!("{} is tainted in a zone that is stopped", name(&node)))
        };
    };
    let (second, mut tokens, mut at) = (Duration::from_secs(1), 0.0, logged.at);
    // A request may take a while, and the token of the last one was taken before.
    let from = last.at.checked_sub(ON_THE_WAY).unwrap_or(last.at);
    while tokens < 1.0 && at > from && logged.at.saturating_duration_since(at) < MEMORY {
        let length = at.saturating_duration_since(from).min(second);
        tokens += rate_at(at) * length.as_secs_f64();
        at = at.checked_sub(second).unwrap_or(from);
    }
    // The sum of many small parts is not exact.
    if tokens > 0.999 {
        return None;
    }
    let gap = logged.at.saturating_duration_since(last.at);
    Some(format!("{} is tainted {gap:?} after {}, which is {tokens:.2} of a turn", name(&node), last.write.name))
}

/// Whether the state of a zone forbids to taint its nodes in the end.
fn is_stopped(world: &World, node: &Value, large: usize) -> bool {
    rate(&world.list(NODES).collect::<Vec<_>>(), label(node, ZONE), large, is_ready) <= 0.0
}

/// Whether no node is ready: then nothing is tainted with `NoExecute`.
fn none_is_ready(world: &World) -> bool {
    !world.list(NODES).any(|node| is_ready(node))
}

/// Whether a node has this condition, the taints that follow from it, and `NoExecute` as its zone demands.
///
/// In a zone that is stopped nodes keep the taints that they got before, unless every zone is.
fn is_marked<const LARGE: usize>(world: &World, node: &Value, status: &str, key: &str) -> bool {
    let is_right =
        if has_taint(node, key, "NoExecute") { !none_is_ready(world) } else { is_stopped(world, node, LARGE) };
    condition(node, "Ready", "status") == status && has_taint(node, key, "NoSchedule") && is_right
}

fn silent_nodes_are_marked<const LARGE: usize>(world: &World) -> Option<String> {
    let is_wrong =
        |node: &&Arc<Value>| is_silent(world, node) && !is_marked::<LARGE>(world, node, "Unknown", UNREACHABLE);
    let wrong = world.list(NODES).find(is_wrong);
    wrong.map(|node| format!("{} is silent, with {:?}", name(node), items(node, TAINTS)))
}

fn living_nodes_are_as_they_say<const LARGE: usize>(world: &World) -> Option<String> {
    let is_right = |node: &Value| {
        let is_clean = is_ready(node) && !items(node, TAINTS).iter().any(is_ours);
        is_clean || is_marked::<LARGE>(world, node, "False", NOT_READY)
    };
    let wrong = world.list(NODES).find(|node| !is_silent(world, node) && !is_right(node));
    wrong.map(|node| format!("{} lives, with {:?}", name(node), items(node, TAINTS)))
}

fn pods_leave_lost_nodes<const LARGE: usize>(world: &World) -> Option<String> {
    let is_lost = |node: &Value| is_silent(world, node) || says_not_ready(node);
    let is_left = |node: &&Arc<Value>| is_lost(node) && !is_stopped(world, node, LARGE);
    let left: Vec<&str> = world.list(NODES).filter(is_left).map(|node| name(node)).collect();
    let stays = |pod: &&Arc<Value>| {
        left.contains(&text(pod, "/spec/nodeName")) && !name(pod).ends_with("-ever") && !is_deleting(pod)
    };
    world.list(PODS).find(stays).map(|pod| format!("{} stays", name(pod)))
}

/// The share of nodes that may have a taint, and how many of seven that are.
pub(super) const CAP: (f32, usize) = (0.3, 2);

fn few_nodes_are_tainted(world: &World, logged: &Logged) -> Option<String> {
    let evicts = |node: &&Arc<Value>| [UNREACHABLE, NOT_READY].iter().any(|key| has_taint(node, key, "NoExecute"));
    let count = world.list(NODES).filter(evicts).count();
    (tainted_node(logged).is_some() && count > CAP.1).then(|| format!("{count} nodes are tainted"))
}

/// What holds besides where the share of tainted nodes is limited.
pub(super) const OF_CAP: &[Invariant] =
    &[Invariant { name: "few-nodes-are-tainted", claims: "NODE-44", check: few_nodes_are_tainted }];

/// What holds in the end where taints may be held back.
pub(super) const PROMISES_OF_CAP: &[Promise] = &[Promise {
    name: "living-nodes-are-as-they-say",
    claims: "NODE-22, NODE-23, NODE-25",
    check: living_nodes_are_as_they_say::<USUAL_ZONE>,
}];
