//! DaemonSets: the suites, and what users and operators do at any moment.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    daemonset_invariants::{INVARIANTS, PROMISES},
    replicaset::pod_interferences,
};
use crate::{
    json::{at, labels, name},
    scenario::{Interference, Labelled, Suite, Target, What},
    stage::NAMESPACE,
    world::World,
};

/// DaemonSets on three nodes, `node-0` to `node-2`, each in a zone of its own.
pub(super) const SUITE: Suite = Suite {
    name: "daemonset",
    programs: &[&daemonset_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    text: include_str!("daemonset.txt"),
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "delete-pod", act: pod_interferences::delete },
        Interference { name: "relabel-pod", act: pod_interferences::relabel },
        Interference { name: "take-pod", act: pod_interferences::take },
        Interference { name: "fail-pod", act: fail },
        Interference { name: "duplicate-pod", act: duplicate },
        Interference { name: "taint", act: taint_a_node },
        Interference { name: "drop-node", act: drop_node },
        Interference { name: "replace", act: replace },
    ],
};

/// DaemonSets whose statuses are written on whatever the caches show.
pub(super) const STALE: Suite = Suite {
    name: "daemonset-stale",
    gates: &[("StaleControllerConsistencyDaemonSet", false), ("AtomicFIFO", false)],
    ..SUITE
};

const DAEMON_SETS: &str = "daemonsets.apps";
const REVISIONS: &str = "controllerrevisions.apps";
const NODES: &str = "nodes";
const PODS: &str = "pods";
const AGENT: &str = "agent";
/// The label that says in which zone a node is. Pods get it from their node.
const ZONE: &str = "topology.kubernetes.io/zone";
fn untaint(node: &str) -> What {
    What::merge(NODES, node, json!({"spec": {"taints": null}}))
}

/// Deletes the Pods of a node at once, as the garbage collector of Pods does once the node is gone.
fn collected(zone: &str) -> What {
    let pods = Labelled { resource: PODS.to_owned(), key: ZONE.to_owned(), value: zone.to_owned() };
    What::DeleteAll(pods, json!({"gracePeriodSeconds": 0}))
}

fn failed(pod: &str) -> What {
    What::MergeStatus(Target::new(PODS, pod), json!({"status": {"phase": "Failed", "reason": "Evicted"}}))
}

fn fail(world: &World, luck: u64) -> Vec<(Duration, What)> {
    pod_interferences::one(world, luck).map(|pod| (Duration::ZERO, failed(&pod))).into_iter().collect()
}

/// A Pod gets a twin: the same once more for the same node, as another active controller would create it.
fn duplicate(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(pod) = pod_interferences::one(world, luck) else { return Vec::new() };
    let Some(pod) = world.get(PODS, NAMESPACE, &pod) else { return Vec::new() };
    let meta = &pod["metadata"];
    let mut twin = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "img:1"}]},
        "metadata": {"generateName": "twin-", "labels": meta["labels"], "annotations": meta["annotations"],
            "ownerReferences": meta["ownerReferences"]}});
    if let Some(labels) = twin["metadata"]["labels"].as_object_mut() {
        labels.retain(|key, _| !key.starts_with("topology."));
    }
    for field in ["affinity", "tolerations"] {
        if let Some(value) = pod["spec"].get(field) {
            twin["spec"][field] = value.clone();
        }
    }
    vec![(Duration::ZERO, What::Create(twin))]
}

fn any_node(world: &World, luck: u64) -> Option<&Value> {
    let ours: Vec<&Value> =
        world.list(NODES).filter(|node| name(node).starts_with("node-")).map(|node| &**node).collect();
    usize::try_from(luck).unwrap_or(0).checked_rem(ours.len()).and_then(|index| ours.get(index).copied())
}

fn taint_a_node(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(node) = any_node(world, luck) else { return Vec::new() };
    let before = at(node, "/spec/taints").cloned().unwrap_or_default();
    let effect = if luck & 16 == 0 { "NoSchedule" } else { "NoExecute" };
    let mut more = before.as_array().cloned().unwrap_or_default();
    more.push(json!({"key": "sim.example.com/other", "effect": effect}));
    let taints = |taints: Value| What::merge(NODES, name(node), json!({"spec": {"taints": taints}}));
    vec![(Duration::ZERO, taints(json!(more))), (Duration::from_secs(1 + luck % 60), taints(before))]
}

/// A node is deleted and comes back after a while, with its Pods unless they were collected meanwhile.
fn drop_node(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(node) = any_node(world, luck) else { return Vec::new() };
    let (name, zone) = (name(node), labels(node).get(ZONE).copied().unwrap_or_default());
    let again = json!({"apiVersion": "v1", "kind": "Node", "status": node["status"],
        "metadata": {"name": name, "labels": node["metadata"]["labels"]}});
    let mut steps = vec![(Duration::ZERO, What::delete_now(NODES, name))];
    if luck & 16 == 0 {
        steps.push((Duration::from_secs(45), collected(zone)));
    }
    steps.push((Duration::from_secs(1 + luck % 60), What::Create(again)));
    steps.push((Duration::from_secs(1), untaint(name)));
    steps
}

/// A set is replaced by another one of its name; its Pods and revisions are deleted with it.
fn replace(world: &World, _luck: u64) -> Vec<(Duration, What)> {
    let Some(old) = world.get(DAEMON_SETS, NAMESPACE, AGENT) else { return Vec::new() };
    let again = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": AGENT}, "spec": old["spec"]});
    let delete = What::delete(DAEMON_SETS, AGENT);
    let revisions = What::delete_all(REVISIONS, "app", AGENT);
    let pods = What::delete_all(PODS, "app", AGENT);
    [delete, revisions, What::Create(again), pods].into_iter().map(|what| (Duration::ZERO, what)).collect()
}
