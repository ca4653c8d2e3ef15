//! Syncs on stale caches, while the sandbox delays or breaks the watches.

use std::time::Duration;

use common::settings::{OperatorSettings, TunableValue};
use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{
    CONTROLLER_IDENTITY, REPLICA_SET_RESOURCE, REPLICATION_CONTROLLER_RESOURCE, TestCluster, TestClusterSetup,
    replica_set, replication_controller,
};

/// REPLICASET-40, REPLICASET-64, REPLICASET-72, REPLICASET-73.
#[tokio::test(start_paused = true)]
async fn no_pod_is_created_twice_while_the_cache_is_stale() {
    for gate in [true, false] {
        let settings = OperatorSettings::new().with_feature_gate("StaleControllerConsistencyReplicaSet", gate);
        let world = TestCluster::with_setup(TestClusterSetup { settings, ..TestClusterSetup::default() }).await;
        world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
        world.create_object(replica_set("web", 3)).await;
        for _ in 0..20 {
            world.wait_seconds(1).await;
            world.touch_annotation(REPLICA_SET_RESOURCE, "web").await;
        }
        assert_eq!((world.request_count("create", "pods"), world.active_pod_names().await.len()), (3, 3));
        let text = world.loops.as_ref().unwrap().metrics().render_prometheus();
        let counted = text.contains("replicaset_controller_stale_sync_skips_total{group=\"\",resource=\"pods\"}");
        assert_eq!(counted, gate);
        world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "pods");
        world.wait_until_settled().await;
        assert_eq!((world.request_count("create", "pods"), world.max_live_pod_count()), (3, 3));
        assert_eq!(world.get_object(REPLICA_SET_RESOURCE, "web").await["status"]["readyReplicas"], 3);
    }
}

/// REPLICASET-41, REPLICASET-73.
#[tokio::test(start_paused = true)]
async fn no_pod_is_deleted_twice_while_the_cache_is_stale() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 5)).await;
    world.wait_until_settled().await;
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
    world.clear_logs();
    world.set_replicas("web", 3).await;
    for _ in 0..20 {
        world.wait_seconds(1).await;
        world.touch_annotation(REPLICA_SET_RESOURCE, "web").await;
    }
    assert_eq!((world.request_count("delete", "pods"), world.active_pod_names().await.len()), (2, 3));
    world.set_replicas("web", 5).await;
    world.wait_seconds(20).await;
    assert_eq!(world.request_count("create", "pods"), 0);
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "pods");
    world.wait_until_settled().await;
    assert_eq!((world.active_pod_names().await.len(), world.request_count("create", "pods")), (5, 2));
}

/// REPLICASET-60.
#[tokio::test(start_paused = true)]
async fn a_replication_controller_does_not_act_on_stale_caches() {
    let world = TestCluster::new().await;
    world.sandbox.faults().delay_watch(CONTROLLER_IDENTITY, "pods", Duration::from_secs(3));
    world.sandbox.faults().delay_watch(CONTROLLER_IDENTITY, "replicationcontrollers", Duration::from_secs(5));
    world.create_object(replication_controller("old", 4)).await;
    for _ in 0..30 {
        world.wait_seconds(1).await;
        world.touch_annotation(REPLICATION_CONTROLLER_RESOURCE, "old").await;
    }
    assert_eq!((world.request_count("create", "pods"), world.active_pod_names().await.len()), (4, 4));
    world.merge_patch(REPLICATION_CONTROLLER_RESOURCE, "old", json!({"spec": {"replicas": 1}})).await;
    world.wait_seconds(60).await;
    assert_eq!((world.request_count("delete", "pods"), world.active_pod_names().await.len()), (3, 1));
}

/// REPLICASET-43.
#[tokio::test(start_paused = true)]
async fn a_set_waits_at_most_for_the_expectations_timeout() {
    let settings =
        OperatorSettings::new().with_tunable("expectations-timeout", TunableValue::Duration(Duration::from_secs(10)));
    let world = TestCluster::with_setup(TestClusterSetup { settings, ..TestClusterSetup::default() }).await;
    world.create_object(replica_set("web", 1)).await;
    world.wait_until_settled().await;
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
    world.set_replicas("web", 2).await;
    world.wait_seconds(8).await;
    assert_eq!(world.active_pod_names().await.len(), 2);
    world.wait_seconds(8).await;
    assert_eq!(world.active_pod_names().await.len(), 3, "after the timeout the set acts on the stale cache");
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "pods");
    world.wait_until_settled().await;
    assert_eq!(world.active_pod_names().await.len(), 2);
}

/// REPLICASET-45.
#[tokio::test(start_paused = true)]
async fn a_set_reaches_its_size_after_any_failure_of_a_watch() {
    for action in [Action::CloseWatch, Action::CutWatch, Action::Garbage, Action::HalfLine, Action::ExpireWatch] {
        let world = TestCluster::new().await;
        for resource in ["pods", "replicasets"] {
            let rule = Rule::new(action.clone()).identity(CONTROLLER_IDENTITY).verb("watch").resource(resource).skip(3);
            world.sandbox.faults().add(rule.times(3));
        }
        world.create_object(replica_set("web", 20)).await;
        world.wait_seconds(120).await;
        world.set_replicas("web", 7).await;
        world.wait_seconds(120).await;
        world.wait_until_settled().await;
        assert_eq!((world.active_pod_names().await.len(), world.max_live_pod_count()), (7, 20), "{action:?}");
        assert_eq!(
            (world.request_count("create", "pods"), world.request_count("delete", "pods")),
            (20, 13),
            "{action:?}"
        );
        assert_eq!(world.get_object(REPLICA_SET_RESOURCE, "web").await["status"]["readyReplicas"], 7, "{action:?}");
    }
}
