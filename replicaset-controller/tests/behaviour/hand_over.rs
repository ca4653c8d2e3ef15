//! Take-overs from upstream and from an earlier leader.

use crate::world::*;

/// REPLICASET-51.
#[tokio::test(start_paused = true)]
async fn a_settled_set_is_taken_over_without_a_write() {
    let mut world = cluster().settled(web(3)).await;
    world.create(replica_set("none", 0)).await;
    world.create(replication_controller("old", 2)).await;
    let unread = [("get", SETS), ("get", REPLICATION_CONTROLLERS), ("get", "pods")];
    conformance::settled_objects_are_left_alone(&mut world, &unread).await;
    assert_eq!(world.loops().explain(Some("shop/old"))[1]["state"], "settled");
}

/// REPLICASET-51.
#[tokio::test(start_paused = true)]
async fn a_set_settled_by_upstream_is_taken_over_without_a_write() {
    let mut world = cluster().start().await;
    world.crash();
    let owner = world.create(web(1)).await;
    world.create_and_settle(controlled_by(orphan_pod("web-abcde", "web"), &owner)).await;
    // Upstream writes every counter of the status, and no null.
    world
        .patch_status(
            SETS,
            "web",
            json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "terminatingReplicas": 0, "observedGeneration": 1}),
        )
        .await;
    world.clear_log();
    world.start();
    world.settle().await;
    world.assert_wrote_nothing();
}

/// REPLICASET-52.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_creates_no_surplus_pod() {
    let scene = Scene {
        cluster: cluster(),
        settled: vec![orphan_pod("stray", "web")],
        steps: vec![Step::Create(web(6)), Step::Change(json!({"replicas": 3}))],
    };
    // An adoption, 5 creations, 3 deletions, and at least 2 status writes.
    scene
        .crash_at_any_write(11, async |world, case| {
            assert_eq!(world.active_pods().await.len(), 3, "{case}");
            assert!(world.max_live_pods() <= 6, "{case}: {} Pods", world.max_live_pods());
            assert_eq!(pick(&world.status().await, "replicas readyReplicas"), json!([3, 3]), "{case}");
        })
        .await;
}

/// REPLICASET-53.
#[tokio::test(start_paused = true)]
async fn a_deposed_leader_writes_nothing() {
    let world = cluster().start().await;
    conformance::a_deposed_leader_writes_nothing(&world, web(100)).await;
    assert!(world.conditions().await.is_empty());
}

/// REPLICASET-44.
#[tokio::test(start_paused = true)]
async fn a_new_set_of_the_same_name_starts_without_expectations() {
    let world = cluster().settled(web(3)).await;
    world.hold("pods");
    world.scale(1).await;
    world.wait(1).await;
    world.delete(SETS, "web").await;
    world.create(web(2)).await;
    world.clear_log();
    world.wait(1).await;
    // The sync of the new set does not wait for deletions of the old set's Pods, and does not count these Pods.
    assert_eq!(world.count("create", "pods"), 2);
    world.release("pods");
    world.settle().await;
    assert_eq!(world.count("create", "pods"), 2);
}

/// REPLICASET-18, REPLICASET-54.
#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_large_set() {
    let mut world = cluster().start().await;
    let slow = Action::Latency(Duration::from_millis(100));
    world.fault(rule(slow, "create", "pods"));
    world.create(web(100)).await;
    world.wait(0.35).await;
    let begun = world.clock.monotonic_now();
    world.shut_down().await;
    assert!(begun.elapsed() < Duration::from_millis(200), "{:?}", begun.elapsed());
    // The batches of the slow start have 1, 2, 4 and 8 Pods.
    assert_eq!((world.active_pods().await.len(), world.count("create", "pods")), (15, 15));
    assert!(world.conditions().await.is_empty());
    world.clear_faults();
    world.start();
    world.settle().await;
    assert_eq!((world.active_pods().await.len(), world.max_live_pods()), (100, 100));
}
