//! Nodes that renew their Leases, fall silent, report that they are not ready and come back, under the loops that judge them and
//! act on their Pods.

use std::time::Duration;

use node_lifecycle_controller::DEFINITION;
use serde_json::{Value, json};

use super::{
    node_health_invariants::{INVARIANTS, OF_ZONES, PROMISES},
    node_lifecycle_invariants::OF_EVICTION,
};
use crate::{
    json::name,
    scenario::{Interference, Suite, What},
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
    let names: Vec<&str> = world.list("nodes").map(|node| name(node)).collect();
    let node = names.get(usize::try_from(luck).unwrap_or(0).checked_rem(names.len())?)?;
    (world.silence(node, world.now()) < Duration::from_secs(15)).then(|| (*node).to_owned())
}

/// A node says nothing for a part of its grace period.
fn blink(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(node) = living(world, luck) else { return Vec::new() };
    vec![(Duration::ZERO, What::Silence(node.clone())), (Duration::from_secs(5 + luck % 30), What::Restore(node))]
}

/// A node reports for a while that it is not ready.
fn unready(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(node) = living(world, luck) else { return Vec::new() };
    let ready = |value| What::Condition(node.clone(), "Ready", value);
    vec![(Duration::ZERO, ready(false)), (Duration::from_secs(1 + luck % 90), ready(true))]
}

fn cordon(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(node) = living(world, luck) else { return Vec::new() };
    let unschedulable = |value| What::merge("nodes", &node, json!({"spec": {"unschedulable": value}}));
    vec![(Duration::ZERO, unschedulable(json!(true))), (Duration::from_secs(1 + luck % 90), unschedulable(Value::Null))]
}
