//! What users do with Deployments.

use std::time::Duration;

use sandbox::{Operation, Webhook};
use serde_json::{Value, json};

use super::deployment_invariants::{INVARIANTS, PROMISES};
use super::replicaset::{pod_interferences, quota};
use crate::{
    json::{controller, name},
    scenario::{Interference, Scenario, Step, Suite, What, When, after, settled},
    world::World,
};

/// Deployments, with the ReplicaSet controller below them.
pub(super) const SUITE: Suite = Suite {
    name: "deployment",
    programs: &[&deployment_controller::DEFINITION, &replicaset_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    scenarios,
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

/// A template with that image, of Pods that take a second to be ready and two to end.
fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": WEB}, "annotations": {"sim/ready-after": "1", "sim/terminate-after": "2"}},
        "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn deployment(replicas: i64, strategy: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": WEB},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": WEB}}, "strategy": strategy,
            "template": template("img:1")}})
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

fn create(deployment: Value) -> Step {
    after(0.1, What::Create(deployment))
}

fn merge(patch: Value) -> What {
    What::merge(DEPLOYMENTS, WEB, patch)
}

fn image(image: &str) -> What {
    merge(json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}))
}

fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "rollout-surge",
            about: "a rollout that may surge by two and must not be short of a Pod",
            steps: vec![create(deployment(4, rolling(json!(2), json!(0)))), settled(image("img:2"))],
        },
        Scenario {
            name: "rollout-unavailable",
            about: "a rollout that must not surge and may be short of two Pods",
            steps: vec![create(deployment(5, rolling(json!(0), json!(2)))), settled(image("img:2"))],
        },
        Scenario {
            name: "scale-during-rollout",
            about: "a rollout in the midst of which the Deployment grows and shrinks",
            steps: vec![
                create(deployment(4, rolling(json!("25%"), json!("25%")))),
                settled(image("img:2")),
                Step { when: When::Reaches(DEPLOYMENTS, WEB, "/status/updatedReplicas", 1), what: scaled(7) },
                after(2.0, scaled(3)),
            ],
        },
        Scenario {
            name: "pause-resume",
            about: "a Deployment that is paused, changed, scaled and resumed",
            steps: vec![
                create(deployment(3, rolling(json!(1), json!(0)))),
                settled(merge(json!({"spec": {"paused": true}}))),
                after(2.0, image("img:2")),
                after(2.0, scaled(5)),
                after(20.0, merge(json!({"spec": {"paused": null}}))),
            ],
        },
        Scenario {
            name: "rollback",
            about: "a rollout that gets stuck and is undone, and one that is rolled back by the old annotation",
            steps: vec![
                create(deployment(3, rolling(json!(1), json!(1)))),
                settled(stuck("img:2")),
                Step { when: When::Reaches(DEPLOYMENTS, WEB, "/status/updatedReplicas", 1), what: unstuck("img:1") },
                settled(image("img:3")),
                settled(merge(json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "0"}}}))),
            ],
        },
        Scenario {
            name: "recreate",
            about: "the strategy Recreate: no new Pod before the last old one has ended",
            steps: vec![create(deployment(3, json!({"type": "Recreate"}))), settled(image("img:2"))],
        },
        Scenario {
            name: "adoption",
            about: "ReplicaSets and Pods that were there before, one of which is released again",
            steps: vec![
                after(0.1, What::Create(set("web-old", "img:0", 2))),
                settled(What::Create(deployment(3, rolling(json!(1), json!(0))))),
                settled(What::merge(REPLICA_SETS, "web-old", json!({"metadata": {"labels": {"app": "other"}}}))),
            ],
        },
        Scenario {
            name: "orphaning",
            about: "a Deployment is deleted and its ReplicaSet is left to be nobody's",
            steps: vec![
                create(deployment(2, rolling(json!(1), json!(0)))),
                Step { when: When::Reaches(DEPLOYMENTS, WEB, "/status/availableReplicas", 2), what: noted() },
                after(5.0, What::Delete(DEPLOYMENTS.into(), WEB.into(), json!({"propagationPolicy": "Orphan"}))),
                // As the garbage collector does it.
                after(
                    1.0,
                    What::MergeAll(
                        REPLICA_SETS.into(),
                        "app".into(),
                        WEB.into(),
                        json!({"metadata": {"ownerReferences": null}}),
                    ),
                ),
                after(90.0, merge(json!({"metadata": {"finalizers": null}}))),
            ],
        },
        Scenario {
            name: "quota",
            about: "a rollout whose Pods a quota refuses, until there is more of it",
            steps: vec![
                after(0.1, What::Create(quota("5"))),
                after(0.1, What::Create(deployment(4, rolling(json!(2), json!(0))))),
                settled(image("img:2")),
                Step { when: When::Reaches(DEPLOYMENTS, WEB, "/status/updatedReplicas", 4), what: noted() },
                settled(scaled(7)),
                after(300.0, What::merge("resourcequotas", "pods", json!({"spec": {"hard": {"pods": "20"}}}))),
            ],
        },
        Scenario {
            name: "denied",
            about: "a rollout whose ReplicaSets a webhook does not let anybody change for five minutes",
            steps: vec![
                create(deployment(2, rolling(json!(1), json!(0)))),
                settled(What::Webhook(
                    Webhook::new("policy.example.com", Operation::Update, "replicasets").denies(403, "not now"),
                )),
                after(0.1, image("img:2")),
                after(300.0, What::NoWebhook("policy.example.com")),
            ],
        },
        Scenario {
            name: "mutated",
            about: "a rollout whose ReplicaSets and Pods are changed by webhooks as they are created",
            steps: vec![
                after(0.1, injected("replicasets", "/metadata/labels/injected", json!("yes"))),
                after(0.1, injected("pods", "/spec/containers/-", json!({"name": "proxy", "image": "proxy:1"}))),
                create(deployment(2, rolling(json!(1), json!(0)))),
                settled(image("img:2")),
            ],
        },
        Scenario {
            name: "history",
            about: "three rollouts of a Deployment that keeps one old ReplicaSet",
            steps: {
                let mut kept = deployment(2, rolling(json!(1), json!(0)));
                kept["spec"]["revisionHistoryLimit"] = json!(1);
                vec![create(kept), settled(image("img:2")), settled(image("img:3")), settled(image("img:4"))]
            },
        },
    ]
}

/// A label that means nothing to anybody.
fn noted() -> What {
    merge(json!({"metadata": {"labels": {"note": "updated"}}}))
}

/// A webhook that adds something to whatever is created of a resource.
fn injected(resource: &str, path: &str, value: Value) -> What {
    let patch = json!([{"op": "add", "path": path, "value": value}]);
    What::Webhook(Webhook::new("inject.example.com", Operation::Create, resource).patches(patch))
}

fn scaled(replicas: i64) -> What {
    merge(json!({"spec": {"replicas": replicas}}))
}

fn stuck(image: &str) -> What {
    merge(json!({"spec": {"template": {"metadata": {"annotations": {"sim/never-ready": "true"}},
        "spec": {"containers": [{"name": "c", "image": image}]}}}}))
}

fn unstuck(image: &str) -> What {
    merge(json!({"spec": {"template": {"metadata": {"annotations": {"sim/never-ready": null}},
        "spec": {"containers": [{"name": "c", "image": image}]}}}}))
}

/// A ReplicaSet that nobody controls.
fn set(name: &str, image: &str, replicas: i64) -> Value {
    let mut template = template(image);
    template["metadata"]["labels"]["track"] = json!("old");
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "labels": {"app": WEB}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": WEB, "track": "old"}}, "template": template}})
}

/// The Deployment's present size.
fn size(world: &World) -> Option<i64> {
    world.get(DEPLOYMENTS, super::super::stage::NAMESPACE, WEB)?["spec"]["replicas"].as_i64()
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

/// A ReplicaSet of the Deployment.
fn owned(world: &World, luck: u64) -> Option<String> {
    let owned: Vec<_> = world.list(REPLICA_SETS).filter(|set| controller(set).is_some()).collect();
    let index = usize::try_from(luck).unwrap_or(0).checked_rem(owned.len())?;
    Some(name(owned[index]).to_owned())
}

/// A ReplicaSet loses its label, and gets it back.
fn relabel_set(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(set) = owned(world, luck) else { return Vec::new() };
    let label = |app: &str| What::merge(REPLICA_SETS, &set, json!({"metadata": {"labels": {"app": app}}}));
    vec![(Duration::ZERO, label("other")), (Duration::from_secs(luck % 30), label(WEB))]
}

/// A ReplicaSet is deleted, and its Pods with it, as the garbage collector would.
fn delete_set(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(set) = owned(world, luck) else { return Vec::new() };
    let pods = world.list("pods").filter(|pod| controller(pod).is_some_and(|c| c["name"] == *set));
    let pods = pods.map(|pod| (Duration::ZERO, What::Delete("pods".to_owned(), name(pod).to_owned(), json!({}))));
    std::iter::once((Duration::ZERO, What::Delete(REPLICA_SETS.to_owned(), set.clone(), json!({}))))
        .chain(pods)
        .collect()
}
