//! What users and operators do with nodes and with the Pods on them.

use std::time::Duration;

use common::{app::ProgramDefinition, settings::TunableValue};
use node_lifecycle_controller::{DEFINITION, eviction::TAINT_EVICTION_LOOP, garbage::POD_GARBAGE_COLLECTOR_LOOP};
use serde_json::{Value, json};

use super::node_lifecycle_invariants::{INVARIANTS, OF_EVICTION, PROMISES, THRESHOLD};
use crate::{
    json::{at, is_deleting, name, text},
    scenario::{Interference, Scenario, Step, Suite, What, after, settled},
    world::World,
};

/// The loops that act on Pods. The nodes here have no heartbeat that could be judged.
pub(super) const OF_PODS: ProgramDefinition =
    ProgramDefinition { loops: &[TAINT_EVICTION_LOOP, POD_GARBAGE_COLLECTOR_LOOP], ..DEFINITION };

/// Taint eviction and Pod garbage collection, on nodes without a kubelet: what is deleted there stays until it is removed.
pub(super) const SUITE: Suite = Suite {
    name: "node-lifecycle",
    programs: &[&OF_PODS],
    tunes: &[("terminated-pod-gc-threshold", TunableValue::Integer(THRESHOLD as i64))],
    gates: &[],
    scenarios,
    invariants: &[INVARIANTS, OF_EVICTION],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "taint", act: taint_a_node },
        Interference { name: "untaint", act: untaint_a_node },
        Interference { name: "tolerate", act: tolerate },
        Interference { name: "drop-node", act: drop_node },
    ],
};

const NODES: &str = "nodes";
const PODS: &str = "pods";
/// The node that things happen to. No kubelet runs there.
const LOST: &str = "lost";
/// The taint of most scenarios.
const LEAVE: &str = "sim.example.com/leave";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const FINALIZER: &str = "sim.example.com/keep";

fn create(object: Value) -> Step {
    after(0.1, What::Create(object))
}

/// A node that nothing is scheduled to.
fn node(node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "spec": {"taints": taints(&[])}})
}

fn taints(keys: &[&str]) -> Value {
    let evicting = keys.iter().map(|key| json!({"key": key, "effect": "NoExecute"}));
    std::iter::once(json!({"key": NOT_READY, "effect": "NoSchedule"})).chain(evicting).collect()
}

/// The node has these `NoExecute` taints from now on.
fn taint(keys: &[&str]) -> What {
    What::merge(NODES, LOST, json!({"spec": {"taints": taints(keys)}}))
}

/// A Pod on the node with these tolerations.
fn pod(name: &str, tolerations: Value) -> Step {
    create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": LOST, "tolerations": tolerations, "containers": [{"name": "c", "image": "img:1"}]}}))
}

/// A toleration of every `NoExecute` taint for that many seconds.
fn tolerated(seconds: i64) -> Value {
    json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}])
}

fn for_a_minute() -> Value {
    tolerated(60)
}

fn for_ever() -> Value {
    json!([{"operator": "Exists"}])
}

fn hold(step: Step) -> Step {
    let What::Create(mut object) = step.what else { return step };
    object["metadata"]["finalizers"] = json!([FINALIZER]);
    Step { what: What::Create(object), ..step }
}

fn release(name: &str) -> What {
    What::merge(PODS, name, json!({"metadata": {"finalizers": null}}))
}

fn delete(resource: &str, name: &str) -> What {
    What::Delete(resource.to_owned(), name.to_owned(), json!({}))
}

/// A Pod that runs for a second on any node and succeeds.
fn short(name: &str) -> Step {
    after(
        1.2,
        What::Create(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": {"sim/exit": "0", "sim/after": "1"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}})),
    )
}

fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "tolerations",
            about: "Pods that tolerate a taint not at all, for a minute and for ever; then their node is removed",
            steps: vec![
                create(node(LOST)),
                pod("never", json!([])),
                pod("while", for_a_minute()),
                pod("ever", for_ever()),
                after(1.0, taint(&[LEAVE])),
                settled(delete(NODES, LOST)),
            ],
        },
        Scenario {
            name: "untainted-in-time",
            about: "a taint that is removed just before Pods have to leave, and added again",
            // Several faults in a row may keep the Pod that tolerates nothing for minutes; it is gone before the taint is.
            steps: vec![
                create(node(LOST)),
                pod("never", json!([])),
                pod("while", tolerated(300)),
                after(1.0, taint(&[LEAVE])),
                after(293.0, taint(&[])),
                settled(taint(&[LEAVE])),
            ],
        },
        Scenario {
            name: "swapped",
            about: "one taint takes the place of another, and no Pod gets more time",
            steps: vec![
                create(node(LOST)),
                pod("never", json!([])),
                pod("while", for_a_minute()),
                after(1.0, taint(&[NOT_READY])),
                after(20.0, taint(&[NOT_READY, UNREACHABLE])),
                after(0.1, taint(&[UNREACHABLE])),
            ],
        },
        Scenario {
            name: "node-recreated",
            about: "a tainted node is removed and comes back under its name without taints",
            steps: vec![
                create(node(LOST)),
                pod("never", json!([])),
                pod("while", for_a_minute()),
                after(1.0, taint(&[LEAVE])),
                after(20.0, delete(NODES, LOST)),
                after(10.0, What::Create(node(LOST))),
                settled(taint(&[LEAVE])),
            ],
        },
        Scenario {
            name: "orphans",
            about: "a node is removed with Pods that run, that are terminating and that somebody holds",
            steps: vec![
                create(node(LOST)),
                pod("running", json!([])),
                pod("terminating", json!([])),
                hold(pod("held", json!([]))),
                after(1.0, delete(PODS, "terminating")),
                settled(delete(NODES, LOST)),
                after(120.0, release("held")),
            ],
        },
        Scenario {
            name: "out-of-service",
            about: "an operator declares a node dead on which Pods are terminating, and on which a Pod runs",
            steps: vec![
                create(node(LOST)),
                pod("terminating", json!([])),
                pod("running", json!([])),
                pod("ever", for_ever()),
                after(1.0, delete(PODS, "terminating")),
                settled(taint(&[OUT_OF_SERVICE])),
            ],
        },
        Scenario {
            name: "held-for-ever",
            about: "finalizers that nobody removes keep a Pod of a removed node, a terminating Pod, and an ended Pod",
            steps: vec![
                create(node(LOST)),
                hold(pod("running", json!([]))),
                hold(pod("terminating", json!([]))),
                hold(pod("ended", json!([]))),
                after(1.0, delete(PODS, "terminating")),
                after(
                    1.0,
                    What::MergeStatus(PODS.to_owned(), "ended".to_owned(), json!({"status": {"phase": "Succeeded"}})),
                ),
                settled(delete(NODES, LOST)),
                after(120.0, What::merge(PODS, "running", json!({"metadata": {"annotations": {"note": "seen"}}}))),
            ],
        },
        Scenario {
            name: "unscheduled",
            about: "a Pod that was never scheduled is deleted while somebody holds it",
            steps: vec![
                hold(create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waiting"},
                    "spec": {"nodeSelector": {"sim.example.com/none": "here"},
                        "containers": [{"name": "c", "image": "img:1"}]}}))),
                after(1.0, delete(PODS, "waiting")),
                after(70.0, release("waiting")),
            ],
        },
        Scenario {
            name: "too-many-ended",
            about: "more Pods succeed than are kept",
            steps: ["a", "b", "c", "d", "e", "f"].map(short).into(),
        },
    ]
}

/// The node that things happen to, if it exists.
fn lost(world: &World) -> Option<&Value> {
    world.list(NODES).find(|node| name(node) == LOST).map(|node| &**node)
}

/// An operator taints the node for some seconds.
fn taint_a_node(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(node) = lost(world) else { return Vec::new() };
    let before = at(node, "/spec/taints").cloned().unwrap_or_default();
    let mut more = before.as_array().cloned().unwrap_or_default();
    more.push(json!({"key": "sim.example.com/other", "effect": "NoExecute"}));
    vec![
        (Duration::ZERO, What::merge(NODES, LOST, json!({"spec": {"taints": more}}))),
        (Duration::from_secs(1 + luck % 90), What::merge(NODES, LOST, json!({"spec": {"taints": before}}))),
    ]
}

/// An operator removes the taints of the node for some seconds.
fn untaint_a_node(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(node) = lost(world) else { return Vec::new() };
    let before = at(node, "/spec/taints").cloned().unwrap_or_default();
    vec![
        (Duration::ZERO, taint(&[])),
        (Duration::from_secs(1 + luck % 90), What::merge(NODES, LOST, json!({"spec": {"taints": before}}))),
    ]
}

/// A user lets a Pod tolerate everything.
fn tolerate(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let on_node = |pod: &&std::sync::Arc<Value>| text(pod, "/spec/nodeName") == LOST && !is_deleting(pod);
    let pods: Vec<_> = world.list(PODS).filter(on_node).collect();
    let Some(index) = usize::try_from(luck).unwrap_or(0).checked_rem(pods.len()) else { return Vec::new() };
    let mut all = vec![json!({"operator": "Exists"})];
    all.extend(at(pods[index], "/spec/tolerations").and_then(Value::as_array).into_iter().flatten().cloned());
    vec![(Duration::ZERO, What::merge(PODS, name(pods[index]), json!({"spec": {"tolerations": all}})))]
}

/// The node is removed and comes back after a while.
fn drop_node(world: &World, luck: u64) -> Vec<(Duration, What)> {
    if lost(world).is_none() {
        return Vec::new();
    }
    vec![(Duration::ZERO, delete(NODES, LOST)), (Duration::from_secs(1 + luck % 120), What::Create(node(LOST)))]
}
