//! The oracles of DaemonSets. Between two acts there are thirty seconds, in which the nodes run the Pods.

use super::{
    Actor::{Impostor, User},
    *,
};

const ORACLES: Oracles = Oracles("daemonset");
const CONTROLLER: Actor = Impostor("daemonset-controller");
const SETS: &str = "daemonsets.apps";
const REVISIONS: &str = "controllerrevisions.apps";
const HASH: &str = "controller-revision-hash";

fn user(what: What) -> Act {
    User.acts(move |_| what.clone())
}

fn set(spec: Value) -> Act {
    User.creates(move |_| {
        let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {"metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "c", "image": "img:1"}]}}}});
        with_spec(set, &spec)
    })
}

fn limits(max_unavailable: i64, max_surge: i64) -> Value {
    let rolling = json!({"maxUnavailable": max_unavailable, "maxSurge": max_surge});
    json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}})
}

fn changed(spec: Value) -> Act {
    User.patches(SETS, "agent", json!({ "spec": spec }))
}

fn image(image: &str) -> Act {
    changed(json!({"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}))
}

fn agent(world: &World) -> &Value {
    world.get(SETS, "default", "agent").unwrap()
}

fn owner(world: &World) -> Value {
    controlled_by(agent(world))
}

/// The revision of the template of the moment, as the controller would write it.
fn revision(world: &World, hash: &str, number: i64) -> Value {
    let mut template = agent(world)["spec"]["template"].clone();
    template["$patch"] = json!("replace");
    json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number, "data": {"spec": {"template": template}},
        "metadata": {"name": format!("agent-{hash}"), "labels": {"app": "agent", HASH: hash}, "ownerReferences": owner(world)}})
}

fn stores(hash: &'static str, number: i64) -> Act {
    CONTROLLER.creates(move |world| revision(world, hash, number))
}

/// A Pod of the template of the moment for a node, as the controller would write it.
fn pod(world: &World, pod: &str, node: &str, hash: &str) -> Value {
    let set = agent(world);
    let generation = &set["metadata"]["annotations"]["deprecated.daemonset.template.generation"];
    let mut spec = set["spec"]["template"]["spec"].clone();
    let pin = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let required = json!({"nodeSelectorTerms": [{"matchFields": [pin]}]});
    spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    let tolerations = [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ];
    let toleration =
        |(key, effect)| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect});
    spec["tolerations"] = tolerations.map(toleration).into_iter().collect();
    json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": {"name": pod, "ownerReferences": owner(world),
            "labels": {"app": "agent", HASH: hash, "pod-template-generation": generation}}})
}

fn creates_with(pod: &'static str, node: &'static str, hash: &'static str, change: fn(&mut Value)) -> Act {
    CONTROLLER.creates(move |world| {
        let mut pod = self::pod(world, pod, node, hash);
        change(&mut pod);
        pod
    })
}

fn creates(pod: &'static str, node: &'static str, hash: &'static str) -> Act {
    creates_with(pod, node, hash, |_| ())
}

/// A Pod that never becomes ready.
fn creates_unready(pod: &'static str, node: &'static str, hash: &'static str) -> Act {
    creates_with(pod, node, hash, |pod| pod["metadata"]["annotations"] = json!({"sim/never-ready": "true"}))
}

fn deletes(resource: &'static str, name: &'static str) -> Act {
    CONTROLLER.deletes(resource, name)
}

fn says(status: Value) -> Act {
    CONTROLLER.patches_status(SETS, "agent", status)
}

fn all_is_well(generation: i64) -> Act {
    says(json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberReady": 3, "numberAvailable": 3,
        "updatedNumberScheduled": 3, "numberMisscheduled": 0, "observedGeneration": generation}))
}

/// A set whose first template has hash `a` and runs on all three nodes, as Pods `a0` to `a2`.
fn running(spec: Value) -> Vec<Act> {
    let pods = [creates("a0", "node-0", "a"), creates("a1", "node-1", "a"), creates("a2", "node-2", "a")];
    [set(spec), stores("a", 1)].into_iter().chain(pods).chain([all_is_well(1)]).collect()
}

/// What these acts violate where such a set runs.
fn with(spec: Value, acts: impl IntoIterator<Item = Act>) -> Vec<&'static str> {
    violations(ORACLES.0, &running(spec).into_iter().chain(acts).collect::<Vec<_>>())
}

fn in_a_rollout(spec: Value, acts: impl IntoIterator<Item = Act>) -> Vec<&'static str> {
    with(spec, [image("img:2"), stores("b", 2)].into_iter().chain(acts))
}

/// Asserts that an oracle is violated by the last of these acts where such a set runs.
fn turns_red(oracle: &str, spec: Value, acts: &[Act]) {
    ORACLES.notice(oracle, &running(spec), acts);
}

const NOTHING: [&str; 0] = [];

#[test]
fn what_is_right_violates_nothing() {
    assert_eq!(with(json!({}), []), NOTHING);
    let replaced = [
        deletes("pods", "a0"),
        creates("b0", "node-0", "b"),
        deletes("pods", "a1"),
        creates("b1", "node-1", "b"),
        deletes("pods", "a2"),
        creates("b2", "node-2", "b"),
        all_is_well(2),
    ];
    assert_eq!(in_a_rollout(limits(1, 0), replaced), NOTHING);
    let surged = [
        creates("b0", "node-0", "b"),
        deletes("pods", "a0"),
        creates("b1", "node-1", "b"),
        deletes("pods", "a1"),
        creates("b2", "node-2", "b"),
        deletes("pods", "a2"),
        all_is_well(2),
    ];
    assert_eq!(in_a_rollout(limits(0, 1), surged), NOTHING);
}

#[test]
fn a_dead_controller_keeps_no_promise() {
    let found = violations(ORACLES.0, &[set(json!({}))]);
    assert_eq!(found, ["daemon-histories-are-in-order", "daemon-sets-get-there"]);
}

#[test]
fn two_pods_on_a_node_are_noticed() {
    turns_red("nodes-get-one-pod", json!({}), &[creates("x", "node-0", "a")]);
    turns_red("nodes-get-one-pod", limits(0, 1), &[creates("x", "node-0", "a")]);
    let held = What::merge("pods", "a0", json!({"metadata": {"finalizers": ["example.com/held"]}}));
    let replaced = [user(held), user(What::delete_now("pods", "a0")), creates("x", "node-0", "a")];
    assert!(!with(limits(0, 1), replaced).contains(&"nodes-get-one-pod"), "with surge nobody waits for its end");
}

#[test]
fn pods_for_nodes_that_are_tainted_or_unknown_are_noticed() {
    let oracle = "only-eligible-nodes-get-pods";
    let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    turns_red(
        oracle,
        json!({}),
        &[deletes("pods", "a0"), user(What::merge("nodes", "node-0", taint)), creates("x", "node-0", "a")],
    );
    turns_red(oracle, json!({}), &[creates("x", "node-9", "a")]);
    let selector = json!({"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}});
    turns_red(oracle, json!({}), &[deletes("pods", "a0"), changed(selector), creates("x", "node-0", "a")]);
}

#[test]
fn pods_that_are_not_as_they_should_be_are_noticed() {
    for change in [
        (|pod: &mut Value| pod["spec"]["affinity"] = json!({})) as fn(&mut Value),
        |pod| pod["spec"]["tolerations"] = json!([{"operator": "Exists", "effect": "NoExecute", "key": "a"}]),
        |pod| pod["metadata"]["labels"][HASH] = json!(""),
        |pod| pod["metadata"]["labels"]["pod-template-generation"] = json!(""),
    ] {
        let wrong = creates_with("x", "node-0", "a", change);
        turns_red("daemon-pods-are-pinned", json!({}), &[deletes("pods", "a0"), wrong]);
    }
}

#[test]
fn deletions_that_nothing_asks_for_are_noticed() {
    let oracle = "daemon-pods-go-for-a-reason";
    turns_red(oracle, json!({}), &[deletes("pods", "a0")]);
    let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
    turns_red(oracle, on_delete, &[image("img:2"), stores("b", 2), deletes("pods", "a0")]);
    let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    turns_red(oracle, json!({}), &[user(What::merge("nodes", "node-0", taint)), deletes("pods", "a0")]);
    let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
    let driven_away = [user(What::merge("nodes", "node-0", taint)), deletes("pods", "a0")];
    assert!(!with(json!({}), driven_away).contains(&oracle));
}

#[test]
fn too_many_unavailable_nodes_are_noticed() {
    let oracle = "updates-leave-enough-available";
    turns_red(oracle, limits(1, 0), &[image("img:2"), stores("b", 2), deletes("pods", "a0"), deletes("pods", "a1")]);
    let unready = creates_unready("b0", "node-0", "b");
    turns_red(
        oracle,
        limits(1, 0),
        &[image("img:2"), stores("b", 2), deletes("pods", "a0"), unready, deletes("pods", "a1")],
    );
    let mut slow = limits(1, 0);
    slow["minReadySeconds"] = json!(45);
    let new = creates("b0", "node-0", "b");
    turns_red(oracle, slow, &[image("img:2"), stores("b", 2), deletes("pods", "a0"), new, deletes("pods", "a1")]);
    let two = [deletes("pods", "a0"), deletes("pods", "a1")];
    assert!(!in_a_rollout(limits(2, 0), two).contains(&oracle));
}

#[test]
fn too_much_surge_and_too_little_are_noticed() {
    let (first, second) = (|| creates_unready("b0", "node-0", "b"), || creates_unready("b1", "node-1", "b"));
    turns_red("surge-keeps-to-its-limit", limits(0, 1), &[image("img:2"), stores("b", 2), first(), second()]);
    assert!(!in_a_rollout(limits(0, 2), [first(), second()]).contains(&"surge-keeps-to-its-limit"));
    turns_red("surge-leaves-no-gap", limits(0, 1), &[image("img:2"), stores("b", 2), deletes("pods", "a0")]);
    turns_red("surge-leaves-no-gap", limits(0, 1), &[image("img:2"), stores("b", 2), first(), deletes("pods", "a0")]);
}

#[test]
fn wrong_revisions_are_noticed() {
    let oracle = "revisions-are-templates";
    let stores_with = |change: fn(&mut Value)| {
        CONTROLLER.creates(move |world| {
            let mut revision = revision(world, "b", 2);
            change(&mut revision);
            revision
        })
    };
    for change in [
        (|r: &mut Value| r["data"]["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {}}))
            as fn(&mut Value),
        |r| r["data"]["spec"]["replicas"] = json!(3),
        |r| r["metadata"]["labels"][HASH] = Value::Null,
        |r| r["metadata"]["name"] = json!("agent-c"),
    ] {
        turns_red(oracle, json!({}), &[image("img:2"), stores_with(change)]);
    }
    turns_red("live-revisions-stay", json!({}), &[image("img:2"), stores("b", 2), deletes(REVISIONS, "agent-a")]);
    turns_red("live-revisions-stay", json!({}), &[image("img:2"), stores("b", 2), deletes(REVISIONS, "agent-b")]);
    turns_red("daemon-histories-are-in-order", json!({}), &[stores("b", 2)]);
    let third = || [image("img:2"), stores("b", 2), image("img:3"), stores("c", 3)];
    for (limit, kept_too_long) in [(0, true), (1, true), (2, false)] {
        let found = with(json!({"revisionHistoryLimit": limit}), third());
        assert_eq!(found.contains(&"daemon-histories-are-in-order"), kept_too_long, "{limit}: {found:?}");
    }
}

#[test]
fn wrong_statuses_are_noticed() {
    for status in [
        json!({"observedGeneration": 9}),
        json!({"observedGeneration": 0}),
        json!({"numberReady": 4}),
        json!({"numberAvailable": 2}),
        json!({"updatedNumberScheduled": 4}),
    ] {
        turns_red("daemon-statuses-make-sense", json!({}), &[says(status)]);
    }
    let consistent = json!({"numberReady": 2, "numberAvailable": 2, "numberUnavailable": 1});
    assert_eq!(with(json!({}), [says(consistent)]), ["daemon-sets-get-there"], "it makes sense and is not true");
}

#[test]
fn writes_for_a_set_that_is_deleted_are_noticed() {
    let deleted = [vec![deletes("pods", "a0")], terminating(SETS, "agent")].concat();
    for act in [
        creates("x", "node-0", "a"),
        deletes("pods", "a1"),
        deletes(REVISIONS, "agent-a"),
        says(json!({"numberReady": 2, "numberAvailable": 2, "numberUnavailable": 1})),
    ] {
        turns_red("deleted-daemon-sets-write-nothing", json!({}), &[&deleted[..], &[act]].concat());
    }
    let adopts =
        CONTROLLER.acts(|world| What::merge("pods", "stray", json!({"metadata": {"ownerReferences": owner(world)}})));
    let adopted = [stray(json!([])), adopts];
    assert!(!with(json!({}), adopted.clone()).contains(&"only-living-daemon-sets-adopt"));
    let [stray, adopts] = adopted;
    turns_red("only-living-daemon-sets-adopt", json!({}), &[vec![stray], deleted, vec![adopts]].concat());
}

/// A Pod of a user on a node of the set.
fn stray(owner_references: Value) -> Act {
    User.creates(move |_| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "stray", "labels": {"app": "agent"}, "ownerReferences": owner_references},
            "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "img:0"}]}})
    })
}

#[test]
fn pods_of_others_are_not_touched() {
    for references in [controlled_by_another("ReplicaSet"), json!([])] {
        turns_red("pods-of-other-controllers-stay", json!({}), &[stray(references), deletes("pods", "stray")]);
    }
}
