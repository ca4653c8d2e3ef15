//! What users do with ReplicaSets.

use std::time::Duration;

use serde_json::{Value, json};

use super::replicaset_invariants::{INVARIANTS, PROMISES};
use crate::{
    scenario::{Interference, Scenario, Step, Suite, What, When, after, settled},
    stage::NAMESPACE,
    world::World,
};

/// ReplicaSets on their own.
pub(super) const SUITE: Suite = Suite {
    name: "replicaset",
    programs: &[&replicaset_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    scenarios,
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

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}, "annotations": {"sim/ready-after": "1", "sim/terminate-after": "2"}},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}})
}

fn set(replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": RS},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template()}})
}

fn stray(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "img:0"}]}})
}

/// A Pod that is the last to be deleted.
fn precious(mut pod: Value) -> Value {
    pod["metadata"]["annotations"] = json!({"controller.kubernetes.io/pod-deletion-cost": "100"});
    pod
}

/// A quota of Pods.
pub(super) fn quota(pods: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"}, "spec": {"hard": {"pods": pods}}})
}

fn scaled(replicas: i64) -> What {
    What::merge(REPLICA_SETS, RS, json!({"spec": {"replicas": replicas}}))
}

fn create(object: Value) -> Step {
    after(0.1, What::Create(object))
}

fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "scale",
            about: "a ReplicaSet grows and shrinks, once before it has got there",
            steps: vec![
                create(set(3)),
                settled(scaled(9)),
                after(0.5, scaled(2)),
                settled(scaled(0)),
                settled(scaled(4)),
            ],
        },
        Scenario {
            name: "adoption-and-release",
            about: "Pods that were there before are adopted; one leaves by its labels; there are too many then",
            steps: vec![
                create(stray("stray-1")),
                create(precious(stray("stray-2"))),
                settled(What::Create(set(3))),
                settled(What::merge(PODS, "stray-1", json!({"metadata": {"labels": {"app": "other"}}}))),
                settled(scaled(1)),
                settled(What::merge(PODS, "stray-1", json!({"metadata": {"labels": {"app": "web"}}}))),
            ],
        },
        Scenario {
            name: "orphaning",
            about: "a ReplicaSet is deleted and its Pods are left to be nobody's",
            steps: vec![
                create(set(3)),
                Step { when: When::Reaches(REPLICA_SETS, RS, "/status/readyReplicas", 3), what: noted() },
                after(5.0, What::Delete(REPLICA_SETS.into(), RS.into(), json!({"propagationPolicy": "Orphan"}))),
                // As the garbage collector does it.
                after(1.0, What::MergeAll(PODS.into(), "app".into(), "web".into(), orphaned())),
                after(90.0, What::merge(REPLICA_SETS, RS, json!({"metadata": {"finalizers": null}}))),
            ],
        },
        Scenario {
            name: "quota",
            about: "a quota refuses Pods until there is more of it",
            steps: vec![
                create(quota("3")),
                create(set(6)),
                after(400.0, What::merge("resourcequotas", "pods", json!({"spec": {"hard": {"pods": "20"}}}))),
            ],
        },
        Scenario {
            name: "failing-pods",
            about: "Pods that end are replaced, and are nobody's business then",
            steps: {
                let mut failing = set(3);
                failing["spec"]["template"]["metadata"]["annotations"]["sim/unready-after"] = json!("20");
                failing["spec"]["template"]["metadata"]["annotations"]["sim/unready-for"] = json!("20");
                vec![create(failing), after(15.0, scaled(5)), after(12.0, scaled(2))]
            },
        },
    ]
}

/// A change that means nothing to anybody.
fn noted() -> What {
    What::merge(REPLICA_SETS, RS, json!({"metadata": {"annotations": {"note": "ready"}}}))
}

fn orphaned() -> Value {
    json!({"metadata": {"ownerReferences": null}})
}

fn scale(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(set) = world.get(REPLICA_SETS, NAMESPACE, RS) else { return Vec::new() };
    let (size, other) = (set["spec"]["replicas"].as_i64().unwrap_or(1), i64::try_from(luck % 8).unwrap_or(0));
    vec![(Duration::ZERO, scaled(other)), (Duration::from_secs(luck % 20), scaled(size))]
}

/// A ReplicaSet is replaced by another one of its name, and its Pods go with it.
fn replace(world: &World, _luck: u64) -> Vec<(Duration, What)> {
    let Some(old) = world.get(REPLICA_SETS, NAMESPACE, RS) else { return Vec::new() };
    let size = old["spec"]["replicas"].as_i64().unwrap_or(1);
    let pods = pod_interferences::owned(world);
    let gone = pods.into_iter().map(|pod| (Duration::ZERO, What::Delete(PODS.to_owned(), pod, json!({}))));
    let delete = (Duration::ZERO, What::Delete(REPLICA_SETS.to_owned(), RS.to_owned(), json!({})));
    let again = (Duration::ZERO, What::Create(set(size)));
    [delete, again].into_iter().chain(gone).collect()
}

/// What users do to Pods of any controller.
pub(super) mod pod_interferences {
    use std::time::Duration;

    use serde_json::json;

    use super::{PODS, What, World};
    use crate::json::{controller, is_deleting, name, text};

    /// The names of Pods that have a controller.
    pub(in crate::scenarios) fn owned(world: &World) -> Vec<String> {
        let owned = world.list(PODS).filter(|pod| controller(pod).is_some() && !is_deleting(pod));
        owned.map(|pod| name(pod).to_owned()).collect()
    }

    /// The name of one of them.
    pub(in crate::scenarios) fn one(world: &World, luck: u64) -> Option<String> {
        let pods = owned(world);
        let index = usize::try_from(luck).unwrap_or(0).checked_rem(pods.len())?;
        pods.get(index).cloned()
    }

    /// A Pod is deleted.
    pub(in crate::scenarios) fn delete(world: &World, luck: u64) -> Vec<(Duration, What)> {
        let pod = one(world, luck).into_iter();
        pod.map(|pod| (Duration::ZERO, What::Delete(PODS.to_owned(), pod, json!({})))).collect()
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
