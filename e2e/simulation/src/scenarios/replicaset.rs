//! ReplicaSets: the suite, and what users do at any moment.

use std::time::Duration;

use serde_json::json;

use super::replicaset_invariants::{INVARIANTS, PROMISES};
use crate::{
    scenario::{Interference, Suite, What},
    stage::NAMESPACE,
    world::World,
};

pub(super) const SUITE: Suite = Suite {
    name: "replicaset",
    programs: &[&replicaset_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    text: include_str!("replicaset.txt"),
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "scale", act: scale },
        Interference { name: "delete-pod", act: pod_interferences::delete },
        Interference { name: "relabel-pod", act: pod_interferences::relabel },
        Interference { name: "fight", act: pod_interferences::fight },
        Interference { name: "replace", act: replace },
    ],
};

const REPLICA_SETS: &str = "replicasets.apps";
const PODS: &str = "pods";
const RS: &str = "rs";

fn scaled(replicas: i64) -> What {
    What::merge(REPLICA_SETS, RS, json!({"spec": {"replicas": replicas}}))
}

fn scale(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(set) = world.get(REPLICA_SETS, NAMESPACE, RS) else { return Vec::new() };
    let (size, other) = (set["spec"]["replicas"].as_i64().unwrap_or(1), i64::try_from(luck % 8).unwrap_or(0));
    vec![(Duration::ZERO, scaled(other)), (Duration::from_secs(luck % 20), scaled(size))]
}

/// A ReplicaSet is replaced by another one of its name, and its Pods go with it.
fn replace(world: &World, _luck: u64) -> Vec<(Duration, What)> {
    let Some(old) = world.get(REPLICA_SETS, NAMESPACE, RS) else { return Vec::new() };
    let pods = pod_interferences::owned(world);
    let gone = pods.into_iter().map(|pod| (Duration::ZERO, What::delete(PODS, &pod)));
    let again = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": RS}, "spec": old["spec"]});
    let delete = (Duration::ZERO, What::delete(REPLICA_SETS, RS));
    let again = (Duration::ZERO, What::Create(again));
    [delete, again].into_iter().chain(gone).collect()
}

/// What users do to Pods of any controller.
pub(super) mod pod_interferences {
    use std::time::Duration;

    use serde_json::json;

    use super::{PODS, What, World};
    use crate::json::{controller, is_deleting, name, text};

    pub(in crate::scenarios) fn owned(world: &World) -> Vec<String> {
        let owned = world.list(PODS).filter(|pod| controller(pod).is_some() && !is_deleting(pod));
        owned.map(|pod| name(pod).to_owned()).collect()
    }

    pub(in crate::scenarios) fn one(world: &World, luck: u64) -> Option<String> {
        let pods = owned(world);
        let index = usize::try_from(luck).unwrap_or(0).checked_rem(pods.len())?;
        pods.get(index).cloned()
    }

    pub(in crate::scenarios) fn delete(world: &World, luck: u64) -> Vec<(Duration, What)> {
        let pod = one(world, luck).into_iter();
        pod.map(|pod| (Duration::ZERO, What::delete(PODS, &pod))).collect()
    }

    /// A Pod leaves its controller by its label, and is deleted a while later.
    pub(in crate::scenarios) fn relabel(world: &World, luck: u64) -> Vec<(Duration, What)> {
        let Some(pod) = one(world, luck) else { return Vec::new() };
        let gone = What::merge(PODS, &pod, json!({"metadata": {"labels": {"app": "other"}}}));
        vec![(Duration::ZERO, gone), (Duration::from_secs(60), What::delete_now(PODS, &pod))]
    }

    /// A user takes a Pod away from its controller, to look into it, and deletes it a while later.
    pub(in crate::scenarios) fn take(world: &World, luck: u64) -> Vec<(Duration, What)> {
        let Some(pod) = one(world, luck) else { return Vec::new() };
        let taken = json!({"metadata": {"labels": {"app": "taken"}, "ownerReferences": null}});
        vec![(Duration::ZERO, What::merge(PODS, &pod, taken)), (Duration::from_secs(120), What::delete_now(PODS, &pod))]
    }

    /// Somebody takes a Pod's label away whenever it has it, eight times, faster and slower than a controller follows.
    pub(in crate::scenarios) fn fight(world: &World, luck: u64) -> Vec<(Duration, What)> {
        let Some(pod) = one(world, luck) else { return Vec::new() };
        let Some(own) = world.get(PODS, super::NAMESPACE, &pod).map(|p| text(p, "/metadata/labels/app").to_owned())
        else {
            return Vec::new();
        };
        let label = |app: &str| What::merge(PODS, &pod, json!({"metadata": {"labels": {"app": app}}}));
        (0..8u64)
            .flat_map(|round| {
                let wait = Duration::from_millis(5 + (luck >> round) % 200 * (round + 1));
                [(wait, label("other")), (wait, label(&own))]
            })
            .collect()
    }
}
