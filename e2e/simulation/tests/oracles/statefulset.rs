//! The promise of StatefulSets. The tests of their invariants are beside the invariants.

use super::{
    Actor::{Impostor, User},
    *,
};

const ORACLES: Oracles = Oracles("statefulset");
const CONTROLLER: Actor = Impostor("statefulset-controller");
const SETS: &str = "statefulsets.apps";

fn set(replicas: i64) -> Act {
    User.creates(move |_| {
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "img:1"}]}}}})
    })
}

#[test]
fn a_set_without_its_pods_or_that_says_otherwise_is_noticed() {
    let oracle = "stateful-sets-get-there";
    let observed = |ready: i64| {
        CONTROLLER.patches_status(
            SETS,
            "web",
            json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": ready, "availableReplicas": ready,
                "updatedReplicas": 1, "currentRevision": "web-a", "updateRevision": "web-a"}),
        )
    };
    let creates = CONTROLLER.creates(|world| {
        let mut pod = pod("web-0", controlled_by(world.get(SETS, "default", "web").unwrap()));
        pod["metadata"]["labels"]["controller-revision-hash"] = json!("web-a");
        pod
    });
    ORACLES.notice(oracle, &[], &[set(1)]);
    let stores = CONTROLLER.creates(|world| {
        let set = world.get(SETS, "default", "web").unwrap();
        json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
            "metadata": {"name": "web-a", "labels": {"app": "web"}, "ownerReferences": controlled_by(set)},
            "data": {"spec": {"template": set["spec"]["template"]}}})
    });
    let world = [set(1), stores, creates, observed(1)];
    ORACLES.notice(oracle, &world, &[observed(0)]);
    ORACLES.notice(oracle, &world, &[CONTROLLER.deletes("pods", "web-0")]);
}

#[test]
fn claims_that_outlive_their_set_or_go_with_it_against_its_policy_are_noticed() {
    let (oracle, oracles) = ("claims-follow-their-set", Oracles("statefulset-deletion"));
    let with_policy = |when_deleted: &'static str| {
        let set = User.creates(move |_| {
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
                "spec": {"replicas": 1, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}},
                        "spec": {"containers": [{"name": "c", "image": "img:1"}]}},
                    "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}}}}],
                    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": when_deleted, "whenScaled": "Retain"}}})
        });
        let claim = CONTROLLER.creates(|world| {
            let set = world.get(SETS, "default", "web").unwrap();
            let mut claim = set["spec"]["volumeClaimTemplates"][0].clone();
            claim["metadata"] = json!({"name": "data-web-0", "ownerReferences": controlled_by(set)});
            claim
        });
        // So long that the controller must have followed the policy.
        let waits = User.patches(SETS, "web", json!({"metadata": {"labels": {"seen": "yes"}}}));
        [vec![set, claim], vec![waits; 7]].concat()
    };
    let (deletes, collects) =
        (User.deletes(SETS, "web"), Impostor("gc-controller").deletes("persistentvolumeclaims", "data-web-0"));
    oracles.notice_that(oracle, "is left", &with_policy("Delete"), std::slice::from_ref(&deletes));
    oracles.allow(oracle, &with_policy("Delete"), &[deletes.clone(), collects.clone()]);
    oracles.allow(oracle, &with_policy("Retain"), std::slice::from_ref(&deletes));
    oracles.notice_that(oracle, "is gone", &with_policy("Retain"), &[deletes.clone(), collects.clone()]);
    // A policy that was changed just before is not asked for.
    let retained =
        json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}}});
    oracles.allow(oracle, &with_policy("Delete"), &[User.patches(SETS, "web", retained), deletes, collects]);
}
