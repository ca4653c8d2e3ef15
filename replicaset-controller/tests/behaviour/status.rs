//! Content and time of status writes.

use crate::world::*;

const STATUS: &str = "replicasets.apps/status";

/// REPLICASET-36, REPLICASET-56.
#[tokio::test(start_paused = true)]
async fn pods_become_available_on_time() {
    let world = cluster().start().await;
    world.create(with_spec(web(3), json!({"minReadySeconds": 30}))).await;
    world.wait(29).await;
    let status = world.status().await;
    assert_eq!(pick(&status, "readyReplicas availableReplicas"), json!([3, null]));
    let told = world.loops().explain(Some("shop/web"));
    assert_eq!(told[0]["waiting"], json!(["3 ready Pods are not available yet, the next in 1s"]));
    world.wait(2).await;
    assert_eq!(world.status().await["availableReplicas"], 3);
    world.clear_log();
    world.wait(600).await;
    world.assert_wrote_nothing();
}

/// REPLICASET-31, REPLICASET-63.
#[tokio::test(start_paused = true)]
async fn terminating_pods_are_counted_if_the_gate_is_on() {
    for (gate, then) in [(true, json!(2)), (false, json!(null))] {
        let world = cluster()
            .gate("DeploymentReplicaSetTerminatingReplicas", gate)
            .settled(annotated(web(3), json!({"sim/terminate-after": "20"})))
            .await;
        world.change_and_settle(json!({"replicas": 1})).await;
        let status = world.status().await;
        assert_eq!((&status["replicas"], &status["terminatingReplicas"]), (&json!(1), &then));
        world.wait(30).await;
        let after = if gate { json!(0) } else { json!(null) };
        assert_eq!(world.status().await["terminatingReplicas"], after);
    }
}

/// REPLICASET-59.
#[tokio::test(start_paused = true)]
async fn a_replication_controller_has_no_count_of_terminating_pods() {
    let world =
        cluster().settled(annotated(replication_controller("old", 2), json!({"sim/terminate-after": "20"}))).await;
    world.patch_and_settle(REPLICATION_CONTROLLERS, "old", json!({"spec": {"replicas": 1}})).await;
    assert_eq!(world.get(REPLICATION_CONTROLLERS, "old").await["status"]["terminatingReplicas"], json!(null));
}

/// REPLICASET-63.
#[tokio::test(start_paused = true)]
async fn a_server_without_the_terminating_field_gets_no_repeated_writes() {
    let world =
        cluster().server(|server| server.gate("DeploymentReplicaSetTerminatingReplicas", false)).settled(web(2)).await;
    assert_eq!(world.status().await.get("terminatingReplicas"), None);
    world.clear_log();
    for _ in 0..10 {
        world.touch_subject().await;
        world.wait(1).await;
    }
    assert_eq!(world.count("patch", STATUS), 0);
}

/// REPLICASET-76.
#[tokio::test(start_paused = true)]
async fn a_status_conflict_is_retried_once_onto_the_live_object() {
    let world = cluster().settled(web(2)).await;
    let pod = world.first_active_pod().await;
    world.hold("replicasets");
    world.touch_subject().await;
    world.clear_log();
    world.patch_pod_status(&pod, ready_condition("False")).await;
    world.wait(1).await;
    let status = world.status().await;
    assert_eq!(pick(&status, "replicas readyReplicas"), json!([2, 1]));
    assert_eq!((world.count("patch", STATUS), world.count("get", SETS)), (2, 1));
    // No further status write follows until the cache shows the last write.
    world.wait(60).await;
    assert_eq!((world.count("patch", STATUS), world.count("get", SETS)), (2, 1));
    world.release("replicasets");
    world.settle().await;
}

/// REPLICASET-76.
#[tokio::test(start_paused = true)]
async fn a_status_conflict_that_the_watch_resolves_soon_costs_no_read() {
    let world = cluster().settled(web(2)).await;
    let pod = world.first_active_pod().await;
    world.delay("replicasets", 0.09);
    world.touch_subject().await;
    world.clear_log();
    world.patch_pod_status(&pod, ready_condition("False")).await;
    world.wait(1).await;
    assert_eq!(world.status().await["readyReplicas"], 1);
    assert_eq!((world.count("patch", STATUS), world.count("get", SETS)), (2, 0));
}

/// REPLICASET-76.
#[tokio::test(start_paused = true)]
async fn a_status_is_never_written_onto_a_new_set_of_the_same_name() {
    let world = cluster().settled(web(2)).await;
    let pod = world.first_active_pod().await;
    world.hold("replicasets");
    world.delete(SETS, "web").await;
    world.create(web(0)).await;
    world.clear_log();
    world.patch_pod_status(&pod, ready_condition("False")).await;
    world.wait(1).await;
    assert!(world.count("patch", STATUS) > 0);
    assert_eq!(world.status().await, json!({"replicas": 0}));
}

/// REPLICASET-34.
#[tokio::test(start_paused = true)]
async fn unknown_status_fields_are_kept() {
    let world = cluster().server(|server| server.keep_unknown_fields(true)).settled(web(1)).await;
    let more = json!({"fromTheFuture": 3,
        "conditions": [{"type": "Other", "status": "True", "alsoNew": [1]}]});
    let before = world.patch_status(SETS, "web", more).await["status"]["conditions"].clone();
    assert_eq!(before[0]["alsoNew"], json!([1]));
    world.change_and_settle(json!({"replicas": 2})).await;
    let status = world.status().await;
    assert_eq!(pick(&status, "replicas fromTheFuture"), json!([2, 3]));
    assert_eq!(status["conditions"], before);
}
