//! Syncs on stale caches, while the sandbox delays or breaks the watches.

use crate::world::*;

/// REPLICASET-40, REPLICASET-64, REPLICASET-72, REPLICASET-73.
#[tokio::test(start_paused = true)]
async fn no_pod_is_created_twice_while_the_cache_is_stale() {
    for gate in [true, false] {
        let world = cluster().gate("StaleControllerConsistencyReplicaSet", gate).start().await;
        world.hold("pods");
        world.create(web(3)).await;
        world.touch_subject_for(20).await;
        assert_eq!((world.count("create", "pods"), world.active_pods().await.len()), (3, 3));
        let text = world.metrics();
        let counted = text.contains("replicaset_controller_stale_sync_skips_total{group=\"\",resource=\"pods\"}");
        assert_eq!(counted, gate);
        world.release("pods");
        world.settle().await;
        assert_eq!((world.count("create", "pods"), world.max_live_pods()), (3, 3));
        assert_eq!(world.status().await["readyReplicas"], 3);
    }
}

/// REPLICASET-41, REPLICASET-73.
#[tokio::test(start_paused = true)]
async fn no_pod_is_deleted_twice_while_the_cache_is_stale() {
    let world = cluster().settled(web(5)).await;
    world.hold("pods");
    world.clear_log();
    world.scale(3).await;
    world.touch_subject_for(20).await;
    assert_eq!((world.count("delete", "pods"), world.active_pods().await.len()), (2, 3));
    world.scale(5).await;
    world.wait(20).await;
    assert_eq!(world.count("create", "pods"), 0);
    world.release("pods");
    world.settle().await;
    assert_eq!((world.active_pods().await.len(), world.count("create", "pods")), (5, 2));
}

/// REPLICASET-60.
#[tokio::test(start_paused = true)]
async fn a_replication_controller_does_not_act_on_stale_caches() {
    let world = cluster().start().await;
    world.delay("pods", 3);
    world.delay("replicationcontrollers", 5);
    world.create(replication_controller("old", 4)).await;
    for _ in 0..30 {
        world.wait(1).await;
        world.touch(REPLICATION_CONTROLLERS, "old").await;
    }
    assert_eq!((world.count("create", "pods"), world.active_pods().await.len()), (4, 4));
    world.patch(REPLICATION_CONTROLLERS, "old", json!({"spec": {"replicas": 1}})).await;
    world.wait(60).await;
    assert_eq!((world.count("delete", "pods"), world.active_pods().await.len()), (3, 1));
}

/// REPLICASET-43.
#[tokio::test(start_paused = true)]
async fn a_set_waits_at_most_for_the_expectations_timeout() {
    let world = cluster().tunable("expectations-timeout", in_seconds(10)).settled(web(1)).await;
    world.hold("pods");
    world.scale(2).await;
    world.wait(8).await;
    assert_eq!(world.active_pods().await.len(), 2);
    world.wait(8).await;
    assert_eq!(world.active_pods().await.len(), 3, "after the timeout the set acts on the stale cache");
    world.release("pods");
    world.settle().await;
    assert_eq!(world.active_pods().await.len(), 2);
}

/// REPLICASET-45.
#[tokio::test(start_paused = true)]
async fn a_set_reaches_its_size_after_any_failure_of_a_watch() {
    for action in [Action::CloseWatch, Action::CutWatch, Action::Garbage, Action::HalfLine, Action::ExpireWatch] {
        let world = cluster().start().await;
        for resource in ["pods", "replicasets"] {
            world.fault(rule(action.clone(), "watch", resource).skip(3).times(3));
        }
        world.create(web(20)).await;
        world.wait(120).await;
        world.scale(7).await;
        world.wait(120).await;
        world.settle().await;
        assert_eq!((world.active_pods().await.len(), world.max_live_pods()), (7, 20), "{action:?}");
        assert_eq!((world.count("create", "pods"), world.count("delete", "pods")), (20, 13), "{action:?}");
        assert_eq!(world.status().await["readyReplicas"], 7, "{action:?}");
    }
}
