//! Deployments with all numbers at their limits do not slow down others.

use deployment_controller::objects::REVISION_ANNOTATION;
use testkit::conformance::{Observation, Observed};

use crate::{METER, world::*};

/// Namespaces of the hostile Deployments. In `few-pods`, a quota refuses Pods; in `no-sets`, the server refuses ReplicaSets.
const FEW_PODS: &str = "few-pods";
const NO_SETS: &str = "no-sets";
/// Number of ordinary Deployments.
const ORDINARY: usize = 50;
/// Number of Pods that the quota allows for each ReplicaSet.
const QUOTA: i64 = 20;
/// Number of old ReplicaSets of each of two hostile Deployments.
const OLD_SETS: usize = 200;
/// Maximum number of requests for the hostile Deployments: one for each old ReplicaSet, which is scaled down or deleted, and 150
/// for statuses, Events and retries of refused requests.
const HOSTILE_REQUESTS: u64 = 2 * OLD_SETS as u64 + 150;

/// DEPLOYMENT-68.
#[test]
fn hostile_deployments_do_not_slow_down_others() {
    let (alone, beside) = METER.run_cluster(async { (rollouts(false).await, rollouts(true).await) });
    assert_eq!((alone.elsewhere, &beside.inside), (0, &alone.inside));
    let bounds = 2 * OLD_SETS as u64..=HOSTILE_REQUESTS;
    assert!(bounds.contains(&beside.elsewhere), "{} requests for the hostile Deployments", beside.elsewhere);
}

/// Creates fifty Deployments and changes their image, with or without hostile Deployments beside them.
async fn rollouts(beside_hostile: bool) -> Observed {
    let mut world = cluster().start().await;
    // A real ReplicaSet controller would create billions of Pods; `play_replica_sets` only writes statuses.
    world.stop_replica_sets();
    if beside_hostile {
        add_hostile(&world).await;
    }
    let observation = Observation::begin(&world);
    for number in 0..ORDINARY {
        world.create(renamed(web(2), NAMESPACE, &format!("web-{number}"))).await;
    }
    until_complete(&world).await;
    if beside_hostile {
        for (namespace, name) in [(FEW_PODS, "huge"), (NO_SETS, "refused")] {
            let patch = json!({"spec": new_image("img:3", json!({}))});
            world.sandbox.merge(DEPLOYMENTS, Some(namespace), name, None, patch).await.unwrap();
        }
    }
    for number in 0..ORDINARY {
        let patch = json!({"spec": new_image("img:2", json!({}))});
        world.patch(DEPLOYMENTS, &format!("web-{number}"), patch).await;
    }
    until_complete(&world).await;
    observation.end(&world)
}

/// Creates the hostile Deployments, with all numbers at their limits: one with many old ReplicaSets to scale down, one with
/// many old ReplicaSets to delete, and some for which the server refuses ReplicaSets.
async fn add_hostile(world: &World) {
    for namespace in [FEW_PODS, NO_SETS] {
        world.create(testkit::objects::namespace(namespace)).await;
    }
    let mut refused = rule(Action::Forbidden, "create", "replicasets");
    refused.matcher.namespace = Some(NO_SETS.to_owned());
    world.fault(refused);
    let extreme = |namespace: &str, name: &str, replicas: i32, history: i32| {
        let limits = json!({"maxSurge": "100%", "maxUnavailable": i32::MAX});
        let spec = json!({"replicas": replicas, "revisionHistoryLimit": history, "minReadySeconds": i32::MAX - 1,
            "progressDeadlineSeconds": i32::MAX, "strategy": {"type": "RollingUpdate", "rollingUpdate": limits}});
        with_spec(renamed(web(0), namespace, name), spec)
    };
    // Old ReplicaSets are deleted only after their Deployment is complete.
    for (name, replicas, history, size) in [("kept", i32::MAX, i32::MAX, 1), ("deleted", 2, 0, 0)] {
        let deployment = world.create(extreme(FEW_PODS, name, replicas, history)).await;
        for number in 0..OLD_SETS {
            let metadata =
                json!({"name": format!("{name}-h{number}"), "annotations": {REVISION_ANNOTATION: number.to_string()}});
            let template = json!({"spec": pod_spec(&format!("old:{number}"))});
            let changes = json!({"kind": "ReplicaSet", "metadata": metadata, "spec": {"template": template}});
            world.create(controlled_by(merged(renamed(web(size), FEW_PODS, name), changes), &deployment)).await;
        }
    }
    world.create(extreme(FEW_PODS, "huge", i32::MAX, i32::MAX)).await;
    for name in ["refused", "refused-too"] {
        world.create(extreme(NO_SETS, name, i32::MAX, i32::MAX)).await;
    }
}

/// Plays the ReplicaSet controller until all ordinary Deployments are complete.
async fn until_complete(world: &World) {
    for _ in 0..120 {
        world.wait(1).await;
        play_replica_sets(world).await;
        world.wait(1).await;
        let deployments = world.list(DEPLOYMENTS).await;
        let is_complete = |deployment: &Value| {
            let status = &deployment["status"];
            ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|count| status[count] == 2)
                && status["observedGeneration"] == deployment["metadata"]["generation"]
        };
        if deployments.iter().all(is_complete) {
            return;
        }
    }
    panic!("the ordinary Deployments are not complete after 120 rounds");
}

/// Writes the status of each ReplicaSet once: all its Pods are available, or as many as the quota allows. Waits after each
/// write, so that the Deployment controller can act before the next write.
async fn play_replica_sets(world: &World) {
    let sets = world.sandbox.list(REPLICA_SETS, None).await.unwrap();
    for name in sets.iter().map(|set| &set["metadata"]) {
        let (namespace, name) = (name["namespace"].as_str().unwrap(), name["name"].as_str().unwrap());
        let Ok(set) = world.sandbox.get(REPLICA_SETS, Some(namespace), name).await else { continue };
        let (generation, wanted) = (&set["metadata"]["generation"], set["spec"]["replicas"].as_i64().unwrap());
        let pods = if namespace == NAMESPACE { wanted } else { wanted.min(QUOTA) };
        if set["status"]["observedGeneration"] == *generation && set["status"]["replicas"] == json!(pods) {
            continue;
        }
        let failure = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
            "message": "exceeded quota: pods", "lastTransitionTime": "2026-11-21T09:00:00Z"});
        let conditions = if pods < wanted { json!([failure]) } else { json!([]) };
        let status = json!({"replicas": pods, "readyReplicas": pods, "availableReplicas": pods,
            "observedGeneration": generation, "conditions": conditions});
        world
            .sandbox
            .merge(REPLICA_SETS, Some(namespace), name, Some("status"), json!({"status": status}))
            .await
            .unwrap();
        if namespace == NAMESPACE {
            world.wait(0.001).await;
        }
    }
}
