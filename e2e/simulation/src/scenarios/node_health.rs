//! Nodes that renew their Leases, fall silent, report that they are not ready and come back, under the loops that judge them and
//! act on their Pods.

use std::time::Duration;

use node_lifecycle_controller::DEFINITION;
use serde_json::{Value, json};

use super::{
    interferences::{later, one_of},
    node_health_invariants::{INVARIANTS, OF_ZONES, PROMISES},
    node_lifecycle_invariants::OF_EVICTION,
};
use crate::{
    json::name,
    scenario::{Deeds, Interference, Suite, What},
    world::World,
};

/// The health of nodes, with taint eviction and Pod garbage collection. Each node has a zone of its own.
pub(super) const SUITE: Suite = Suite {
    name: "node-health",
    programs: &[&DEFINITION],
    tunes: &[],
    gates: &[],
    text: include_str!("node_health.txt"),
    invariants: &[INVARIANTS, OF_ZONES, OF_EVICTION],
    promises: &[PROMISES],
    interferences: INTERFERENCES,
};

pub(super) const INTERFERENCES: &[Interference] = &[
    Interference { name: "blink", act: blink },
    Interference { name: "unready", act: unready },
    Interference { name: "cordon", act: cordon },
];

fn living(world: &World, luck: u64) -> Option<String> {
    let node = one_of(world.list("nodes").map(|node| name(node)).collect(), luck)?;
    (world.silence(node, world.now()) < Duration::from_secs(15)).then(|| node.to_owned())
}

fn blink(world: &World, luck: u64) -> Deeds {
    let node = living(world, luck)?;
    later(What::Silence(node.clone()), 5 + luck % 30, What::Restore(node))
}

fn unready(world: &World, luck: u64) -> Deeds {
    let node = living(world, luck)?;
    let ready = |value| What::Condition(node.clone(), "Ready", value);
    later(ready(false), 1 + luck % 90, ready(true))
}

fn cordon(world: &World, luck: u64) -> Deeds {
    let node = living(world, luck)?;
    let unschedulable = |value| What::merge("nodes", &node, json!({"spec": {"unschedulable": value}}));
    later(unschedulable(json!(true)), 1 + luck % 90, unschedulable(Value::Null))
}
