//! Admission webhooks that change the labels of new Pods.

use sandbox::{Operation, Webhook};
use serde_json::json;

use crate::world::{TestCluster, daemon_set};

const POLICY: &str = "policy";

/// Installs a policy that changes the label that the selector requires, creates a DaemonSet, and waits 15 minutes.
async fn cluster_with_unselected_pods(path: &str) -> TestCluster {
    let world = TestCluster::new().await;
    let patch =
        json!([{"op": "add", "path": path, "value": if path.ends_with("/app") { json!("other") } else { json!({}) }}]);
    world.sandbox.webhooks().install(Webhook::new(POLICY, Operation::Create, "pods").patches(patch));
    world.create_object(daemon_set(json!({}))).await;
    world.wait(900).await;
    // One Pod after 0 s, 1 s, 3 s, 7 s, ... 511 s and 811 s.
    assert_eq!((world.request_count("create", "pods"), world.pods().await), (11, Vec::new()));
    world
}

/// DAEMONSET-88.
#[tokio::test(start_paused = true)]
async fn pods_whose_labels_are_changed_are_deleted_and_tried_with_growing_pauses() {
    // The second policy also removes the label by which Pods are watched.
    for path in ["/metadata/labels/app", "/metadata/labels"] {
        let world = cluster_with_unselected_pods(path).await;
        let events = world.events().await;
        let reported = "Error creating: pod \"agent-";
        assert!(
            events.iter().all(|event| event.starts_with("Warning FailedCreate ") && event.contains(reported)),
            "{events:?}"
        );
        assert!(events[0].contains("was stored with labels that the selector does not match"), "{events:?}");
        let waiting = world.explain()["waiting"].to_string();
        assert!(waiting.contains("no Pods are created: admission changes them"), "{waiting}");
        assert!(waiting.contains("the next attempt is in 211s"), "{waiting}");
        // A change of a node does not end the pause.
        world.sandbox.webhooks().remove(POLICY);
        world.change_node("node-0", json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
        world.wait(200).await;
        assert_eq!(world.pods().await.len(), 0);
        world.wait(20).await;
        assert_eq!(
            (world.status().await["numberReady"].clone(), world.request_count("create", "pods")),
            (json!(3), 14)
        );
        world.wait_until_settled().await;
    }
}

/// DAEMONSET-88.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_set_ends_the_pause() {
    let world = cluster_with_unselected_pods("/metadata/labels/app").await;
    world.roll_out("img:2", json!({})).await;
    world.wait(60).await;
    assert_eq!(world.request_count("create", "pods"), 12, "one attempt for each change");
    world.sandbox.webhooks().remove(POLICY);
    world.roll_out("img:3", json!({})).await;
    world.wait(1).await;
    assert_eq!(world.images().await, ["node-0 img:3", "node-1 img:3", "node-2 img:3"]);
}
