//! Pods that lose the label `controller-revision-hash`, so that the watch no longer shows them.

use std::time::Duration;

use sandbox::{Action, Operation, Rule, Webhook};
use serde_json::{Value, json};

use crate::world::{CONTROLLER_IDENTITY, NAMESPACE, SETS, TestCluster, daemon_set, object_name};

const HASH: &str = "controller-revision-hash";

/// Starts a world in which a DaemonSet with this update strategy is settled. Also returns the name of its Pod on `node-1`.
async fn world_with_settled_set(strategy: &str) -> (TestCluster, String) {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({"updateStrategy": {"type": strategy}}))).await;
    world.wait_until_settled().await;
    world.clear_records();
    let pods = world.sandbox.list("pods", Some(NAMESPACE)).await.unwrap();
    let pod = pods.iter().find(|pod| pod["spec"]["nodeName"] == "node-1").unwrap();
    let name = object_name(pod).to_owned();
    (world, name)
}

async fn set_labels(world: &TestCluster, pod: &str, labels: Value) {
    world.merge_patch("pods", pod, json!({"metadata": {"labels": labels}})).await;
}

async fn owner(world: &TestCluster, pod: &str) -> Value {
    world.get("pods", pod).await["metadata"]["ownerReferences"][0]["name"].clone()
}

/// DAEMONSET-19.
#[tokio::test(start_paused = true)]
async fn orphans_that_match_are_adopted_and_pods_that_do_not_match_are_released() {
    let (world, pod) = world_with_settled_set("OnDelete").await;
    world.merge_patch("pods", &pod, json!({"metadata": {"ownerReferences": null}})).await;
    world.wait_until_settled().await;
    assert_eq!(owner(&world, &pod).await, "agent", "it is adopted again");
    world.clear_records();

    set_labels(&world, &pod, Value::Null).await;
    world.wait_until_settled().await;
    assert_eq!(owner(&world, &pod).await, Value::Null, "it is released");
    assert_eq!(world.pod_writes(), ["~node-1", "+node-1"], "a new Pod replaces the released one");
    world.clear_records();

    set_labels(&world, &pod, json!({"app": "agent"})).await;
    world.wait(30).await;
    let labels = world.get("pods", &pod).await["metadata"]["labels"].clone();
    assert_eq!(owner(&world, &pod).await, "agent", "it is adopted without the label of its revision");
    assert_eq!(labels, json!({"app": "agent", HASH: ""}), "the label is added so that the watch shows the Pod");
    assert_eq!(world.object_names("pods").await.len(), 3, "of two Pods on a node, the older Pod stays");
    assert_eq!(world.get(SETS, "agent").await["status"]["updatedNumberScheduled"], 2);

    // The watch shows the Pod again, so its deletion needs no read of Pods.
    world.clear_records();
    world.sandbox.delete("pods", Some(NAMESPACE), &pod).await.unwrap();
    world.wait_until_settled().await;
    assert_eq!((world.pod_writes(), world.request_count("list", "pods")), (vec!["+node-1".to_owned()], 0));
}

/// DAEMONSET-81.
#[tokio::test(start_paused = true)]
async fn a_pod_without_the_label_of_its_revision_gets_an_empty_one_and_is_not_replaced() {
    for strategy in ["OnDelete", "RollingUpdate"] {
        let (world, pod) = world_with_settled_set(strategy).await;
        set_labels(&world, &pod, json!({HASH: null})).await;
        world.wait_until_settled().await;
        // As in upstream, the label `pod-template-generation` identifies a Pod of the current template.
        assert_eq!(
            (world.pod_writes(), world.request_count("list", "pods")),
            (vec!["~node-1".to_owned()], 1),
            "{strategy}"
        );
        assert_eq!(world.get("pods", &pod).await["metadata"]["labels"][HASH], "");
        assert_eq!(world.get(SETS, "agent").await["status"]["numberAvailable"], 3);
    }
}

/// DAEMONSET-81.
#[tokio::test(start_paused = true)]
async fn a_pod_without_a_revision_is_outdated() {
    for (strategy, pods) in [("OnDelete", 1), ("RollingUpdate", 0)] {
        let (world, pod) = world_with_settled_set(strategy).await;
        set_labels(&world, &pod, json!({HASH: null, "pod-template-generation": null})).await;
        world.wait(60).await;
        let stays = world.object_names("pods").await.iter().filter(|name| **name == pod).count();
        assert_eq!(stays, pods, "{strategy}");
        assert_eq!(world.get(SETS, "agent").await["status"]["updatedNumberScheduled"], 3 - pods, "{strategy}");
    }
}

/// DAEMONSET-81.
#[tokio::test(start_paused = true)]
async fn no_pod_is_created_until_the_read_of_a_hidden_pod_is_answered() {
    let (world, pod) = world_with_settled_set("RollingUpdate").await;
    let slow =
        Rule::new(Action::Latency(Duration::from_secs(20))).identity(CONTROLLER_IDENTITY).verb("list").resource("pods");
    world.sandbox.faults().add(slow);
    set_labels(&world, &pod, Value::Null).await;
    world.merge_patch(SETS, "agent", json!({"metadata": {"annotations": {"a": "b"}}})).await;
    world.wait(15).await;
    assert_eq!(world.request_count("create", "pods"), 0);
    world.wait(30).await;
    assert_eq!((owner(&world, &pod).await, world.request_count("create", "pods")), (Value::Null, 1));
}

/// DAEMONSET-81.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_labels_cannot_be_restored_costs_few_requests_and_does_not_hold_up_the_set() {
    let (world, pod) = world_with_settled_set("OnDelete").await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::Forbidden).identity(CONTROLLER_IDENTITY).verb("patch").resource("pods"));
    set_labels(&world, &pod, json!({HASH: null})).await;
    world.wait(60).await;
    let other = world.sandbox.list("pods", Some(NAMESPACE)).await.unwrap();
    let other = other.iter().find(|pod| pod["spec"]["nodeName"] == "node-2").unwrap();
    world.sandbox.delete("pods", Some(NAMESPACE), object_name(other)).await.unwrap();
    world.wait(60).await;
    assert_eq!((world.request_count("create", "pods"), world.request_count("delete", "pods")), (1, 0));
    world.wait(3600).await;
    let (tries, reads) = (world.request_count("patch", "pods"), world.request_count("list", "pods"));
    assert!((4..=25).contains(&tries), "it backs off: {tries}");
    assert!(reads <= 120, "{reads}");
}

/// DAEMONSET-81.
#[tokio::test(start_paused = true)]
async fn deleted_pods_are_not_read() {
    let (world, pod) = world_with_settled_set("RollingUpdate").await;
    world.sandbox.delete("pods", Some(NAMESPACE), &pod).await.unwrap();
    world.wait_until_settled().await;
    world.sandbox.delete("nodes", None, "node-2").await.unwrap();
    world.wait_until_settled().await;
    assert_eq!((world.request_count("list", "pods"), world.request_count("get", "pods")), (0, 0));
}

/// Installs a webhook that removes the label `controller-revision-hash` from each Pod that the controller writes.
fn install_label_removing_webhook(world: &TestCluster) {
    let path = format!("/metadata/labels/{}", HASH.replace('/', "~1"));
    let patch = json!([{"op": "add", "path": path, "value": ""}, {"op": "remove", "path": path}]);
    for operation in [Operation::Create, Operation::Update] {
        let webhook = Webhook::new("strips", operation, "pods").identity(CONTROLLER_IDENTITY);
        world.sandbox.webhooks().install(webhook.patches(patch.clone()));
    }
}

/// DAEMONSET-83.
#[tokio::test(start_paused = true)]
async fn a_webhook_that_removes_the_label_causes_no_endless_creation_of_pods() {
    let world = TestCluster::new().await;
    install_label_removing_webhook(&world);
    world.create_object(daemon_set(json!({}))).await;
    world.wait(3600).await;
    assert_eq!((world.object_names("pods").await.len(), world.request_count("create", "pods")), (3, 3));
    let tries = world.request_count("patch", "pods");
    assert!((3..=60).contains(&tries), "the label is restored with growing delays: {tries}");
    assert_eq!(world.get(SETS, "agent").await["status"]["numberAvailable"], 3);
    let pod = world.object_names("pods").await.remove(0);
    world.sandbox.delete("pods", Some(NAMESPACE), &pod).await.unwrap();
    world.wait(180).await;
    assert_eq!((world.object_names("pods").await.len(), world.request_count("create", "pods")), (3, 4));
}
