//! What users and operators do with nodes and with the Pods on them.

use std::sync::Arc;

use common::{app::ProgramDefinition, settings::TunableValue};
use node_lifecycle_controller::{DEFINITION, eviction::TAINT_EVICTION_LOOP, garbage::POD_GARBAGE_COLLECTOR_LOOP};
use serde_json::{Value, json};

use super::{
    interferences::{at_once, later, one_of},
    node_lifecycle_invariants::{INVARIANTS, OF_EVICTION, PROMISES, THRESHOLD},
};
use crate::{
    json::{at, is_deleting, items, name, text},
    scenario::{Deeds, Interference, Suite, What},
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
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "spec": {"taints": taints()}})
}

fn taints() -> Value {
    json!([{"key": NOT_READY, "effect": "NoSchedule"}])
}

fn tainted(taints: Value) -> What {
    What::merge(NODES, LOST, json!({"spec": {"taints": taints}}))
}

/// The taints of the node; `None` if it does not exist.
fn taints_of_lost(world: &World) -> Option<Value> {
    let node = world.list(NODES).find(|node| name(node) == LOST)?;
    Some(at(node, "/spec/taints").cloned().unwrap_or_default())
}

fn taint_a_node(world: &World, luck: u64) -> Deeds {
    let before = taints_of_lost(world)?;
    let mut more = before.as_array().cloned().unwrap_or_default();
    more.push(json!({"key": "sim.example.com/other", "effect": "NoExecute"}));
    later(tainted(json!(more)), 1 + luck % 90, tainted(before))
}

fn untaint_a_node(world: &World, luck: u64) -> Deeds {
    let before = taints_of_lost(world)?;
    later(tainted(taints()), 1 + luck % 90, tainted(before))
}

fn tolerate(world: &World, luck: u64) -> Deeds {
    let on_node = |pod: &&Arc<Value>| text(pod, "/spec/nodeName") == LOST && !is_deleting(pod);
    let pod = one_of(world.list(PODS).filter(on_node).collect(), luck)?;
    let mut all = vec![json!({"operator": "Exists"})];
    all.extend(items(pod, "/spec/tolerations").iter().cloned());
    at_once([What::merge(PODS, name(pod), json!({"spec": {"tolerations": all}}))])
}

fn drop_node(world: &World, luck: u64) -> Deeds {
    taints_of_lost(world)?;
    later(What::delete(NODES, LOST), 1 + luck % 120, What::Create(node(LOST)))
}
