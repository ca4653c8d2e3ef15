//! Deployments: the suite, and what users do at any moment.

use std::time::Duration;

use serde_json::{Value, json};

use super::deployment_invariants::{INVARIANTS, PROMISES};
use super::replicaset::pod_interferences;
use crate::{
    json::{controller, name},
    scenario::{Interference, Suite, What},
    world::World,
};

pub(super) const SUITE: Suite = Suite {
    name: "deployment",
    programs: &[&deployment_controller::DEFINITION, &replicaset_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    text: include_str!("deployment.txt"),
    invariants: &[INVARIANTS, super::replicaset_invariants::INVARIANTS],
    promises: &[PROMISES, super::replicaset_invariants::PROMISES],
    interferences: &[
        Interference { name: "scale", act: scale },
        Interference { name: "pause", act: pause },
        Interference { name: "delete-pod", act: pod_interferences::delete },
        Interference { name: "relabel-pod", act: pod_interferences::relabel },
        Interference { name: "fight", act: pod_interferences::fight },
        Interference { name: "relabel-set", act: relabel_set },
        Interference { name: "delete-set", act: delete_set },
    ],
};

const DEPLOYMENTS: &str = "deployments.apps";
const REPLICA_SETS: &str = "replicasets.apps";
const WEB: &str = "web";

fn merge(patch: Value) -> What {
    What::merge(DEPLOYMENTS, WEB, patch)
}

fn scaled(replicas: i64) -> What {
    merge(json!({"spec": {"replicas": replicas}}))
}

fn size(world: &World) -> Option<i64> {
    world.get(DEPLOYMENTS, crate::stage::NAMESPACE, WEB)?["spec"]["replicas"].as_i64()
}

fn scale(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(size) = size(world) else { return Vec::new() };
    let other = i64::try_from(luck % 8).unwrap_or(0);
    vec![(Duration::ZERO, scaled(other)), (Duration::from_secs(luck % 20), scaled(size))]
}

fn pause(world: &World, luck: u64) -> Vec<(Duration, What)> {
    if size(world).is_none() {
        return Vec::new();
    }
    let paused = |paused: bool| merge(json!({"spec": {"paused": paused}}));
    vec![(Duration::ZERO, paused(true)), (Duration::from_secs(luck % 30), paused(false))]
}

fn owned(world: &World, luck: u64) -> Option<String> {
    let owned: Vec<_> = world.list(REPLICA_SETS).filter(|set| controller(set).is_some()).collect();
    let index = usize::try_from(luck).unwrap_or(0).checked_rem(owned.len())?;
    Some(name(owned[index]).to_owned())
}

fn relabel_set(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(set) = owned(world, luck) else { return Vec::new() };
    let label = |app: &str| What::merge(REPLICA_SETS, &set, json!({"metadata": {"labels": {"app": app}}}));
    vec![(Duration::ZERO, label("other")), (Duration::from_secs(luck % 30), label(WEB))]
}

/// A ReplicaSet is deleted, and its Pods with it, as the garbage collector would.
fn delete_set(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(set) = owned(world, luck) else { return Vec::new() };
    let pods = world.list("pods").filter(|pod| controller(pod).is_some_and(|c| c["name"] == *set));
    let pods = pods.map(|pod| (Duration::ZERO, What::delete("pods", name(pod))));
    std::iter::once((Duration::ZERO, What::delete(REPLICA_SETS, &set))).chain(pods).collect()
}
