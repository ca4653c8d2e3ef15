//! Admission webhooks that change the labels of new Pods.

use sandbox::{Operation, Webhook};
use serde_json::{Value, json};

use crate::world::{TestCluster, daemon_set};

const POLICY: &str = "policy";

/// Installs a policy that adds `value` to each new Pod at `path`, creates a DaemonSet, and waits 15 minutes.
async fn cluster_with_policy(path: &str, value: Value) -> TestCluster {
    let world = TestCluster::new().await;
    let patch = json!([{"op": "add", "path": path, "value": value}]);
    world.sandbox.webhooks().install(Webhook::new(POLICY, Operation::Create, "pods").patches(patch));
    world.create_object(daemon_set(json!({}))).await;
    world.wait(900).await;
    assert_eq!(world.pods().await, Vec::<Value>::new());
    world
}

/// DAEMONSET-88.
#[tokio::test(start_paused = true)]
async fn pods_whose_labels_are_changed_are_deleted_and_tried_with_growing_pauses() {
    let world = cluster_with_policy("/metadata/labels/app", json!("other")).await;
    // One Pod after 0 s, 1 s, 3 s, 7 s, ... 511 s and 811 s.
    assert_eq!(world.request_count("create", "pods"), 11);
    let events = world.events().await;
    let is_report = |event: &String| {
        event.starts_with("Warning FailedCreate ")
            && event.contains("Error creating: pod \"agent-")
            && event.contains("was stored with labels that the selector does not match")
    };
    assert!(events.iter().all(is_report), "{events:?}");
    let waiting = world.explain()["waiting"].to_string();
    assert!(waiting.contains("no Pods are created: admission changes them"), "{waiting}");
    assert!(waiting.contains("the next attempt is in 211s"), "{waiting}");
    // A change of a node does not end the pause.
    world.sandbox.webhooks().remove(POLICY);
    world.change_node("node-0", json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    world.wait(200).await;
    assert_eq!(world.pods().await.len(), 0);
    world.wait(20).await;
    assert_eq!((world.status().await["numberReady"].clone(), world.request_count("create", "pods")), (json!(3), 14));
    world.wait_until_settled().await;
}

/// DAEMONSET-88.
#[tokio::test(start_paused = true)]
async fn pods_that_lose_all_labels_are_deleted_although_the_watch_does_not_show_them() {
    let world = cluster_with_policy("/metadata/labels", json!({})).await;
    let tries = world.request_count("create", "pods");
    assert!((8..=11).contains(&tries), "{tries} Pods");
    world.sandbox.webhooks().remove(POLICY);
    world.wait(360).await;
    assert_eq!(world.status().await["numberReady"], 3);
}

/// DAEMONSET-88.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_set_ends_the_pause() {
    let world = cluster_with_policy("/metadata/labels/app", json!("other")).await;
    world.roll_out("img:2", json!({})).await;
    world.wait(60).await;
    assert_eq!(world.request_count("create", "pods"), 12, "one attempt for each change");
    world.sandbox.webhooks().remove(POLICY);
    world.roll_out("img:3", json!({})).await;
    world.wait(1).await;
    assert_eq!(world.images().await, ["node-0 img:3", "node-1 img:3", "node-2 img:3"]);
}
