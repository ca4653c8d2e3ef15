//! Syncs on stale caches, while the sandbox delays or breaks the watches.

use crate::world::*;

/// REPLICASET-40, REPLICASET-41, REPLICASET-60, REPLICASET-64, REPLICASET-72, REPLICASET-73.
#[tokio::test(start_paused = true)]
async fn no_pod_is_created_or_deleted_twice_while_the_cache_is_stale() {
    let [set, controller] = web_of_each_kind(3);
    for (waits_for_pods, gate, (resource, object)) in
        [(true, true, set.clone()), (false, false, set), (false, true, controller)]
    {
        let case = format!("{resource}, gate {gate}");
        let world = cluster().gate("StaleControllerConsistencyReplicaSet", gate).start().await;
        let touch_for_20_seconds = async || {
            for _ in 0..20 {
                world.wait(1).await;
                world.touch(resource, "web").await;
            }
        };
        let scale = async |replicas: usize| {
            world.patch(resource, "web", json!({"spec": {"replicas": replicas}})).await;
            touch_for_20_seconds().await;
        };
        world.delay(resource.split('.').next().unwrap(), 5);
        world.hold("pods");
        world.create(object).await;
        touch_for_20_seconds().await;
        assert_eq!((world.count("create", "pods"), world.active_pods().await.len()), (3, 3), "{case}");
        let skips = "replicaset_controller_stale_sync_skips_total{group=\"\",resource=\"pods\"}";
        assert_eq!(world.metrics().contains(skips), waits_for_pods, "{case}");
        world.release("pods");
        world.wait(20).await;
        assert_eq!((world.count("create", "pods"), world.max_live_pods()), (3, 3), "{case}");
        assert_eq!(world.status_of(resource, "web").await["readyReplicas"], 3, "{case}");
        world.hold("pods");
        world.clear_log();
        scale(1).await;
        assert_eq!((world.count("delete", "pods"), world.active_pods().await.len()), (2, 1), "{case}");
        scale(3).await;
        assert_eq!(world.count("create", "pods"), 0, "{case}");
        world.release("pods");
        world.wait(20).await;
        assert_eq!((world.active_pods().await.len(), world.count("create", "pods")), (3, 2), "{case}");
    }
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
