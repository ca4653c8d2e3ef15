//! StatefulSets: the suites, and what users do at any moment.

use std::time::Duration;

use common::settings::TunableValue;
use serde_json::json;

use super::{
    replicaset::pod_interferences,
    statefulset_invariants::{INVARIANTS, LIMITED, ONE_BY_ONE, PROMISES},
};
use crate::{
    json::number,
    scenario::{Interference, Suite, Target, What},
    stage::NAMESPACE,
    world::World,
};

pub(super) const SUITE: Suite = Suite {
    name: "statefulset",
    programs: &[&statefulset_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    text: include_str!("statefulset.txt"),
    invariants: &[INVARIANTS, ONE_BY_ONE],
    promises: &[PROMISES],
    interferences: INTERFERENCES,
};

/// StatefulSets with everything turned on that operators can turn on.
pub(super) const MAX_UNAVAILABLE: Suite = Suite {
    name: "statefulset-max-unavailable",
    programs: &[&statefulset_controller::DEFINITION],
    tunes: &[("replace-stuck-pods", TunableValue::Switch(true))],
    gates: &[("MaxUnavailableStatefulSet", true)],
    text: SUITE.text,
    invariants: &[INVARIANTS, LIMITED],
    promises: &[PROMISES],
    interferences: INTERFERENCES,
};

pub(super) const INTERFERENCES: &[Interference] = &[
    Interference { name: "scale", act: scale },
    Interference { name: "delete-pod", act: pod_interferences::delete },
    Interference { name: "relabel-pod", act: pod_interferences::relabel },
    Interference { name: "take-pod", act: pod_interferences::take },
    Interference { name: "fail-pod", act: fail },
    Interference { name: "replace", act: replace },
];

pub(super) const STATEFUL_SETS: &str = "statefulsets.apps";
const REVISIONS: &str = "controllerrevisions.apps";
pub(super) const CLAIMS: &str = "persistentvolumeclaims";
const PODS: &str = "pods";
const WEB: &str = "web";

fn scaled(replicas: i64) -> What {
    What::merge(STATEFUL_SETS, WEB, json!({"spec": {"replicas": replicas}}))
}

fn failed(pod: &str) -> What {
    What::MergeStatus(Target::new(PODS, pod), json!({"status": {"phase": "Failed", "reason": "Evicted"}}))
}

pub(super) fn scale(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(set) = world.get(STATEFUL_SETS, NAMESPACE, WEB) else { return Vec::new() };
    let (size, other) = (number(set, "/spec/replicas"), i64::try_from(luck % 6).unwrap_or(0));
    vec![(Duration::ZERO, scaled(other)), (Duration::from_secs(luck % 20), scaled(size))]
}

fn fail(world: &World, luck: u64) -> Vec<(Duration, What)> {
    pod_interferences::one(world, luck).map(|pod| (Duration::ZERO, failed(&pod))).into_iter().collect()
}

/// A set is replaced by another one of its name; its Pods and revisions are deleted with it. A Pod that the controller created
/// for the old set meanwhile would keep its name from the new one until it is collected: a minute later all Pods are deleted
/// once more.
fn replace(world: &World, _luck: u64) -> Vec<(Duration, What)> {
    let Some(old) = world.get(STATEFUL_SETS, NAMESPACE, WEB) else { return Vec::new() };
    let again = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": WEB}, "spec": old["spec"]});
    let delete = What::delete(STATEFUL_SETS, WEB);
    let revisions = What::delete_all(REVISIONS, "app", WEB);
    let pods = What::delete_all(PODS, "app", WEB);
    let at_once = [delete, revisions, What::Create(again), pods.clone()];
    at_once.into_iter().map(|what| (Duration::ZERO, what)).chain([(Duration::from_secs(60), pods)]).collect()
}
