//! Admission webhooks that change the labels of new Pods.

use crate::world::*;

const POLICY: &str = "policy";

/// DAEMONSET-88.
#[tokio::test(start_paused = true)]
async fn pods_whose_labels_are_changed_are_deleted_and_tried_with_growing_pauses() {
    let world = conformance::relabelled_pods_are_tried_with_growing_pauses(&cluster(), agent(), "app").await;
    // A change of a node does not end the pause.
    world.sandbox.webhooks().remove(POLICY);
    world.label("nodes", "node-0", json!({"disk": "ssd"})).await;
    conformance::a_touched_object_waits_for_the_end_of_the_pause(&world, SETS).await;
    assert_eq!(world.status().await["numberReady"], 3);
    assert_eq!(world.count("create", "pods"), 14, "11 Pods with changed labels and 3 that stay");
    world.settle().await;
}

/// DAEMONSET-88.
#[tokio::test(start_paused = true)]
async fn pods_that_lose_all_labels_are_deleted_although_the_watch_does_not_show_them() {
    let world = cluster().start().await;
    let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {}}]);
    world.sandbox.webhooks().install(Webhook::new(POLICY, Operation::Create, "pods").patches(patch));
    world.create(agent()).await;
    world.wait(900).await;
    assert_eq!(world.pods().await, Vec::<Value>::new());
    world.assert_count("create", "pods", 8..=11);
    world.sandbox.webhooks().remove(POLICY);
    world.wait(360).await;
    assert_eq!(world.status().await["numberReady"], 3);
}

/// DAEMONSET-88.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_set_ends_the_pause() {
    let world = conformance::relabelled_pods_are_tried_with_growing_pauses(&cluster(), agent(), "app").await;
    world.roll_out("img:2", json!({})).await;
    world.wait(60).await;
    assert_eq!(world.count("create", "pods"), 12, "one attempt for each change");
    world.sandbox.webhooks().remove(POLICY);
    world.roll_out("img:3", json!({})).await;
    world.wait(1).await;
    assert_images(&world, "img:3", "").await;
}
