//! DaemonSets: the suites, and what users and operators do at any moment.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    daemonset_invariants::{INVARIANTS, PROMISES},
    interferences::{at_once, delete_pod, fail_pod, later, one_of, one_pod, relabel_pod, replace_set, take_pod},
};
use crate::{
    json::{at, labels, name},
    scenario::{Deeds, Interference, Labelled, Suite, What},
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
        Interference { name: "delete-pod", act: delete_pod },
        Interference { name: "relabel-pod", act: relabel_pod },
        Interference { name: "take-pod", act: take_pod },
        Interference { name: "fail-pod", act: fail_pod },
        Interference { name: "duplicate-pod", act: duplicate },
        Interference { name: "taint", act: taint_a_node },
        Interference { name: "drop-node", act: drop_node },
        Interference { name: "replace", act: |world, _| at_once(replace_set(world, DAEMON_SETS, AGENT)?) },
    ],
};

/// DaemonSets whose statuses are written on whatever the caches show.
pub(super) const STALE: Suite = Suite {
    name: "daemonset-stale",
    gates: &[("StaleControllerConsistencyDaemonSet", false), ("AtomicFIFO", false)],
    ..SUITE
};

const DAEMON_SETS: &str = "daemonsets.apps";
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

/// A Pod gets a twin: the same once more for the same node, as another active controller would create it.
fn duplicate(world: &World, luck: u64) -> Deeds {
    let pod = world.get(PODS, NAMESPACE, &one_pod(world, luck)?)?;
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
    at_once([What::Create(twin)])
}

fn any_node(world: &World, luck: u64) -> Option<&Value> {
    let ours = world.list(NODES).filter(|node| name(node).starts_with("node-"));
    one_of(ours.map(|node| &**node).collect(), luck)
}

fn taint_a_node(world: &World, luck: u64) -> Deeds {
    let node = any_node(world, luck)?;
    let before = at(node, "/spec/taints").cloned().unwrap_or_default();
    let effect = if luck & 16 == 0 { "NoSchedule" } else { "NoExecute" };
    let mut more = before.as_array().cloned().unwrap_or_default();
    more.push(json!({"key": "sim.example.com/other", "effect": effect}));
    let taints = |taints: Value| What::merge(NODES, name(node), json!({"spec": {"taints": taints}}));
    later(taints(json!(more)), 1 + luck % 60, taints(before))
}

/// A node is deleted and comes back after a while, with its Pods unless they were collected meanwhile.
fn drop_node(world: &World, luck: u64) -> Deeds {
    let node = any_node(world, luck)?;
    let (name, zone) = (name(node), labels(node).get(ZONE).copied().unwrap_or_default());
    let again = json!({"apiVersion": "v1", "kind": "Node", "status": node["status"],
        "metadata": {"name": name, "labels": node["metadata"]["labels"]}});
    let mut steps = vec![(Duration::ZERO, What::delete_now(NODES, name))];
    if luck & 16 == 0 {
        steps.push((Duration::from_secs(45), collected(zone)));
    }
    steps.push((Duration::from_secs(1 + luck % 60), What::Create(again)));
    steps.push((Duration::from_secs(1), untaint(name)));
    Some(steps)
}
