//! What users do with StatefulSets.

use std::time::Duration;

use common::settings::TunableValue;
use serde_json::{Value, json};

use super::{
    replicaset::{pod_interferences, quota},
    statefulset_invariants::{INVARIANTS, LIMITED, ONE_BY_ONE, PROMISES},
};
use crate::{
    json::number,
    scenario::{Interference, Scenario, Step, Suite, What, When, after, settled},
    stage::NAMESPACE,
    world::World,
};

/// StatefulSets with the defaults of the controller.
pub(super) const SUITE: Suite = Suite {
    name: "statefulset",
    programs: &[&statefulset_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    scenarios,
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
    scenarios: limited,
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
pub(super) const PODS: &str = "pods";
pub(super) const WEB: &str = "web";

fn template(name: &str) -> Value {
    json!({"metadata": {"labels": {"app": name}, "annotations": {"sim/ready-after": "1", "sim/terminate-after": "2"}},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}})
}

/// A set of that name and size; `spec` adds to its specification or replaces parts of it.
pub(super) fn set(name: &str, replicas: i64, spec: Value) -> Value {
    let mut set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {"replicas": replicas, "serviceName": name, "selector": {"matchLabels": {"app": name}},
            "template": template(name)}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        set["spec"][field] = value.clone();
    }
    set
}

pub(super) fn parallel() -> Value {
    json!({"podManagementPolicy": "Parallel"})
}

/// A claim for each Pod, with that retention policy.
pub(super) fn with_claims(when_deleted: &str, when_scaled: &str) -> Value {
    let template = json!({"metadata": {"name": "data", "labels": {"app": WEB}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    json!({"volumeClaimTemplates": [template],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": when_deleted, "whenScaled": when_scaled}})
}

fn strategy(rolling: Value) -> Value {
    json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}})
}

pub(super) fn changed(spec: Value) -> What {
    What::merge(STATEFUL_SETS, WEB, json!({ "spec": spec }))
}

pub(super) fn scaled(replicas: i64) -> What {
    changed(json!({ "replicas": replicas }))
}

/// Another image, with annotations for the Pods.
fn image(image: &str, annotations: Value) -> What {
    changed(json!({"template": {"metadata": {"annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": image}]}}}))
}

fn rolled_out(version: &str) -> What {
    image(version, json!({}))
}

/// Another image while a rolling update is under way. Every template that was rolled out leaves a revision, so the controller
/// must have seen the one before, or the end would rightly be another one.
fn overtaken(version: &str) -> Step {
    Step { when: When::Reaches(STATEFUL_SETS, WEB, "/status/updatedReplicas", 1), what: rolled_out(version) }
}

pub(super) fn create(object: Value) -> Step {
    after(0.1, What::Create(object))
}

fn stray(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": WEB}},
        "spec": {"containers": [{"name": "c", "image": "img:0"}]}})
}

fn labelled(pod: &str, labels: Value) -> What {
    What::merge(PODS, pod, json!({"metadata": {"labels": labels}}))
}

/// Makes a Pod fail, as a node does that evicts it.
fn failed(pod: &str) -> What {
    What::MergeStatus(PODS.to_owned(), pod.to_owned(), json!({"status": {"phase": "Failed", "reason": "Evicted"}}))
}

/// Deletes a claim together with the finalizer that protects it, as the controllers do whose work that is.
fn collected(claim: &str) -> [Step; 2] {
    [
        settled(What::merge(CLAIMS, claim, json!({"metadata": {"finalizers": null}}))),
        after(0.1, What::Delete(CLAIMS.to_owned(), claim.to_owned(), json!({}))),
    ]
}

fn scenarios() -> Vec<Scenario> {
    let mut scenarios = vec![
        Scenario {
            name: "ordered",
            about: "an ordered set grows and shrinks, once before it has got there",
            steps: vec![create(set(WEB, 2, json!({}))), settled(scaled(4)), after(2.5, scaled(1)), settled(scaled(3))],
        },
        Scenario {
            name: "parallel",
            about: "a set whose Pods do not wait grows, shrinks, and is rolled out",
            steps: vec![
                create(set(WEB, 5, parallel())),
                settled(scaled(2)),
                settled(rolled_out("img:2")),
                after(1.5, scaled(4)),
            ],
        },
        Scenario {
            name: "rollout-partition",
            about: "a rollout above a partition, the partition removed, and back to the first template",
            steps: vec![
                create(set(WEB, 3, strategy(json!({"partition": 2})))),
                settled(rolled_out("img:2")),
                settled(What::delete_now(PODS, "web-0")),
                settled(changed(strategy(json!({"partition": 0})))),
                settled(rolled_out("img:1")),
            ],
        },
        Scenario {
            name: "rollouts-overlap",
            about: "a rollout that is replaced by another one, with a history of one",
            steps: vec![
                create(set(WEB, 3, json!({"revisionHistoryLimit": 1}))),
                settled(rolled_out("img:2")),
                overtaken("img:3"),
                settled(rolled_out("img:4")),
            ],
        },
        Scenario {
            name: "on-delete",
            about: "a new template reaches only the Pods that users delete",
            steps: vec![
                create(set(WEB, 2, json!({"updateStrategy": {"type": "OnDelete"}}))),
                settled(rolled_out("img:2")),
                settled(What::delete_now(PODS, "web-1")),
                settled(scaled(3)),
            ],
        },
        Scenario {
            name: "forced-rollback",
            about: "a template whose Pods never become ready is given up, and a user deletes the Pod that it left",
            steps: vec![
                create(set(WEB, 2, json!({}))),
                settled(image("img:broken", json!({"sim/never-ready": "true"}))),
                settled(image("img:1", json!({"sim/never-ready": null}))),
                settled(What::delete_now(PODS, "web-1")),
            ],
        },
        Scenario {
            name: "failed-pods",
            about: "Pods fail, one of them while another is replaced",
            steps: vec![
                create(set(WEB, 3, json!({}))),
                settled(failed("web-1")),
                settled(rolled_out("img:2")),
                after(1.0, failed("web-0")),
            ],
        },
        Scenario {
            name: "ordinals",
            about: "the range of ordinals moves up and down again",
            steps: vec![
                create(set(WEB, 2, json!({"ordinals": {"start": 1}}))),
                settled(changed(json!({"ordinals": {"start": 2}}))),
                settled(changed(json!({"ordinals": {"start": 0}}))),
            ],
        },
        Scenario {
            name: "adoption-and-release",
            about: "a Pod of the right name is adopted, leaves by its label, and makes room",
            steps: vec![
                create(stray("web-1")),
                create(stray("web-x")),
                settled(What::Create(set(WEB, 2, json!({"updateStrategy": {"type": "OnDelete"}})))),
                settled(What::merge(PODS, "web-1", json!({"metadata": {"labels": {"app": "other"}}}))),
                after(5.0, What::delete_now(PODS, "web-1")),
            ],
        },
        Scenario {
            name: "labels",
            about: "a Pod loses the label of its name, then all labels, and gets those of the template back",
            steps: vec![
                create(set(WEB, 2, json!({"updateStrategy": {"type": "OnDelete"}}))),
                settled(labelled("web-1", json!({"statefulset.kubernetes.io/pod-name": null}))),
                settled(labelled("web-0", Value::Null)),
                after(30.0, labelled("web-0", json!({"app": WEB}))),
            ],
        },
        Scenario {
            name: "set-orphaning",
            about: "a set is deleted, and its Pods and revisions are left without an owner",
            steps: orphaning(),
        },
        Scenario {
            name: "pod-quota",
            about: "a quota refuses Pods until it is raised",
            steps: vec![
                create(quota("1")),
                create(set(WEB, 3, with_claims("Delete", "Retain"))),
                after(400.0, What::merge("resourcequotas", "pods", json!({"spec": {"hard": {"pods": "20"}}}))),
            ],
        },
        Scenario {
            name: "min-ready",
            about: "Pods are available only after they were ready for some seconds",
            steps: vec![
                create(set(WEB, 2, json!({"minReadySeconds": 10}))),
                settled(rolled_out("img:2")),
                settled(scaled(3)),
            ],
        },
        Scenario {
            name: "hostile-neighbour",
            about: "a set of two thousand million replicas that never becomes ready, beside an ordinary one",
            steps: {
                let mut hostile = set("hostile", i64::from(i32::MAX), with_claims("Delete", "Delete"));
                hostile["spec"]["template"]["metadata"]["annotations"] = json!({"sim/never-ready": "true"});
                hostile["spec"]["ordinals"] = json!({"start": 7});
                vec![create(hostile), create(set(WEB, 2, json!({}))), settled(rolled_out("img:2")), settled(scaled(3))]
            },
        },
    ];
    scenarios.extend(RETENTION.map(|(name, when_deleted, when_scaled)| Scenario {
        name,
        about: "claims follow their retention policy while the set shrinks and grows",
        steps: retention(when_deleted, when_scaled),
    }));
    scenarios
}

/// All combinations of the retention policy: scenario, `whenDeleted`, `whenScaled`.
const RETENTION: [(&str, &str, &str); 4] = [
    ("claims-retained", "Retain", "Retain"),
    ("claims-deleted-with-the-set", "Delete", "Retain"),
    ("claims-deleted-with-pods", "Retain", "Delete"),
    ("claims-deleted-with-either", "Delete", "Delete"),
];

/// A set shrinks and grows again. In between the claim that belongs to a deleted Pod is deleted. In the end the policy changes.
fn retention(when_deleted: &str, when_scaled: &str) -> Vec<Step> {
    let mut steps = vec![create(set(WEB, 2, with_claims(when_deleted, when_scaled))), settled(scaled(1))];
    if when_scaled == "Delete" {
        // Growing at once: the ordinal must wait for the old claim to go.
        steps.push(settled(scaled(2)));
        steps.extend(collected("data-web-1"));
    } else {
        steps.push(settled(scaled(2)));
    }
    let other = |policy: &str| if policy == "Delete" { "Retain" } else { "Delete" };
    let changed_policy = json!({"whenDeleted": other(when_deleted), "whenScaled": when_scaled});
    steps.push(settled(changed(json!({ "persistentVolumeClaimRetentionPolicy": changed_policy }))));
    steps
}

fn orphaning() -> Vec<Step> {
    let note = What::merge(STATEFUL_SETS, WEB, json!({"metadata": {"annotations": {"note": "ready"}}}));
    let orphaned = |resource: &str| {
        What::MergeAll(resource.into(), "app".into(), WEB.into(), json!({"metadata": {"ownerReferences": null}}))
    };
    vec![
        create(set(WEB, 2, json!({}))),
        Step { when: When::Reaches(STATEFUL_SETS, WEB, "/status/readyReplicas", 2), what: note },
        after(5.0, What::Delete(STATEFUL_SETS.into(), WEB.into(), json!({"propagationPolicy": "Orphan"}))),
        // As the garbage collector does it.
        after(1.0, orphaned(PODS)),
        after(1.0, orphaned(REVISIONS)),
        after(90.0, What::merge(STATEFUL_SETS, WEB, json!({"metadata": {"finalizers": null}}))),
    ]
}

fn limited() -> Vec<Scenario> {
    let both = |mut spec: Value, more: Value| {
        spec.as_object_mut().into_iter().for_each(|spec| spec.extend(more.as_object().cloned().unwrap_or_default()));
        spec
    };
    vec![
        Scenario {
            name: "rollout-parallel",
            about: "a rollout of Pods that do not wait, two at a time, replaced by another one before they are available",
            steps: vec![
                create(set(
                    WEB,
                    4,
                    both(both(parallel(), strategy(json!({"maxUnavailable": 2}))), json!({"minReadySeconds": 5})),
                )),
                settled(rolled_out("img:2")),
                overtaken("img:3"),
            ],
        },
        Scenario {
            name: "rollout-ordered",
            about: "a rollout of Pods that wait for each other, half of them at a time, above a partition",
            steps: vec![
                create(set(WEB, 4, strategy(json!({"maxUnavailable": "50%", "partition": 1})))),
                settled(rolled_out("img:2")),
                settled(changed(strategy(json!({"maxUnavailable": "50%", "partition": 0})))),
            ],
        },
        Scenario {
            name: "given-up-parallel",
            about: "a template whose Pods never become ready is given up, where Pods do not wait",
            steps: vec![
                create(set(WEB, 3, both(parallel(), strategy(json!({"maxUnavailable": 2}))))),
                settled(image("img:broken", json!({"sim/never-ready": "true"}))),
                settled(image("img:1", json!({"sim/never-ready": null}))),
            ],
        },
        Scenario {
            name: "given-up-ordered",
            about: "a template whose Pods never become ready is given up, and the Pod that it left is replaced",
            steps: vec![
                create(set(WEB, 2, json!({}))),
                settled(image("img:broken", json!({"sim/never-ready": "true"}))),
                settled(image("img:1", json!({"sim/never-ready": null}))),
            ],
        },
    ]
}

pub(super) fn scale(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(set) = world.get(STATEFUL_SETS, NAMESPACE, WEB) else { return Vec::new() };
    let (size, other) = (number(set, "/spec/replicas"), i64::try_from(luck % 6).unwrap_or(0));
    vec![(Duration::ZERO, scaled(other)), (Duration::from_secs(luck % 20), scaled(size))]
}

/// A Pod fails, as when a node evicts it.
fn fail(world: &World, luck: u64) -> Vec<(Duration, What)> {
    pod_interferences::one(world, luck).map(|pod| (Duration::ZERO, failed(&pod))).into_iter().collect()
}

/// A set is replaced by another one of its name; its Pods and revisions are deleted with it. A Pod that the controller created
/// for the old set meanwhile would keep its name from the new one until it is collected: a minute later all Pods are deleted
/// once more.
fn replace(world: &World, _luck: u64) -> Vec<(Duration, What)> {
    let Some(old) = world.get(STATEFUL_SETS, NAMESPACE, WEB) else { return Vec::new() };
    let again = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": WEB}, "spec": old["spec"]});
    let delete = What::Delete(STATEFUL_SETS.to_owned(), WEB.to_owned(), json!({}));
    let revisions = What::DeleteAll(REVISIONS.to_owned(), "app".to_owned(), WEB.to_owned(), json!({}));
    let pods = What::DeleteAll(PODS.to_owned(), "app".to_owned(), WEB.to_owned(), json!({}));
    let at_once = [delete, revisions, What::Create(again), pods.clone()];
    at_once.into_iter().map(|what| (Duration::ZERO, what)).chain([(Duration::from_secs(60), pods)]).collect()
}
