//! Deployments: the suite, and what users do at any moment.

use serde_json::json;

use super::{
    deployment_invariants::{INVARIANTS, PROMISES},
    interferences::{at_once, delete_pod, fight, later, one_of, relabel_pod, scale},
};
use crate::{
    json::{controller, name},
    scenario::{Deeds, Interference, Suite, What},
    stage::NAMESPACE,
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
        Interference { name: "scale", act: |world, luck| scale(world, luck, (DEPLOYMENTS, WEB), "replicas", 8) },
        Interference { name: "pause", act: pause },
        Interference { name: "delete-pod", act: delete_pod },
        Interference { name: "relabel-pod", act: relabel_pod },
        Interference { name: "fight", act: fight },
        Interference { name: "relabel-set", act: relabel_set },
        Interference { name: "delete-set", act: delete_set },
    ],
};

const DEPLOYMENTS: &str = "deployments.apps";
const REPLICA_SETS: &str = "replicasets.apps";
const WEB: &str = "web";

fn pause(world: &World, luck: u64) -> Deeds {
    world.get(DEPLOYMENTS, NAMESPACE, WEB)?;
    let paused = |paused: bool| What::merge(DEPLOYMENTS, WEB, json!({"spec": {"paused": paused}}));
    later(paused(true), luck % 30, paused(false))
}

fn owned(world: &World, luck: u64) -> Option<&str> {
    let owned = world.list(REPLICA_SETS).filter(|set| controller(set).is_some());
    one_of(owned.map(|set| name(set)).collect(), luck)
}

fn relabel_set(world: &World, luck: u64) -> Deeds {
    let set = owned(world, luck)?;
    let label = |app: &str| What::merge(REPLICA_SETS, set, json!({"metadata": {"labels": {"app": app}}}));
    later(label("other"), luck % 30, label(WEB))
}

/// A ReplicaSet is deleted, and its Pods with it, as the garbage collector would.
fn delete_set(world: &World, luck: u64) -> Deeds {
    let set = owned(world, luck)?;
    let pods = world.list("pods").filter(|pod| controller(pod).is_some_and(|c| c["name"] == set));
    at_once([What::delete(REPLICA_SETS, set)].into_iter().chain(pods.map(|pod| What::delete("pods", name(pod)))))
}
