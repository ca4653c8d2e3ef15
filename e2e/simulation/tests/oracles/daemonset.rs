//! The oracles of DaemonSets. Between two acts there are thirty seconds, in which the nodes run the Pods.

use std::sync::Arc;

use simulation::{impostor, world::Logged};

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

/// Asserts that the last of these acts, where such a set runs, has an oracle say that.
fn is_told(oracle: &str, words: &str, spec: Value, acts: &[Act]) {
    ORACLES.notice_that(oracle, words, &running(spec), acts);
}

/// A status of a set on three nodes: how many are ready and available, how many are updated, and the observed generation.
fn says_of(ready: i64, updated: i64, generation: i64) -> Act {
    says(
        json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberReady": ready, "numberAvailable": ready,
        "numberUnavailable": 3 - ready, "updatedNumberScheduled": updated, "numberMisscheduled": 0,
        "observedGeneration": generation}),
    )
}

fn tainted(node: &'static str, effect: &str) -> Act {
    user(What::merge("nodes", node, json!({"spec": {"taints": [{"key": "k", "effect": effect}]}})))
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
fn a_pod_beside_one_that_terminates_is_noticed() {
    let oracle = "nodes-get-one-pod";
    let slow = creates_with("a0", "node-0", "a", |pod| {
        pod["metadata"]["annotations"] = json!({"sim/terminate-after": "600"});
        pod["spec"]["terminationGracePeriodSeconds"] = json!(900);
    });
    let world = |spec| [set(spec), stores("a", 1), slow.clone(), deletes("pods", "a0")];
    let beside = [creates("x", "node-0", "a")];
    ORACLES.notice_that(oracle, "node node-0 gets Pod x beside a0", &world(limits(1, 0)), &beside);
    ORACLES.allow(oracle, &world(limits(0, 1)), &beside);
    // One that has ended does not take its node's place, even if something keeps it from being removed.
    let held = What::merge("pods", "a0", json!({"metadata": {"finalizers": ["example.com/held"]}}));
    let ended = [user(held), user(failed("a0")), deletes("pods", "a0"), creates("x", "node-0", "a")];
    ORACLES.allow(oracle, &running(limits(1, 0)), &ended);
}

/// Makes a Pod fail, as a node does that evicts it.
fn failed(pod: &str) -> What {
    What::MergeStatus("pods".into(), pod.into(), json!({"status": {"phase": "Failed", "reason": "Evicted"}}))
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
    let nobodys = creates_with("x", "node-0", "a", |pod| pod["metadata"]["ownerReferences"] = json!([]));
    is_told(oracle, "Pod x is created for no DaemonSet", json!({}), &[deletes("pods", "a0"), nobodys]);
}

#[test]
fn pods_that_are_not_as_they_should_be_are_noticed() {
    for change in [
        (|pod: &mut Value| pod["spec"]["affinity"] = json!({})) as fn(&mut Value),
        |pod| pod["spec"]["tolerations"] = json!([{"operator": "Exists", "effect": "NoExecute", "key": "a"}]),
        |pod| pod["metadata"]["labels"][HASH] = json!(""),
        |pod| pod["metadata"]["labels"]["pod-template-generation"] = json!(""),
        |pod| pod["metadata"]["labels"]["app"] = json!("other"),
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
    let affinity: fn(&mut Value) = |r| r["data"]["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {}});
    for (change, words) in [
        (affinity, "does not hold the template"),
        (|r| r["data"]["spec"]["replicas"] = json!(3), "does not hold the template"),
        (|r| r["metadata"]["labels"][HASH] = Value::Null, "revision agent-b has no hash"),
        (|r| r["metadata"]["name"] = json!("agent-c"), "revision agent-c is not named after its hash"),
        (|r| r["metadata"]["ownerReferences"] = json!([]), "revision agent-b is no DaemonSet's"),
    ] {
        is_told(oracle, words, json!({}), &[image("img:2"), stores_with(change)]);
    }
    let oracle = "live-revisions-stay";
    for (name, words) in [("agent-a", "and Pod a0 is of it"), ("agent-b", "and is that of the template")] {
        is_told(oracle, words, json!({}), &[image("img:2"), stores("b", 2), deletes(REVISIONS, name)]);
    }
    let orphan = User.creates(|world| {
        let mut revision = revision(world, "x", 1);
        revision["metadata"]["ownerReferences"] = json!([]);
        revision["metadata"]["labels"]["app"] = json!("other");
        revision
    });
    is_told(oracle, "is deleted and is no DaemonSet's", json!({}), &[orphan, deletes(REVISIONS, "agent-x")]);
    let oracle = "daemon-histories-are-in-order";
    ORACLES.notice_that(oracle, "its template is stored 0 times", &[], &[set(json!({}))]);
    is_told(oracle, "its template is stored 2 times", json!({}), &[stores("b", 2)]);
    is_told(oracle, "agent-a is not older than agent-b", json!({}), &[image("img:2"), stores("b", 1)]);
    let bare = stores_with(|r| r["metadata"]["labels"][HASH] = Value::Null);
    is_told(oracle, "agent-b has no hash", json!({}), &[image("img:2"), bare]);
    let third = || [image("img:2"), stores("b", 2), image("img:3"), stores("c", 3)];
    for (limit, kept_too_long) in [(0, true), (1, true), (2, false)] {
        let found = with(json!({"revisionHistoryLimit": limit}), third());
        assert_eq!(found.contains(&"daemon-histories-are-in-order"), kept_too_long, "{limit}: {found:?}");
    }
}

#[test]
fn wrong_statuses_are_noticed() {
    for (status, words) in [
        (json!({"observedGeneration": 9}), "agent says {"),
        (json!({"observedGeneration": 0}), "observedGeneration of agent goes from 1 to 0"),
        (json!({"numberReady": 4}), "agent says {"),
        (json!({"numberAvailable": 2}), "agent says {"),
        (json!({"updatedNumberScheduled": 4}), "agent says {"),
    ] {
        is_told("daemon-statuses-make-sense", words, json!({}), &[says(status)]);
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
    let oracle = "only-living-daemon-sets-adopt";
    let words = "stray is adopted by agent, which is gone or being deleted";
    is_told(oracle, words, json!({}), &[vec![stray.clone()], deleted, vec![adopts.clone()]].concat());
    let relabelled = User.patches("pods", "stray", json!({"metadata": {"labels": {"app": "other"}}}));
    let words = "stray is adopted by agent, which does not select it";
    is_told(oracle, words, json!({}), &[stray.clone(), relabelled, adopts]);
    let by_nobody = controlled_by_another("DaemonSet");
    let adopts = CONTROLLER.patches("pods", "stray", json!({"metadata": {"ownerReferences": by_nobody}}));
    is_told(oracle, "stray is adopted by a set that never was", json!({}), &[stray, adopts]);
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
    for (references, words) in [
        (controlled_by_another("ReplicaSet"), "stray is another controller's"),
        (json!([]), "stray is deleted and has no controller"),
    ] {
        is_told("pods-of-other-controllers-stay", words, json!({}), &[stray(references), deletes("pods", "stray")]);
    }
}

const PROMISE: &str = "daemon-sets-get-there";

#[test]
fn sets_that_stop_half_way_are_noticed() {
    for (act, words) in [
        (image("img:2"), "its newest generation is not observed"),
        (deletes("pods", "a0"), "node node-0 has 0 Pods"),
        (creates("x", "node-0", "a"), "node node-0 has 2 Pods"),
        (tainted("node-0", "NoExecute"), "Pod a0 is on node node-0, where it may not be"),
        (user(failed("a0")), "Pod a0 has finished and is not replaced"),
        (User.patches("pods", "a0", json!({"metadata": {"labels": {"app": "other"}}})), "Pod a0 is not released"),
        (stray(json!([])), "Pod stray is not adopted"),
    ] {
        is_told(PROMISE, words, json!({}), &[act]);
    }
    let third = [creates("x", "node-0", "a"), creates("y", "node-0", "a")];
    is_told(PROMISE, "node node-0 has 3 Pods", limits(0, 1), &third);
    for (field, is, should_be) in [
        ("desiredNumberScheduled", 4, 3),
        ("currentNumberScheduled", 2, 3),
        ("numberReady", 2, 3),
        ("numberAvailable", 2, 3),
        ("updatedNumberScheduled", 2, 3),
        ("numberMisscheduled", 1, 0),
    ] {
        let words = format!("status.{field} is {is} and should be {should_be}");
        is_told(PROMISE, &words, json!({}), &[says(json!({field: is}))]);
    }
}

/// A rollout that stops after these acts, with a status that is true.
fn stopped(acts: impl IntoIterator<Item = Act>, status: Act) -> Vec<Act> {
    [image("img:2"), stores("b", 2)].into_iter().chain(acts).chain([status]).collect()
}

#[test]
fn rollouts_that_stop_before_their_limit_are_noticed() {
    let old = |pod: &str| format!("Pod {pod} is not updated");
    is_told(PROMISE, &old("a0"), limits(1, 0), &stopped([], says_of(3, 0, 2)));
    is_told(PROMISE, &old("a0"), limits(0, 1), &stopped([], says_of(3, 0, 2)));
    // A node whose new Pod never becomes ready holds up as many others as the limit says.
    let replaced = || [deletes("pods", "a0"), creates_unready("b0", "node-0", "b")];
    ORACLES.allow(PROMISE, &running(limits(1, 0)), &stopped(replaced(), says_of(2, 1, 2)));
    is_told(PROMISE, &old("a1"), limits(2, 0), &stopped(replaced(), says_of(2, 1, 2)));
    let beside = || [creates_unready("b0", "node-0", "b")];
    ORACLES.allow(PROMISE, &running(limits(0, 1)), &stopped(beside(), says_of(3, 0, 2)));
    is_told(PROMISE, &old("a1"), limits(0, 2), &stopped(beside(), says_of(3, 0, 2)));
    // With surge, the old Pod goes once the new one is ready, or as soon as it is not ready itself.
    is_told(PROMISE, &old("a0"), limits(0, 1), &stopped([creates("b0", "node-0", "b")], says_of(3, 0, 2)));
}

#[test]
fn outdated_pods_that_are_not_ready_are_replaced_whatever_the_limit() {
    for limits in [limits(1, 0), limits(0, 1)] {
        let world = [
            set(limits),
            stores("a", 1),
            creates_unready("a0", "node-0", "a"),
            creates("a1", "node-1", "a"),
            creates("a2", "node-2", "a"),
            says_of(2, 3, 1),
        ];
        ORACLES.notice_that(PROMISE, "Pod a0 is not updated", &world, &stopped([], says_of(2, 0, 2)));
    }
}

#[test]
fn outdated_pods_on_nodes_where_none_should_run_are_noticed_once_enough_others_are_available() {
    let replaces =
        |old: &'static str, new: &'static str, node: &'static str| [creates(new, node, "b"), deletes("pods", old)];
    let status = |ready: i64| {
        says(
            json!({"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberReady": ready, "numberAvailable": ready,
            "numberUnavailable": 2 - ready, "updatedNumberScheduled": 2, "numberMisscheduled": 1, "observedGeneration": 2}),
        )
    };
    let acts = |last: [Act; 2]| {
        [vec![tainted("node-0", "NoSchedule")], replaces("a1", "b1", "node-1").into(), last.into()].concat()
    };
    let all = acts(replaces("a2", "b2", "node-2"));
    is_told(PROMISE, "Pod a0 is not updated", limits(0, 1), &stopped(all, status(2)));
    let all_but_one = acts([creates_unready("b2", "node-2", "b"), deletes("pods", "a2")]);
    ORACLES.allow(PROMISE, &running(limits(0, 1)), &stopped(all_but_one, status(1)));
}

/// What an invariant says of a write that the sandbox refuses: the last write of these acts with other states of its object.
fn says_of_fabricated(oracle: &str, object: Act, change: fn(&mut Value)) -> Option<String> {
    let suite = SUITES.iter().find(|suite| suite.name == ORACLES.0).unwrap();
    let invariant = suite.invariants.iter().copied().flatten().find(|known| known.name == oracle).unwrap();
    let mut world = impostor::world(suite, &[set(json!({})), object]).unwrap();
    let last = world.log().iter().rfind(|logged| logged.by("daemonset-controller")).unwrap();
    let before = Value::clone(&last.after().unwrap());
    let mut after = before.clone();
    change(&mut after);
    let fabricated = Logged { at: last.at, write: Arc::new(last.write.with_states(before, after)) };
    world.apply(fabricated.clone());
    (invariant.check)(&world, &fabricated).err()
}

#[test]
fn writes_that_no_server_allows_are_noticed() {
    let oracle = "revisions-are-templates";
    assert_eq!(says_of_fabricated(oracle, stores("a", 1), |_| ()), None);
    let said = says_of_fabricated(oracle, stores("a", 1), |revision| {
        revision["data"]["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    });
    assert_eq!(said.as_deref(), Some("the data of revision agent-a was changed"));
    let oracle = "daemon-statuses-make-sense";
    let counted = || says(json!({"collisionCount": 2}));
    assert_eq!(says_of_fabricated(oracle, counted(), |_| ()), None);
    let said = says_of_fabricated(oracle, counted(), |set| set["status"]["collisionCount"] = json!(1));
    assert_eq!(said.as_deref(), Some("collisionCount of agent goes from 2 to 1"));
}
