//! What users do with DaemonSets, and operators with the nodes under them.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    daemonset_invariants::{INVARIANTS, PROMISES},
    replicaset::{pod_interferences, quota},
};
use crate::{
    json::{at, labels, name},
    scenario::{Interference, Scenario, Step, Suite, What, When, after, settled},
    stage::NAMESPACE,
    world::World,
};

/// DaemonSets on three nodes, `node-0` to `node-2`, each in a zone of its own.
pub(super) const SUITE: Suite = Suite {
    name: "daemonset",
    programs: &[&daemonset_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    scenarios,
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "delete-pod", act: pod_interferences::delete },
        Interference { name: "relabel-pod", act: pod_interferences::relabel },
        Interference { name: "take-pod", act: pod_interferences::take },
        Interference { name: "fail-pod", act: fail },
        Interference { name: "duplicate-pod", act: duplicate },
        Interference { name: "taint", act: taint_a_node },
        Interference { name: "drop-node", act: drop_node },
        Interference { name: "replace", act: replace },
    ],
};

/// DaemonSets whose statuses are written on whatever the caches show.
pub(super) const STALE: Suite = Suite {
    name: "daemonset-stale",
    gates: &[("StaleControllerConsistencyDaemonSet", false), ("AtomicFIFO", false)],
    scenarios: stale,
    ..SUITE
};

const DAEMON_SETS: &str = "daemonsets.apps";
const REVISIONS: &str = "controllerrevisions.apps";
const NODES: &str = "nodes";
const PODS: &str = "pods";
const AGENT: &str = "agent";
/// The label that says in which zone a node is. Pods get it from their node.
const ZONE: &str = "topology.kubernetes.io/zone";
/// The node that operators add. No kubelet runs there, so that its Pods never become ready.
const EXTRA: &str = "extra";

fn template() -> Value {
    json!({"metadata": {"labels": {"app": AGENT}, "annotations": {"sim/ready-after": "1", "sim/terminate-after": "2"}},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}})
}

/// A set; `spec` adds to its specification or replaces parts of it.
fn set(spec: Value) -> Value {
    let mut set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": AGENT},
        "spec": {"selector": {"matchLabels": {"app": AGENT}}, "template": template()}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        set["spec"][field] = value.clone();
    }
    set
}

/// A set whose Pods run on nodes with that label.
fn selecting(label: &str, spec: Value) -> Value {
    let mut set = set(spec);
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({label: "yes"});
    set
}

fn unavailable(limit: impl Into<Value>) -> Value {
    limits(limit.into(), json!(0))
}

fn surge(limit: impl Into<Value>) -> Value {
    limits(json!(0), limit.into())
}

fn limits(max_unavailable: Value, max_surge: Value) -> Value {
    let rolling = json!({"maxUnavailable": max_unavailable, "maxSurge": max_surge});
    json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}})
}

fn on_delete() -> Value {
    json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}})
}

/// One specification with what another adds.
fn both(mut spec: Value, more: Value) -> Value {
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    spec
}

fn changed(spec: Value) -> What {
    What::merge(DAEMON_SETS, AGENT, json!({ "spec": spec }))
}

/// Another image, with annotations for the Pods.
fn image(image: &str, annotations: Value) -> What {
    changed(json!({"template": {"metadata": {"annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": image}]}}}))
}

fn rolled_out(version: &str) -> What {
    image(version, json!({}))
}

/// A step in the middle of a rolling update: one Pod is of the new template, which therefore has its revision.
fn midway(what: What) -> Step {
    Step { when: When::Reaches(DAEMON_SETS, AGENT, "/status/updatedNumberScheduled", 1), what }
}

/// A step once the controller has seen the newest template, which therefore has its revision.
fn observed(what: What) -> Step {
    Step { when: When::Observed(DAEMON_SETS, AGENT), what }
}

fn create(object: Value) -> Step {
    after(0.1, What::Create(object))
}

fn taint(node: &str, effect: &str) -> What {
    What::merge(NODES, node, json!({"spec": {"taints": [{"key": "sim.example.com/taint", "effect": effect}]}}))
}

fn untaint(node: &str) -> What {
    What::merge(NODES, node, json!({"spec": {"taints": null}}))
}

fn label(node: &str, label: &str, value: Value) -> What {
    What::merge(NODES, node, json!({"metadata": {"labels": {label: value}}}))
}

/// A node that is ready. The API server taints it as not ready, as it does with every new one.
fn node(node: &str, zone: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": node, "labels": {"kubernetes.io/hostname": node, ZONE: zone}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
}

/// Deletes the Pods of a node at once, as the garbage collector of Pods does once the node is gone.
fn collected(zone: &str) -> What {
    What::DeleteAll(PODS.to_owned(), ZONE.to_owned(), zone.to_owned(), json!({"gracePeriodSeconds": 0}))
}

/// A Pod of a user on a node, which the set adopts.
fn stray(name: &str, node: &str) -> Value {
    let labels = json!({"app": AGENT, "controller-revision-hash": "stray"});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "img:0"}]}})
}

/// Makes a Pod fail, as a node does that evicts it.
fn failed(pod: &str) -> What {
    What::MergeStatus(PODS.to_owned(), pod.to_owned(), json!({"status": {"phase": "Failed", "reason": "Evicted"}}))
}

fn scenarios() -> Vec<Scenario> {
    rollouts().into_iter().chain(nodes_that_change()).chain(pods_and_claims()).collect()
}

/// What a cache that lags could make a difference to.
fn stale() -> Vec<Scenario> {
    let telling = [
        "rollout-unavailable",
        "rollout-surge",
        "rollback",
        "strategies",
        "on-delete",
        "taints",
        "taints-surge",
        "node-churn-surge",
        "node-recreated",
        "failing-pods",
        "strays",
        "orphaning",
    ];
    scenarios().into_iter().filter(|scenario| telling.contains(&scenario.name)).collect()
}

fn rollouts() -> Vec<Scenario> {
    let broken = || image("img:broken", json!({"sim/never-ready": "true"}));
    let mended = |version: &str| image(version, json!({"sim/never-ready": null}));
    vec![
        Scenario {
            name: "rollout-unavailable",
            about: "a rollout one node at a time, replaced by another one midway",
            steps: vec![create(set(unavailable(1))), settled(rolled_out("img:2")), midway(rolled_out("img:3"))],
        },
        Scenario {
            name: "rollout-half",
            about: "a rollout of half the nodes at a time, whose Pods are available after some seconds",
            steps: vec![
                create(set(both(unavailable("50%"), json!({"minReadySeconds": 10})))),
                settled(rolled_out("img:2")),
            ],
        },
        Scenario {
            name: "rollout-surge",
            about: "a rollout that creates the new Pod first, replaced by another one midway",
            steps: vec![create(set(surge(1))), settled(rolled_out("img:2")), midway(rolled_out("img:3"))],
        },
        Scenario {
            name: "rollout-surge-all",
            about: "a rollout with surge on all nodes at once, whose Pods are available after some seconds",
            steps: vec![create(set(both(surge("100%"), json!({"minReadySeconds": 10})))), settled(rolled_out("img:2"))],
        },
        Scenario {
            name: "rollback",
            about: "back to the first template midway, with a history of one",
            steps: vec![
                create(set(both(unavailable(1), json!({"revisionHistoryLimit": 1})))),
                settled(rolled_out("img:2")),
                midway(rolled_out("img:1")),
                settled(rolled_out("img:3")),
            ],
        },
        Scenario {
            name: "strategies",
            about: "from unavailability to surge and back while a rollout is under way",
            steps: vec![
                create(set(unavailable(1))),
                settled(rolled_out("img:2")),
                midway(changed(surge(2))),
                settled(rolled_out("img:3")),
                midway(changed(unavailable(2))),
            ],
        },
        Scenario {
            name: "on-delete",
            about: "a new template reaches only the node whose Pod is deleted, until the strategy changes",
            steps: vec![
                create(set(on_delete())),
                settled(rolled_out("img:2")),
                settled(What::DeleteAll(PODS.into(), ZONE.into(), "z1".into(), json!({}))),
                settled(changed(unavailable(1))),
            ],
        },
        Scenario {
            name: "broken-template",
            about: "a template whose Pods never become ready is given up",
            steps: vec![create(set(unavailable(1))), settled(broken()), settled(mended("img:1"))],
        },
        Scenario {
            name: "broken-surge",
            about: "the same with surge, and a third template instead of the first one",
            steps: vec![create(set(surge(1))), settled(broken()), settled(mended("img:2"))],
        },
    ]
}

fn nodes_that_change() -> Vec<Scenario> {
    let joins = [create(node(EXTRA, "zx")), after(0.5, untaint(EXTRA))];
    let leaves = [after(0.0, What::delete_now(NODES, EXTRA)), after(45.0, collected("zx"))];
    let again = |node: Value| {
        let name = name(&node).to_owned();
        [after(5.0, What::Create(node)), after(2.0, untaint(&name))]
    };
    let with = |mut steps: Vec<Step>, more: Vec<Step>| {
        steps.extend(more);
        steps
    };
    vec![
        Scenario {
            name: "taints",
            about: "a node is tainted in the middle of a rollout, so that it keeps its Pod, then loses it, then gets another one",
            steps: vec![
                create(set(unavailable(1))),
                settled(rolled_out("img:2")),
                midway(taint("node-1", "NoSchedule")),
                settled(taint("node-1", "NoExecute")),
                settled(untaint("node-1")),
            ],
        },
        Scenario {
            name: "taints-surge",
            about: "the same with surge: the outdated Pod of the tainted node goes once enough others are available",
            steps: vec![
                create(set(surge(1))),
                settled(rolled_out("img:2")),
                midway(taint("node-2", "NoSchedule")),
                settled(untaint("node-2")),
            ],
        },
        Scenario {
            name: "relabelled",
            about: "one node is chosen and another one no more while a rollout is under way",
            steps: vec![
                create(selecting("sim.example.com/chosen", unavailable(1))),
                after(0.1, label("node-0", "sim.example.com/chosen", json!("yes"))),
                after(0.1, label("node-1", "sim.example.com/chosen", json!("yes"))),
                settled(rolled_out("img:2")),
                midway(label("node-2", "sim.example.com/chosen", json!("yes"))),
                after(0.1, label("node-0", "sim.example.com/chosen", Value::Null)),
            ],
        },
        Scenario {
            name: "node-churn",
            about: "a node joins whose Pod never becomes ready, holds up a rollout, and leaves",
            steps: with(
                vec![create(set(unavailable(1)))],
                with(with(joins.to_vec(), vec![settled(rolled_out("img:2"))]), {
                    let mut steps = leaves.to_vec();
                    steps[0].when = When::Settled;
                    steps
                }),
            ),
        },
        Scenario {
            name: "node-churn-surge",
            about: "the same with surge, while the Pod of the node that leaves is outdated",
            steps: with(
                with(vec![create(set(surge(1)))], joins.to_vec()),
                with(vec![settled(rolled_out("img:2"))], leaves.to_vec()),
            ),
        },
        Scenario {
            name: "node-recreated",
            about: "a node is deleted in the middle of a rollout and comes back under its name with its Pod",
            steps: with(
                vec![
                    create(set(unavailable(1))),
                    settled(rolled_out("img:2")),
                    midway(What::delete_now(NODES, "node-2")),
                ],
                again(node("node-2", "z2")).to_vec(),
            ),
        },
        Scenario {
            name: "node-replaced",
            about: "a node is deleted, its Pod is collected, and another node of its name joins",
            steps: with(
                vec![
                    create(set(surge(1))),
                    settled(rolled_out("img:2")),
                    midway(What::delete_now(NODES, "node-2")),
                    after(45.0, collected("z2")),
                ],
                again(node("node-2", "z2")).to_vec(),
            ),
        },
    ]
}

fn pods_and_claims() -> Vec<Scenario> {
    let rejected = |version: &str| image(version, json!({"sim/fail-reason": "OutOfcpu"}));
    let accepted = |version: &str| image(version, json!({"sim/fail-reason": null}));
    let noted = || What::merge(DAEMON_SETS, AGENT, json!({"metadata": {"annotations": {"note": "seen"}}}));
    vec![
        Scenario {
            name: "failing-pods",
            about: "Pods of a new template fail again and again until there is another one",
            steps: vec![
                create(set(unavailable(2))),
                settled(rejected("img:2")),
                observed(noted()),
                after(20.0, accepted("img:3")),
            ],
        },
        Scenario {
            name: "failing-surge",
            about: "the same with surge",
            steps: vec![
                create(set(surge(1))),
                settled(rejected("img:2")),
                observed(noted()),
                after(20.0, accepted("img:3")),
            ],
        },
        Scenario {
            name: "strays",
            about: "a stray takes a node's place, a second one on another node is one too many, and both are outdated in the end",
            steps: vec![
                create(stray("stray-0", "node-0")),
                settled(What::Create(set(on_delete()))),
                settled(What::Create(stray("stray-1", "node-1"))),
                settled(changed(unavailable(1))),
            ],
        },
        Scenario {
            name: "strays-surge",
            about: "the same with surge: the stray is taken for an old Pod",
            steps: vec![
                create(stray("stray-0", "node-0")),
                settled(What::Create(set(surge(1)))),
                settled(What::Create(stray("stray-1", "node-1"))),
            ],
        },
        Scenario {
            name: "release",
            about: "an adopted Pod leaves by its label, and another one takes its place",
            steps: vec![
                create(stray("stray-0", "node-0")),
                settled(What::Create(set(on_delete()))),
                settled(What::merge(PODS, "stray-0", json!({"metadata": {"labels": {"app": "other"}}}))),
            ],
        },
        Scenario {
            name: "orphaning",
            about: "a set is deleted, its Pods and revisions are left without an owner, and another set takes them over",
            steps: orphaning(),
        },
        Scenario {
            name: "pod-quota",
            about: "a quota refuses Pods until it is raised",
            steps: vec![
                create(quota("1")),
                create(set(json!({}))),
                after(400.0, What::merge("resourcequotas", "pods", json!({"spec": {"hard": {"pods": "20"}}}))),
            ],
        },
        Scenario {
            name: "two-sets",
            about: "two sets that select the same Pods keep to their own, and a limit far above the number of nodes is one",
            steps: {
                let mut other = set(unavailable(1000));
                other["metadata"]["name"] = json!("other");
                vec![create(set(surge(1))), create(other), settled(rolled_out("img:2"))]
            },
        },
    ]
}

fn orphaning() -> Vec<Step> {
    let note = What::merge(DAEMON_SETS, AGENT, json!({"metadata": {"annotations": {"note": "ready"}}}));
    let orphaned = |resource: &str| {
        What::MergeAll(resource.into(), "app".into(), AGENT.into(), json!({"metadata": {"ownerReferences": null}}))
    };
    vec![
        create(set(on_delete())),
        Step { when: When::Reaches(DAEMON_SETS, AGENT, "/status/numberReady", 3), what: note },
        after(5.0, What::Delete(DAEMON_SETS.into(), AGENT.into(), json!({"propagationPolicy": "Orphan"}))),
        // As the garbage collector does it.
        after(1.0, orphaned(PODS)),
        after(1.0, orphaned(REVISIONS)),
        after(90.0, What::merge(DAEMON_SETS, AGENT, json!({"metadata": {"finalizers": null}}))),
        settled(What::Create(set(on_delete()))),
    ]
}

/// A Pod fails, as when its node evicts it.
fn fail(world: &World, luck: u64) -> Vec<(Duration, What)> {
    pod_interferences::one(world, luck).map(|pod| (Duration::ZERO, failed(&pod))).into_iter().collect()
}

/// A Pod gets a twin: the same once more for the same node, as another active controller would create it.
fn duplicate(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(pod) = pod_interferences::one(world, luck) else { return Vec::new() };
    let Some(pod) = world.get(PODS, NAMESPACE, &pod) else { return Vec::new() };
    let meta = &pod["metadata"];
    let mut twin = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "img:1"}]},
        "metadata": {"generateName": "twin-", "labels": meta["labels"], "annotations": meta["annotations"],
            "ownerReferences": meta["ownerReferences"]}});
    if let Some(labels) = twin["metadata"]["labels"].as_object_mut() {
        labels.retain(|key, _| !key.starts_with("topology."));
    }
    for field in ["affinity", "tolerations"] {
        if let Some(value) = pod["spec"].get(field) {
            twin["spec"][field] = value.clone();
        }
    }
    vec![(Duration::ZERO, What::Create(twin))]
}

/// A node that was there from the beginning.
fn any_node(world: &World, luck: u64) -> Option<&Value> {
    let ours: Vec<&Value> =
        world.list(NODES).filter(|node| name(node).starts_with("node-")).map(|node| &**node).collect();
    usize::try_from(luck).unwrap_or(0).checked_rem(ours.len()).and_then(|index| ours.get(index).copied())
}

/// An operator taints a node for some seconds.
fn taint_a_node(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(node) = any_node(world, luck) else { return Vec::new() };
    let before = at(node, "/spec/taints").cloned().unwrap_or_default();
    let effect = if luck & 16 == 0 { "NoSchedule" } else { "NoExecute" };
    let mut more = before.as_array().cloned().unwrap_or_default();
    more.push(json!({"key": "sim.example.com/other", "effect": effect}));
    let taints = |taints: Value| What::merge(NODES, name(node), json!({"spec": {"taints": taints}}));
    vec![(Duration::ZERO, taints(json!(more))), (Duration::from_secs(1 + luck % 60), taints(before))]
}

/// A node is deleted and comes back after a while, with its Pods unless they were collected meanwhile.
fn drop_node(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(node) = any_node(world, luck) else { return Vec::new() };
    let (name, zone) = (name(node), labels(node).get(ZONE).copied().unwrap_or_default());
    let again = json!({"apiVersion": "v1", "kind": "Node", "status": node["status"],
        "metadata": {"name": name, "labels": node["metadata"]["labels"]}});
    let mut steps = vec![(Duration::ZERO, What::delete_now(NODES, name))];
    if luck & 16 == 0 {
        steps.push((Duration::from_secs(45), collected(zone)));
    }
    steps.push((Duration::from_secs(1 + luck % 60), What::Create(again)));
    steps.push((Duration::from_secs(1), untaint(name)));
    steps
}

/// A set is replaced by another one of its name; its Pods and revisions are deleted with it.
fn replace(world: &World, _luck: u64) -> Vec<(Duration, What)> {
    let Some(old) = world.get(DAEMON_SETS, NAMESPACE, AGENT) else { return Vec::new() };
    let again = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": AGENT}, "spec": old["spec"]});
    let delete = What::Delete(DAEMON_SETS.to_owned(), AGENT.to_owned(), json!({}));
    let revisions = What::DeleteAll(REVISIONS.to_owned(), "app".to_owned(), AGENT.to_owned(), json!({}));
    let pods = What::DeleteAll(PODS.to_owned(), "app".to_owned(), AGENT.to_owned(), json!({}));
    [delete, revisions, What::Create(again), pods].into_iter().map(|what| (Duration::ZERO, what)).collect()
}
