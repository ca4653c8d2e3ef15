//! Content and time of status writes.

use crate::world::*;

const STATUS: &str = "replicasets.apps/status";

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
    assert_eq!(world.count("update", STATUS), 0);
}

/// REPLICASET-76.
#[tokio::test(start_paused = true)]
async fn a_status_conflict_is_retried_once_onto_the_object_of_the_watch_or_of_a_live_read() {
    // Until the cache shows the last write, no further status write follows.
    for (delay_of_watch, reads, quiet_seconds) in [(0.09, 0, 0), (600.0, 1, 60)] {
        let world = cluster().settled(web(2)).await;
        let pod = world.first_active_pod().await;
        world.delay("replicasets", delay_of_watch);
        world.touch_subject().await;
        world.clear_log();
        world.patch_pod_status(&pod, ready_condition("False")).await;
        for seconds in [1, quiet_seconds] {
            world.wait(seconds).await;
            assert_eq!(pick(&world.status().await, "replicas readyReplicas"), json!([2, 1]));
            assert_eq!((world.count("update", STATUS), world.count("get", SETS)), (2, reads), "{delay_of_watch} s");
        }
    }
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
    assert!(world.count("update", STATUS) > 0);
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
