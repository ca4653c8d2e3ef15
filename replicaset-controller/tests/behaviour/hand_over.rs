//! Take-overs from upstream and from an earlier leader.

use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{
    CONTROLLER_IDENTITY, NAMESPACE, REPLICA_SET_RESOURCE, REPLICATION_CONTROLLER_RESOURCE, TestCluster, orphan_pod,
    replica_set, replication_controller,
};

/// REPLICASET-51.
#[tokio::test(start_paused = true)]
async fn a_settled_set_is_taken_over_without_a_write() {
    let mut world = TestCluster::new().await;
    world.create_object(replica_set("web", 3)).await;
    world.create_object(replica_set("none", 0)).await;
    world.create_object(replication_controller("old", 2)).await;
    world.wait_until_settled().await;
    world.crash_loops();
    world.clear_logs();
    world.start_loops();
    world.wait_until_settled().await;
    assert!(world.own_writes().is_empty(), "{:?}", world.own_writes());
    for resource in [REPLICA_SET_RESOURCE, REPLICATION_CONTROLLER_RESOURCE, "pods"] {
        assert_eq!(world.request_count("get", resource), 0);
    }
}

/// REPLICASET-51.
#[tokio::test(start_paused = true)]
async fn a_set_settled_by_upstream_is_taken_over_without_a_write() {
    let mut world = TestCluster::new().await;
    world.crash_loops();
    let owner = world.create_object(replica_set("web", 1)).await;
    let mut pod = orphan_pod("web-abcde", "web");
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}]);
    world.create_object(pod).await;
    world.wait_until_settled().await;
    // Upstream writes every counter of the status, and no null.
    let status = json!({"status": {"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "terminatingReplicas": 0, "observedGeneration": 1}});
    world.sandbox.merge(REPLICA_SET_RESOURCE, Some(NAMESPACE), "web", Some("status"), status).await.unwrap();
    world.clear_logs();
    world.start_loops();
    world.wait_until_settled().await;
    assert!(world.own_writes().is_empty());
}

/// REPLICASET-52.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_creates_no_surplus_pod() {
    // A run has 6 creations, at least 2 status writes and 3 deletions. At write `at`, the process crashes, and its open
    // requests or their answers are lost.
    for at in 0..12 {
        for lost in [Action::CutBefore, Action::CutAfter] {
            let mut world = TestCluster::new().await;
            world.create_object(orphan_pod("stray", "web")).await;
            world.wait_until_settled().await;
            world.clear_logs();
            let mut writes = world.sandbox.writes().subscribe();
            let verbs = ["create", "patch", "delete"];
            world.create_object(replica_set("web", 6)).await;
            let mut ours = 0;
            let mut scaled = false;
            loop {
                let next = tokio::time::timeout(std::time::Duration::from_secs(5), writes.recv()).await;
                match next {
                    Ok(Some(write)) if write.identity == CONTROLLER_IDENTITY && write.resource != "events" => {
                        ours += 1;
                        if ours == at {
                            for verb in verbs {
                                world
                                    .sandbox
                                    .faults()
                                    .add(Rule::new(lost.clone()).identity(CONTROLLER_IDENTITY).verb(verb).times(1));
                            }
                            tokio::task::yield_now().await;
                            world.crash_loops();
                            world.sandbox.faults().clear();
                            world.start_loops();
                        }
                    }
                    Ok(Some(_)) => {}
                    _ if !scaled => {
                        scaled = true;
                        world.set_replicas("web", 3).await;
                    }
                    _ => break,
                }
            }
            world.wait_until_settled().await;
            assert_eq!(world.active_pod_names().await.len(), 3, "crash at {at}");
            assert!(world.max_live_pod_count() <= 6, "crash at {at}: {} Pods", world.max_live_pod_count());
            let status = world.get_object(REPLICA_SET_RESOURCE, "web").await["status"].clone();
            assert_eq!((&status["replicas"], &status["readyReplicas"]), (&json!(3), &json!(3)), "crash at {at}");
        }
    }
}

/// REPLICASET-53.
#[tokio::test(start_paused = true)]
async fn a_deposed_leader_writes_nothing() {
    let world = TestCluster::new().await;
    world.sandbox.faults().add(
        Rule::new(Action::Latency(std::time::Duration::from_millis(10))).identity(CONTROLLER_IDENTITY).verb("create"),
    );
    world.create_object(replica_set("web", 100)).await;
    world.clock.sleep(std::time::Duration::from_millis(35)).await;
    world.loops.as_ref().unwrap().depose();
    let then = world.own_writes().len();
    assert!(then > 0 && then < 100);
    world.wait_seconds(60).await;
    // Only requests that had reached the server before the loss of leadership take effect.
    let later = world.own_writes().len();
    assert!(later <= then + 8, "{then} then, {later} later");
    assert!(world.conditions_of_set("web").await.is_empty());
    assert!(world.event_texts().await.iter().all(|e| e.starts_with("Normal")));
}

/// REPLICASET-44.
#[tokio::test(start_paused = true)]
async fn a_new_set_of_the_same_name_starts_without_expectations() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 3)).await;
    world.wait_until_settled().await;
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
    world.set_replicas("web", 1).await;
    world.wait_seconds(1).await;
    world.sandbox.delete(REPLICA_SET_RESOURCE, Some(NAMESPACE), "web").await.unwrap();
    world.create_object(replica_set("web", 2)).await;
    world.clear_logs();
    world.wait_seconds(1).await;
    // The sync of the new set does not wait for deletions of the old set's Pods, and does not count these Pods.
    assert_eq!(world.request_count("create", "pods"), 2);
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "pods");
    world.wait_until_settled().await;
    assert_eq!(world.request_count("create", "pods"), 2);
}

/// REPLICASET-18, REPLICASET-54.
#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_large_set() {
    let mut world = TestCluster::new().await;
    let slow = Action::Latency(std::time::Duration::from_millis(100));
    world.sandbox.faults().add(Rule::new(slow).identity(CONTROLLER_IDENTITY).verb("create").resource("pods"));
    world.create_object(replica_set("web", 100)).await;
    world.clock.sleep(std::time::Duration::from_millis(350)).await;
    let stopping = world.loops.take().unwrap();
    let begun = world.clock.monotonic_now();
    stopping.shutdown().await;
    assert!(begun.elapsed() < std::time::Duration::from_millis(200), "{:?}", begun.elapsed());
    // The batches of the slow start have 1, 2, 4 and 8 Pods.
    assert_eq!((world.active_pod_names().await.len(), world.request_count("create", "pods")), (15, 15));
    assert!(world.conditions_of_set("web").await.is_empty());
    world.sandbox.faults().clear();
    world.start_loops();
    world.wait_until_settled().await;
    assert_eq!((world.active_pod_names().await.len(), world.max_live_pod_count()), (100, 100));
}
