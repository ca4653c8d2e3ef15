//! What users and operators do with nodes and with the Pods on them.

use std::time::Duration;

use common::{app::ProgramDefinition, settings::TunableValue};
use node_lifecycle_controller::{DEFINITION, eviction::TAINT_EVICTION_LOOP, garbage::POD_GARBAGE_COLLECTOR_LOOP};
use serde_json::{Value, json};

use super::node_lifecycle_invariants::{INVARIANTS, OF_EVICTION, PROMISES, THRESHOLD};
use crate::{
    json::{at, is_deleting, name, text},
    scenario::{Interference, Suite, What},
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
    text: include_str!("node_lifecycle.txt"),
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
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// A node that nothing is scheduled to.
fn node(node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "spec": {"taints": taints(&[])}})
}

fn taints(keys: &[&str]) -> Value {
    let evicting = keys.iter().map(|key| json!({"key": key, "effect": "NoExecute"}));
    std::iter::once(json!({"key": NOT_READY, "effect": "NoSchedule"})).chain(evicting).collect()
}

fn taint(keys: &[&str]) -> What {
    What::merge(NODES, LOST, json!({"spec": {"taints": taints(keys)}}))
}

fn lost(world: &World) -> Option<&Value> {
    world.list(NODES).find(|node| name(node) == LOST).map(|node| &**node)
}

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

fn untaint_a_node(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(node) = lost(world) else { return Vec::new() };
    let before = at(node, "/spec/taints").cloned().unwrap_or_default();
    vec![
        (Duration::ZERO, taint(&[])),
        (Duration::from_secs(1 + luck % 90), What::merge(NODES, LOST, json!({"spec": {"taints": before}}))),
    ]
}

fn tolerate(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let on_node = |pod: &&std::sync::Arc<Value>| text(pod, "/spec/nodeName") == LOST && !is_deleting(pod);
    let pods: Vec<_> = world.list(PODS).filter(on_node).collect();
    let Some(index) = usize::try_from(luck).unwrap_or(0).checked_rem(pods.len()) else { return Vec::new() };
    let mut all = vec![json!({"operator": "Exists"})];
    all.extend(at(pods[index], "/spec/tolerations").and_then(Value::as_array).into_iter().flatten().cloned());
    vec![(Duration::ZERO, What::merge(PODS, name(pods[index]), json!({"spec": {"tolerations": all}})))]
}

fn drop_node(world: &World, luck: u64) -> Vec<(Duration, What)> {
    if lost(world).is_none() {
        return Vec::new();
    }
    vec![(Duration::ZERO, What::delete(NODES, LOST)), (Duration::from_secs(1 + luck % 120), What::Create(node(LOST)))]
}
