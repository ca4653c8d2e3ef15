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
