//! What always holds of taint eviction and Pod garbage collection, and what holds in the end, read off the API server's true
//! state.
//!
//! A Pod is deleted on what the server said of it and of its node, not on what a cache showed: the allowance for stale views
//! covers only the time between these reads and the deletion.

use std::{sync::Arc, time::Duration};

use common::clock::Instant;
use serde_json::Value;

use crate::{
    json::{at, condition, has_finished, is_deleting, is_ready, items, name, number, text},
    scenario::{Invariant, Promise},
    world::{Logged, World},
};

const CONTROLLER: &str = "node-lifecycle-controller";
const NODES: &str = "nodes";
const PODS: &str = "pods";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The time between the live read of a node and the deletion of a Pod because of it: the second for which the read counts, and
/// two writes, each of which the server may send away for two seconds.
const LIVE: Duration = Duration::from_secs(6);
const QUARANTINE: Duration = Duration::from_secs(40);
pub(super) const THRESHOLD: usize = 3;

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant { name: "writes-nothing-but-pods", claims: "NODE-91", check: writes_nothing_but_pods },
    Invariant { name: "few-ended-pods-are-kept", claims: "NODE-65", check: few_ended_pods_are_kept },
];

/// What holds whoever taints the nodes.
pub(super) const OF_EVICTION: &[Invariant] = &[
    Invariant { name: "evictions-have-a-taint", claims: "NODE-49, NODE-51, NODE-56", check: evictions_have_a_taint },
    Invariant { name: "tolerated-time-is-granted", claims: "NODE-48", check: tolerated_time_is_granted },
    Invariant { name: "evictions-give-a-reason", claims: "NODE-55", check: evictions_give_a_reason },
    Invariant {
        name: "only-lost-pods-are-failed",
        claims: "NODE-66, NODE-67, NODE-68, NODE-70",
        check: only_lost_pods_are_failed,
    },
    Invariant { name: "ended-pods-keep-their-phase", claims: "NODE-69", check: ended_pods_keep_their_phase },
    Invariant { name: "finalizers-of-pods-stay", claims: "NODE-69", check: finalizers_stay },
];

pub(super) const PROMISES: &[Promise] = &[
    Promise { name: "no-pod-stays-untolerated", claims: "NODE-48", check: no_pod_stays_untolerated },
    Promise { name: "no-orphan-is-left", claims: "NODE-67", check: no_orphan_is_left },
    Promise { name: "no-pod-terminates-for-ever", claims: "NODE-66, NODE-68", check: no_pod_terminates_for_ever },
    Promise { name: "few-ended-pods-are-left", claims: "NODE-65", check: few_ended_pods_are_left },
];

/// How long the tolerations of a Pod let it stay on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stay {
    No,
    For(i64),
    Always,
}

fn evicting(node: &Value) -> impl Iterator<Item = &Value> {
    let taints = items(node, "/spec/taints").iter();
    taints.filter(|taint| taint["effect"] == "NoExecute")
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let any_or = |field: &str| {
        let own = toleration[field].as_str().unwrap_or_default();
        own.is_empty() || own == taint[field].as_str().unwrap_or_default()
    };
    let values = toleration["value"].as_str().unwrap_or_default() == taint["value"].as_str().unwrap_or_default();
    any_or("key") && any_or("effect") && (toleration["operator"] == "Exists" || values)
}

fn stay(pod: &Value, node: &Value) -> Stay {
    let one =
        |taint: &Value| match items(pod, "/spec/tolerations").iter().find(|toleration| tolerates(toleration, taint)) {
            None => Stay::No,
            Some(toleration) => toleration["tolerationSeconds"].as_i64().map_or(Stay::Always, Stay::For),
        };
    evicting(node).map(one).min().unwrap_or(Stay::Always)
}

fn node_name(pod: &Value) -> &str {
    text(pod, "/spec/nodeName")
}

fn is_out_of_service(node: &Value) -> bool {
    let taints = items(node, "/spec/taints").iter();
    !is_ready(node) && taints.into_iter().any(|taint| taint["key"] == OUT_OF_SERVICE)
}

/// The states of the Pod's node that the server may have answered a live read with.
fn live_nodes<'a>(world: &'a World, pod: &Value) -> Vec<Option<&'a Arc<Value>>> {
    world.within(NODES, "", node_name(pod), LIVE)
}

/// A Pod that the eviction deleted: the garbage collector lets Pods end first.
fn evicted(logged: &Logged) -> Option<Arc<Value>> {
    logged.deleted(CONTROLLER, PODS).filter(|pod| !has_finished(pod))
}

fn writes_nothing_but_pods(_: &World, logged: &Logged) -> Option<String> {
    let allowed =
        matches!(logged.resource().as_str(), PODS | "events") && !(logged.creates() && logged.resource() == PODS);
    (logged.by(CONTROLLER) && !allowed).then(|| format!("{} {} is written", logged.resource(), logged.write.name))
}

fn evictions_have_a_taint(world: &World, logged: &Logged) -> Option<String> {
    let pod = evicted(logged)?;
    // A timer outlives its node.
    let may_leave = |node: Option<&Arc<Value>>| node.is_none_or(|node| stay(&pod, node) != Stay::Always);
    (!live_nodes(world, &pod).into_iter().any(may_leave))
        .then(|| format!("{} is evicted and tolerates every taint of {}", name(&pod), node_name(&pod)))
}

/// Since when something is true of a node. Interruptions that are too short to be seen do not count.
fn since(world: &World, node: &str, is_true: impl Fn(Option<&Value>) -> bool) -> Option<Instant> {
    let unseen = world.lag() + LIVE;
    let mut since: Option<Instant> = is_true(None).then(|| world.log().first().map(|logged| logged.at)).flatten();
    let mut ended: Option<Instant> = None;
    for logged in world.log().iter().filter(|logged| logged.resource() == NODES && logged.write.name == node) {
        if !is_true(logged.after().as_deref()) {
            ended.get_or_insert(logged.at);
            continue;
        }
        if ended.take().is_some_and(|ended| logged.at.saturating_duration_since(ended) > unseen) {
            since = None;
        }
        since.get_or_insert(logged.at);
    }
    since
}

fn tolerated_time_is_granted(world: &World, logged: &Logged) -> Option<String> {
    let pod = evicted(logged)?;
    let stays = live_nodes(world, &pod).into_iter().flatten().map(|node| stay(&pod, node));
    let Some(Stay::For(seconds)) = stays.min() else { return None };
    let is_tainted = |node: Option<&Value>| node.is_none_or(|node| evicting(node).next().is_some());
    let since = since(world, node_name(&pod), is_tainted)?;
    let stayed = world.now().saturating_duration_since(since);
    // The node may be missing before it exists: then nothing is known of the time.
    (stayed + Duration::from_secs(1) < Duration::from_secs(seconds.unsigned_abs()))
        .then(|| format!("{} is evicted after {stayed:?} and tolerates its node for {seconds} s", name(&pod)))
}

fn evictions_give_a_reason(_: &World, logged: &Logged) -> Option<String> {
    let pod = evicted(logged)?;
    let said = |field: &str| condition(&pod, "DisruptionTarget", field);
    (said("status") != "True" || said("reason") != "DeletionByTaintManager")
        .then(|| format!("{} is evicted with the reason {:?}", name(&pod), said("reason")))
}

/// Whether the garbage collector may remove a Pod that has not ended.
fn is_lost(world: &World, pod: &Value) -> bool {
    if node_name(pod).is_empty() {
        return is_deleting(pod);
    }
    let nodes = live_nodes(world, pod);
    if is_deleting(pod) && nodes.iter().flatten().any(|node| is_out_of_service(node)) {
        return true;
    }
    let missing = since(world, node_name(pod), |node| node.is_none());
    let missing_for = missing.map_or(Duration::ZERO, |since| world.now().saturating_duration_since(since));
    nodes.iter().any(Option::is_none) && missing_for >= QUARANTINE
}

fn only_lost_pods_are_failed(world: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.changed(CONTROLLER, PODS)?;
    let fails = !has_finished(&before) && has_finished(&after);
    (fails && !is_lost(world, &before))
        .then(|| format!("{} is failed and its node {:?} is there", name(&before), node_name(&before)))
}

fn ended_pods_keep_their_phase(_: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.changed(CONTROLLER, PODS)?;
    let phases = [text(&before, "/status/phase"), text(&after, "/status/phase")];
    (has_finished(&before) && phases[0] != phases[1])
        .then(|| format!("{} was {} and is {}", name(&before), phases[0], phases[1]))
}

fn few_ended_pods_are_kept(world: &World, logged: &Logged) -> Option<String> {
    let pod = logged.deleted(CONTROLLER, PODS).filter(|pod| has_finished(pod))?;
    let count = world.list_recent(PODS).filter(|pod| has_finished(pod)).count();
    (count <= THRESHOLD && !is_lost(world, &pod))
        .then(|| format!("{} has ended and is deleted, one of {count}", name(&pod)))
}

fn finalizers_stay(_: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.changed(CONTROLLER, PODS)?;
    let finalizers = |pod: &Value| at(pod, "/metadata/finalizers").cloned();
    (finalizers(&before) != finalizers(&after)).then(|| format!("the finalizers of {} change", name(&before)))
}

fn no_pod_stays_untolerated(world: &World) -> Option<String> {
    world.list(PODS).filter(|pod| !is_deleting(pod)).find_map(|pod| {
        let node = world.get(NODES, "", node_name(pod)).filter(|node| stay(pod, node) != Stay::Always)?;
        Some(format!("{} is on {} and does not tolerate its taints", name(pod), name(node)))
    })
}

/// Whether only the kubelet or the garbage collector is waited for.
fn is_held(pod: &Value) -> bool {
    is_deleting(pod) && !items(pod, "/metadata/finalizers").is_empty()
}

fn no_orphan_is_left(world: &World) -> Option<String> {
    let is_orphan = |pod: &&Arc<Value>| !node_name(pod).is_empty() && world.get(NODES, "", node_name(pod)).is_none();
    world
        .list(PODS)
        .filter(is_orphan)
        .find(|pod| !is_held(pod))
        .map(|pod| format!("{} is left and its node {} is gone", name(pod), node_name(pod)))
}

fn no_pod_terminates_for_ever(world: &World) -> Option<String> {
    let is_stuck = |pod: &&Arc<Value>| {
        let node = world.get(NODES, "", node_name(pod));
        let is_nowhere = node_name(pod).is_empty() || node.is_some_and(|node| is_out_of_service(node));
        is_deleting(pod) && !is_held(pod) && is_nowhere
    };
    let pod = world.list(PODS).find(is_stuck)?;
    let grace = number(pod, "/metadata/deletionGracePeriodSeconds");
    Some(format!("{} is terminating, its grace is {grace} s, and no kubelet will end it", name(pod)))
}

fn few_ended_pods_are_left(world: &World) -> Option<String> {
    let count = world.list(PODS).filter(|pod| has_finished(pod) && !is_held(pod)).count();
    (count > THRESHOLD).then(|| format!("{count} ended Pods are left and {THRESHOLD} are kept"))
}
