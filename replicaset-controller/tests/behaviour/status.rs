//! Content and time of status writes.

use std::time::Duration;

use common::settings::OperatorSettings;
use sandbox::Sandbox;
use serde_json::json;

use crate::world::{
    CONTROLLER_IDENTITY, NAMESPACE, REPLICA_SET_RESOURCE, REPLICATION_CONTROLLER_RESOURCE, TestCluster,
    TestClusterSetup, replica_set, replication_controller,
};

const STATUS: &str = "replicasets.apps/status";

/// REPLICASET-36, REPLICASET-56.
#[tokio::test(start_paused = true)]
async fn pods_become_available_on_time() {
    let world = TestCluster::new().await;
    let mut web = replica_set("web", 3);
    web["spec"]["minReadySeconds"] = json!(30);
    world.create_object(web).await;
    world.wait_seconds(29).await;
    let status = world.get_object(REPLICA_SET_RESOURCE, "web").await["status"].clone();
    assert_eq!((&status["readyReplicas"], &status["availableReplicas"]), (&json!(3), &json!(null)));
    let told = world.loops.as_ref().unwrap().explain(Some("shop/web"));
    assert_eq!(told[0]["waiting"], json!(["3 ready Pods are not available yet, the next in 1s"]));
    world.wait_seconds(2).await;
    assert_eq!(world.get_object(REPLICA_SET_RESOURCE, "web").await["status"]["availableReplicas"], 3);
    world.clear_logs();
    world.wait_seconds(600).await;
    assert!(world.own_writes().is_empty());
}

/// REPLICASET-31, REPLICASET-63.
#[tokio::test(start_paused = true)]
async fn terminating_pods_are_counted_if_the_gate_is_on() {
    for (gate, then) in [(true, json!(2)), (false, json!(null))] {
        let settings = OperatorSettings::new().with_feature_gate("DeploymentReplicaSetTerminatingReplicas", gate);
        let world = TestCluster::with_setup(TestClusterSetup { settings, ..TestClusterSetup::default() }).await;
        let mut web = replica_set("web", 3);
        web["spec"]["template"]["metadata"]["annotations"] = json!({"sim/terminate-after": "20"});
        world.create_object(web).await;
        world.wait_until_settled().await;
        world.set_replicas("web", 1).await;
        world.wait_until_settled().await;
        let status = world.get_object(REPLICA_SET_RESOURCE, "web").await["status"].clone();
        assert_eq!((&status["replicas"], &status["terminatingReplicas"]), (&json!(1), &then));
        world.wait_seconds(30).await;
        let after = if gate { json!(0) } else { json!(null) };
        assert_eq!(world.get_object(REPLICA_SET_RESOURCE, "web").await["status"]["terminatingReplicas"], after);
    }
}

/// REPLICASET-59.
#[tokio::test(start_paused = true)]
async fn a_replication_controller_has_no_count_of_terminating_pods() {
    let world = TestCluster::new().await;
    let mut old = replication_controller("old", 2);
    old["spec"]["template"]["metadata"]["annotations"] = json!({"sim/terminate-after": "20"});
    world.create_object(old).await;
    world.wait_until_settled().await;
    world.merge_patch(REPLICATION_CONTROLLER_RESOURCE, "old", json!({"spec": {"replicas": 1}})).await;
    world.wait_until_settled().await;
    assert_eq!(
        world.get_object(REPLICATION_CONTROLLER_RESOURCE, "old").await["status"]["terminatingReplicas"],
        json!(null)
    );
}

/// REPLICASET-63.
#[tokio::test(start_paused = true)]
async fn a_server_without_the_terminating_field_gets_no_repeated_writes() {
    let builder = Sandbox::builder().gate("DeploymentReplicaSetTerminatingReplicas", false);
    let world = TestCluster::with_setup(TestClusterSetup { builder, ..TestClusterSetup::default() }).await;
    world.create_object(replica_set("web", 2)).await;
    world.wait_until_settled().await;
    assert_eq!(world.get_object(REPLICA_SET_RESOURCE, "web").await["status"].get("terminatingReplicas"), None);
    world.clear_logs();
    for _ in 0..10 {
        world.touch_annotation(REPLICA_SET_RESOURCE, "web").await;
        world.wait_seconds(1).await;
    }
    assert_eq!(world.request_count("patch", STATUS), 0);
}

/// REPLICASET-76.
#[tokio::test(start_paused = true)]
async fn a_status_conflict_is_retried_once_onto_the_live_object() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 2)).await;
    world.wait_until_settled().await;
    let pod = world.active_pod_names().await.into_iter().next().unwrap();
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "replicasets");
    world.touch_annotation(REPLICA_SET_RESOURCE, "web").await;
    world.clear_logs();
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    world.sandbox.merge("pods", Some(NAMESPACE), &pod, Some("status"), unready).await.unwrap();
    world.wait_seconds(1).await;
    let status = world.get_object(REPLICA_SET_RESOURCE, "web").await["status"].clone();
    assert_eq!((&status["replicas"], &status["readyReplicas"]), (&json!(2), &json!(1)));
    assert_eq!((world.request_count("patch", STATUS), world.request_count("get", REPLICA_SET_RESOURCE)), (2, 1));
    // No further status write follows until the cache shows the last write.
    world.wait_seconds(60).await;
    assert_eq!((world.request_count("patch", STATUS), world.request_count("get", REPLICA_SET_RESOURCE)), (2, 1));
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "replicasets");
    world.wait_until_settled().await;
}

/// REPLICASET-76.
#[tokio::test(start_paused = true)]
async fn a_status_conflict_that_the_watch_resolves_soon_costs_no_read() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 2)).await;
    world.wait_until_settled().await;
    let pod = world.active_pod_names().await.into_iter().next().unwrap();
    world.sandbox.faults().delay_watch(CONTROLLER_IDENTITY, "replicasets", Duration::from_millis(90));
    world.touch_annotation(REPLICA_SET_RESOURCE, "web").await;
    world.clear_logs();
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    world.sandbox.merge("pods", Some(NAMESPACE), &pod, Some("status"), unready).await.unwrap();
    world.wait_seconds(1).await;
    assert_eq!(world.get_object(REPLICA_SET_RESOURCE, "web").await["status"]["readyReplicas"], 1);
    assert_eq!((world.request_count("patch", STATUS), world.request_count("get", REPLICA_SET_RESOURCE)), (2, 0));
}

/// REPLICASET-76.
#[tokio::test(start_paused = true)]
async fn a_status_is_never_written_onto_a_new_set_of_the_same_name() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 2)).await;
    world.wait_until_settled().await;
    let pod = world.active_pod_names().await.into_iter().next().unwrap();
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "replicasets");
    world.sandbox.delete(REPLICA_SET_RESOURCE, Some(NAMESPACE), "web").await.unwrap();
    world.create_object(replica_set("web", 0)).await;
    world.clear_logs();
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    world.sandbox.merge("pods", Some(NAMESPACE), &pod, Some("status"), unready).await.unwrap();
    world.wait_seconds(1).await;
    assert!(world.request_count("patch", STATUS) > 0);
    assert_eq!(world.get_object(REPLICA_SET_RESOURCE, "web").await["status"], json!({"replicas": 0}));
}

/// REPLICASET-34.
#[tokio::test(start_paused = true)]
async fn unknown_status_fields_are_kept() {
    let builder = Sandbox::builder().keep_unknown_fields(true);
    let world = TestCluster::with_setup(TestClusterSetup { builder, ..TestClusterSetup::default() }).await;
    world.create_object(replica_set("web", 1)).await;
    world.wait_until_settled().await;
    let more = json!({"status": {"fromTheFuture": 3,
        "conditions": [{"type": "Other", "status": "True", "alsoNew": [1]}]}});
    let before = world.sandbox.merge(REPLICA_SET_RESOURCE, Some(NAMESPACE), "web", Some("status"), more).await.unwrap()
        ["status"]["conditions"]
        .clone();
    assert_eq!(before[0]["alsoNew"], json!([1]));
    world.set_replicas("web", 2).await;
    world.wait_until_settled().await;
    let status = world.get_object(REPLICA_SET_RESOURCE, "web").await["status"].clone();
    assert_eq!((&status["replicas"], &status["fromTheFuture"]), (&json!(2), &json!(3)));
    assert_eq!(status["conditions"], before);
}

/// REPLICASET-30.
#[tokio::test(start_paused = true)]
async fn fully_labelled_pods_follow_the_template() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 2)).await;
    world.wait_until_settled().await;
    world
        .merge_patch(REPLICA_SET_RESOURCE, "web", json!({"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}))
        .await;
    world.wait_until_settled().await;
    let status = world.get_object(REPLICA_SET_RESOURCE, "web").await["status"].clone();
    assert_eq!((&status["fullyLabeledReplicas"], &status["observedGeneration"]), (&json!(null), &json!(2)));
    world.set_replicas("web", 3).await;
    world.wait_until_settled().await;
    assert_eq!(world.get_object(REPLICA_SET_RESOURCE, "web").await["status"]["fullyLabeledReplicas"], 1);
}
