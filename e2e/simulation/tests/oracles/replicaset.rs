//! The oracles of ReplicaSets.

use super::{
    Actor::{Impostor, User},
    *,
};

const ORACLES: Oracles = Oracles("replicaset");
const CONTROLLER: Actor = Impostor("replicaset-controller");
const SETS: &str = "replicasets.apps";
const PODS: &str = "pods";

fn set(replicas: i64) -> Act {
    User.creates(move |_| {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "img:1"}]}}}})
    })
}

fn scaled(replicas: i64) -> Act {
    User.patches(SETS, "web", json!({"spec": {"replicas": replicas}}))
}

fn of_web(world: &World) -> Value {
    controlled_by(world.get(SETS, "default", "web").unwrap())
}

fn creates_with(name: &'static str, change: fn(&mut Value)) -> Act {
    CONTROLLER.creates(move |world| {
        let mut pod = pod(name, of_web(world));
        change(&mut pod);
        pod
    })
}

fn creates(name: &'static str) -> Act {
    creates_with(name, |_| ())
}

fn deletes(name: &'static str) -> Act {
    CONTROLLER.deletes(PODS, name)
}

/// A Pod of a user.
fn stray(labels: Value, owner_references: Value) -> Act {
    User.creates(move |_| {
        let mut pod = pod("stray", owner_references.clone());
        pod["metadata"]["labels"] = labels.clone();
        pod
    })
}

fn adopts() -> Act {
    CONTROLLER.acts(|world| What::merge(PODS, "stray", json!({"metadata": {"ownerReferences": of_web(world)}})))
}

fn says(status: Value) -> Act {
    CONTROLLER.patches_status(SETS, "web", status)
}

fn counts(replicas: i64, ready: i64) -> Act {
    says(json!({"observedGeneration": 1, "replicas": replicas, "readyReplicas": ready, "availableReplicas": ready}))
}

#[test]
fn a_pod_too_many_and_a_pod_too_few_are_noticed() {
    ORACLES.notice("creates-only-what-is-missing", &[set(1), creates("a")], &[creates("b")]);
    ORACLES.notice("deletes-only-what-is-too-much", &[set(1), creates("a")], &[deletes("a")]);
    ORACLES.allow("deletes-only-what-is-too-much", &[set(2), creates("a"), creates("b")], &[scaled(1), deletes("a")]);
}

#[test]
fn writes_for_a_set_that_is_deleted_are_noticed() {
    let oracle = "the-deleted-make-nothing";
    let world = [vec![set(2), creates("a")], terminating(SETS, "web")].concat();
    ORACLES.notice(oracle, &world, &[creates("b")]);
    ORACLES.notice(oracle, &world, &[deletes("a")]);
}

#[test]
fn deletions_and_changes_of_other_pods_are_noticed() {
    let web = || json!({"app": "web"});
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    ORACLES.notice("deletes-only-its-own", &[set(0), stray(web(), json!([]))], &[deletes("stray")]);
    let taken_out = User.patches(PODS, "a", json!({"metadata": {"labels": {"app": "else"}}}));
    ORACLES.notice("deletes-only-its-own", &[set(0), creates("a"), taken_out], &[deletes("a")]);
    ORACLES.allow("deletes-only-its-own", &[set(0), creates("a")], &[deletes("a")]);
    let of_a_job = stray(web(), controlled_by_another("Job"));
    let patches = |name| CONTROLLER.patches(PODS, name, labels.clone());
    ORACLES.notice("other-pods-are-untouched", &[of_a_job], &[patches("stray")]);
    ORACLES.notice(
        "other-pods-are-untouched",
        &[vec![set(1), creates("a")], terminating(PODS, "a")].concat(),
        &[patches("a")],
    );
}

#[test]
fn pods_without_owner_or_with_other_labels_are_noticed() {
    for change in [
        (|pod: &mut Value| pod["metadata"]["ownerReferences"] = json!([])) as fn(&mut Value),
        |pod| pod["metadata"]["labels"] = json!({"app": "else"}),
        |pod| pod["metadata"]["labels"]["a"] = json!("b"),
    ] {
        ORACLES.notice("pods-are-born-owned", &[set(1)], &[creates_with("a", change)]);
    }
    ORACLES.allow("pods-are-born-owned", &[set(1)], &[creates("a")]);
}

#[test]
fn adoptions_for_a_deleted_set_or_of_another_pod_are_noticed() {
    let oracle = "only-the-living-adopt";
    let world = [set(1), stray(json!({"app": "web"}), json!([]))];
    ORACLES.notice(oracle, &world, &[terminating(SETS, "web"), vec![adopts()]].concat());
    ORACLES.notice(oracle, &[set(1), stray(json!({"app": "else"}), json!([]))], &[adopts()]);
    ORACLES.allow(oracle, &world, &[adopts()]);
}

#[test]
fn a_generation_that_is_not_yet_is_noticed() {
    ORACLES.notice("counts-make-sense", &[set(1)], &[says(json!({"observedGeneration": 2}))]);
    ORACLES.allow("counts-make-sense", &[set(1)], &[says(json!({"observedGeneration": 1}))]);
}

#[test]
fn a_ready_pod_that_is_deleted_before_an_unready_one_is_noticed() {
    let unready = creates_with("unready", |pod| pod["metadata"]["annotations"] = json!({"sim/never-ready": "true"}));
    let world = [set(2), creates("ready"), unready, scaled(1)];
    let ends_sync = || counts(2, 1).at_once();
    ORACLES.notice("the-unready-go-first", &world, &[deletes("ready"), ends_sync()]);
    ORACLES.allow("the-unready-go-first", &world, &[deletes("unready"), ends_sync()]);
}

#[test]
fn a_release_that_changes_more_than_the_controller_is_noticed() {
    let oracle = "a-release-is-a-release";
    let world = [set(1), creates("a")];
    let patches = |metadata: Value| CONTROLLER.patches(PODS, "a", json!({ "metadata": metadata }));
    ORACLES.notice(oracle, &world, &[patches(json!({"labels": {"app": "else"}, "ownerReferences": null}))]);
    ORACLES.allow(oracle, &world, &[patches(json!({"ownerReferences": null}))]);
    let owned_twice = User.acts(|world| {
        let mut references = of_web(world);
        let mut other = controlled_by_another("Report")[0].clone();
        other["controller"] = json!(false);
        references.as_array_mut().unwrap().push(other);
        What::merge(PODS, "a", json!({"metadata": {"ownerReferences": references}}))
    });
    ORACLES.notice(oracle, &world, &[owned_twice, patches(json!({"ownerReferences": null}))]);
}

#[test]
fn a_set_without_its_pods_or_with_others_or_that_says_otherwise_is_noticed() {
    let oracle = "sets-get-there";
    let world = [set(1), creates("a"), counts(1, 1)];
    let failure = json!([{"type": "ReplicaFailure", "status": "True", "lastTransitionTime": "2026-11-21T10:00:00Z"}]);
    for wrong in [
        deletes("a"),
        User.patches(PODS, "a", json!({"metadata": {"labels": {"app": "else"}}})),
        stray(json!({"app": "web"}), json!([])),
        counts(1, 0),
        User.patches(SETS, "web", json!({"spec": {"minReadySeconds": 1}})),
        says(json!({"conditions": failure})),
    ] {
        ORACLES.notice(oracle, &world, &[wrong]);
    }
    let unselected = creates_with("b", |pod| pod["metadata"]["labels"]["app"] = json!("else"));
    ORACLES.notice(oracle, &world, &[unselected]);
    ORACLES.notice(oracle, &[], &[set(1)]);
}
