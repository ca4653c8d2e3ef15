//! The oracles of Deployments.

use super::{
    Actor::{Impostor, User},
    *,
};

const ORACLES: Oracles = Oracles("deployment");
const CONTROLLER: Actor = Impostor("deployment-controller");
const DEPLOYMENTS: &str = "deployments.apps";
const SETS: &str = "replicasets.apps";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// A Deployment of two replicas that surges by one.
fn deployment(spec: Value) -> Act {
    User.creates(move |_| {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "img:1"}]}}}});
        with_spec(deployment, &spec)
    })
}

fn changed(spec: Value) -> Act {
    User.patches(DEPLOYMENTS, "web", json!({ "spec": spec }))
}

fn paused() -> Act {
    changed(json!({"paused": true}))
}

fn image(image: &str) -> Act {
    changed(json!({"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}))
}

fn web(world: &World) -> &Value {
    world.get(DEPLOYMENTS, "default", "web").unwrap()
}

/// Creates the ReplicaSet `web-<revision>` of the template of the moment.
fn creates(revision: i64, replicas: i64) -> Act {
    CONTROLLER.creates(move |world| {
        let hash = revision.to_string();
        let mut spec = json!({"replicas": replicas, "template": web(world)["spec"]["template"],
            "selector": {"matchLabels": {"app": "web", "pod-template-hash": hash}}});
        spec["template"]["metadata"]["labels"]["pod-template-hash"] = json!(hash);
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": spec,
            "metadata": {"name": format!("web-{revision}"), "labels": spec["template"]["metadata"]["labels"],
                "annotations": {REVISION: hash}, "ownerReferences": controlled_by(web(world))}})
    })
}

fn sizes(set: &'static str, replicas: i64) -> Act {
    CONTROLLER.patches(SETS, set, json!({"spec": {"replicas": replicas}}))
}

/// What the ReplicaSet controller says of a set whose Pods are all available.
fn observed(set: &'static str, generation: i64, replicas: i64) -> Act {
    User.patches_status(
        SETS,
        set,
        json!({"observedGeneration": generation, "replicas": replicas, "readyReplicas": replicas,
            "availableReplicas": replicas}),
    )
}

fn set_revision(set: &'static str, revision: &str) -> Act {
    CONTROLLER.patches(SETS, set, json!({"metadata": {"annotations": {REVISION: revision}}}))
}

/// Annotates the Deployment through its status, which leaves its generation as it is.
fn revision(revision: &str) -> Act {
    let patch = json!({"metadata": {"annotations": {REVISION: revision}}});
    CONTROLLER.acts(move |_| What::MergeStatus(DEPLOYMENTS.to_owned(), "web".to_owned(), patch.clone()))
}

fn progressing(reason: &str) -> Act {
    let time = "2026-11-21T10:00:00Z";
    let condition = json!({"type": "Progressing", "status": "True", "reason": reason, "lastUpdateTime": time,
        "lastTransitionTime": time});
    CONTROLLER.patches_status(DEPLOYMENTS, "web", json!({"conditions": [condition]}))
}

/// A Deployment, its first ReplicaSet of that size, and another template.
fn in_a_rollout(spec: Value, replicas: i64) -> Vec<Act> {
    vec![deployment(spec), creates(1, replicas), image("img:2")]
}

#[test]
fn too_many_replicas_in_a_rollout_are_noticed() {
    let world = in_a_rollout(json!({}), 2);
    ORACLES.notice("surge-is-bounded", &world, &[creates(2, 2)]);
    ORACLES.notice("surge-is-bounded", &world, &[creates(2, 1), sizes("web-2", 2)]);
    ORACLES.allow("surge-is-bounded", &world, &[creates(2, 1), sizes("web-1", 1), sizes("web-2", 2)]);
}

#[test]
fn too_few_available_replicas_in_a_rollout_are_noticed() {
    let world = [in_a_rollout(json!({}), 2), vec![observed("web-1", 1, 2), creates(2, 1)]].concat();
    ORACLES.notice("availability-is-kept", &world, &[sizes("web-1", 1)]);
    ORACLES.allow("availability-is-kept", &world, &[observed("web-2", 1, 1), sizes("web-1", 1)]);
}

#[test]
fn pods_of_two_templates_under_recreate_are_noticed() {
    let world = in_a_rollout(json!({"strategy": {"type": "Recreate", "rollingUpdate": null}}), 1);
    let runs = User.creates(|world| pod("old", controlled_by(world.get(SETS, "default", "web-1").unwrap())));
    ORACLES.notice("recreate-waits", &world, &[runs, creates(2, 1)]);
    ORACLES.allow("recreate-waits", &world, &[creates(2, 1)]);
}

#[test]
fn changed_templates_and_specifications_are_noticed() {
    let template = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "img:9"}]}}}});
    let world = [deployment(json!({})), creates(1, 2)];
    ORACLES.notice("templates-are-untouched", &world, &[CONTROLLER.patches(SETS, "web-1", template)]);
    let replicas = json!({"spec": {"replicas": 3}});
    ORACLES.notice("templates-are-untouched", &world, &[CONTROLLER.patches(DEPLOYMENTS, "web", replicas)]);
    let annotation = json!({"metadata": {"annotations": {REVISION: "1"}}});
    ORACLES.notice("templates-are-untouched", &world, &[CONTROLLER.patches(DEPLOYMENTS, "web", annotation)]);
    ORACLES.allow("templates-are-untouched", &world, &[sizes("web-1", 1), revision("1")]);
}

#[test]
fn revisions_that_fall_are_noticed() {
    let world = [deployment(json!({})), creates(2, 2), revision("2")];
    ORACLES.notice("revisions-grow", &world, &[revision("1")]);
    ORACLES.notice("revisions-grow", &world, &[set_revision("web-2", "1")]);
    ORACLES.allow("revisions-grow", &world, &[set_revision("web-2", "3"), revision("3")]);
}

#[test]
fn deleted_sets_that_are_newest_or_have_pods_or_are_not_observed_are_noticed() {
    let (oracle, delete) = ("only-the-finished-are-deleted", CONTROLLER.deletes(SETS, "web-1"));
    ORACLES.notice(oracle, &in_a_rollout(json!({}), 1), &[observed("web-1", 1, 1), delete.clone()]);
    ORACLES.notice(oracle, &in_a_rollout(json!({}), 0), std::slice::from_ref(&delete));
    ORACLES.notice(oracle, &[deployment(json!({}))], &[creates(1, 0), observed("web-1", 1, 0), delete.clone()]);
    let relabels = User.patches(SETS, "web-1", json!({"metadata": {"labels": {"app": "other"}}}));
    let taken_out = [observed("web-1", 1, 0), relabels, delete.clone()];
    ORACLES.notice_that(oracle, "its labels have taken it out", &in_a_rollout(json!({}), 0), &taken_out);
    ORACLES.allow(oracle, &in_a_rollout(json!({}), 0), &[observed("web-1", 1, 0), delete]);
}

#[test]
fn sets_of_others_and_adoptions_for_a_deleted_deployment_are_noticed() {
    let oracle = "others-are-untouched";
    let stray = |owners: fn() -> Value| {
        User.creates(move |_| {
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {"name": "other", "labels": {"app": "web"}, "ownerReferences": owners()},
                "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}},
                        "spec": {"containers": [{"name": "c", "image": "img:1"}]}}}})
        })
    };
    let orphan = [deployment(json!({})), stray(|| json!([]))];
    let adopts = CONTROLLER
        .acts(|world| What::merge(SETS, "other", json!({"metadata": {"ownerReferences": controlled_by(web(world))}})));
    ORACLES.notice(oracle, &[stray(|| controlled_by_another("Rollout"))], &[sizes("other", 1)]);
    ORACLES.notice(oracle, &orphan, &[CONTROLLER.deletes(SETS, "other")]);
    ORACLES.notice(oracle, &orphan, &[terminating(DEPLOYMENTS, "web"), vec![adopts.clone()]].concat());
    ORACLES.allow(oracle, &orphan, &[adopts]);
}

#[test]
fn a_rollout_that_goes_on_while_paused_is_noticed() {
    let world = in_a_rollout(json!({}), 1);
    ORACLES.notice("pausing-pauses", &world, &[paused(), creates(2, 1)]);
    ORACLES.notice("pausing-pauses", &world, &[creates(2, 1), paused(), sizes("web-2", 2)]);
    ORACLES.allow("pausing-pauses", &world, &[paused(), sizes("web-1", 2)]);
}

#[test]
fn an_event_about_what_was_not_done_is_noticed() {
    let event = CONTROLLER.creates(|world| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "scaled"}, "reason": "ScalingReplicaSet",
            "message": "Scaled up replica set web-1 from 0 to 2", "type": "Normal", "count": 1,
            "involvedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web",
                "uid": uid(web(world))}})
    });
    let again = CONTROLLER.patches("events", "scaled", json!({"count": 2}));
    let world = [deployment(json!({}))];
    ORACLES.notice("events-tell-the-truth", &world, std::slice::from_ref(&event));
    ORACLES.notice("events-tell-the-truth", &world, &[creates(1, 2), event, again]);
}

#[test]
fn a_deadline_that_is_missed_while_paused_or_after_the_rollout_is_noticed() {
    let (oracle, late) = ("deadlines-are-fair", progressing("ProgressDeadlineExceeded"));
    let world = [deployment(json!({}))];
    ORACLES.notice(oracle, &world, &[paused(), late.clone()]);
    ORACLES.notice(oracle, &world, &[progressing("NewReplicaSetAvailable"), late.clone()]);
    ORACLES.allow(oracle, &world, &[progressing("ReplicaSetUpdated"), late]);
}

#[test]
fn a_second_set_of_one_template_is_noticed() {
    ORACLES.notice("one-set-a-template", &[deployment(json!({})), creates(1, 0)], &[creates(2, 0)]);
    ORACLES.allow("one-set-a-template", &in_a_rollout(json!({}), 0), &[creates(2, 0)]);
}

#[test]
fn a_write_to_a_pod_is_noticed() {
    let world = [User.creates(|_| pod("web-0", json!([])))];
    ORACLES.notice("pods-are-not-its-business", &world, &[CONTROLLER.deletes("pods", "web-0")]);
    ORACLES.notice("pods-are-not-its-business", &[], &[CONTROLLER.creates(|_| pod("web-0", json!([])))]);
}

#[test]
fn a_deployment_that_is_not_rolled_out_or_says_otherwise_is_noticed() {
    let oracle = "deployments-get-there";
    let counts = |count: i64| {
        CONTROLLER.patches_status(
            DEPLOYMENTS,
            "web",
            json!({"observedGeneration": 1, "replicas": count, "updatedReplicas": count, "readyReplicas": count,
                "availableReplicas": count}),
        )
    };
    let rolled_out = |spec: Value| {
        let available = progressing("NewReplicaSetAvailable");
        vec![deployment(spec), creates(1, 2), revision("1"), available, counts(2)]
    };
    for wrong in [
        changed(json!({"replicas": 3})),
        counts(1),
        progressing("ReplicaSetUpdated"),
        sizes("web-1", 1),
        set_revision("web-1", "2"),
        creates(2, 0),
    ] {
        ORACLES.notice(oracle, &rolled_out(json!({})), &[wrong]);
    }
    ORACLES.notice(oracle, &rolled_out(json!({"revisionHistoryLimit": 0})), &[creates(0, 0)]);
    ORACLES.allow(oracle, &rolled_out(json!({"revisionHistoryLimit": 1})), &[creates(0, 0)]);
    ORACLES.notice(oracle, &[], &[deployment(json!({}))]);
}
