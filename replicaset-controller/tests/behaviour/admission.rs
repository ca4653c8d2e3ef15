//! Admission webhooks that change the metadata of new Pods.

use sandbox::{Operation, Webhook};
use serde_json::{Value, json};

use crate::world::{
    REPLICA_SET_RESOURCE, REPLICATION_CONTROLLER_RESOURCE, TestCluster, owner_names, replica_set,
    replication_controller,
};

const POLICY: &str = "policy";

fn install_policy(world: &TestCluster, patch: Value) {
    world.sandbox.webhooks().install(Webhook::new(POLICY, Operation::Create, "pods").patches(patch));
}

/// Installs a policy that changes the label that the selector requires, creates a set of three Pods, and waits 15 minutes.
async fn cluster_with_unselected_pods(object: Value) -> TestCluster {
    let world = TestCluster::new().await;
    install_policy(&world, json!([{"op": "add", "path": "/metadata/labels/app", "value": "other"}]));
    world.create_object(object).await;
    world.wait_seconds(900).await;
    // One Pod after 0 s, 1 s, 3 s, 7 s, ... 511 s and 811 s.
    assert_eq!((world.request_count("create", "pods"), world.list_pods().await), (11, Vec::new()));
    world
}

/// REPLICASET-88.
#[tokio::test(start_paused = true)]
async fn pods_whose_labels_are_changed_are_deleted_and_tried_with_growing_pauses() {
    for (resource, object) in [
        (REPLICA_SET_RESOURCE, replica_set("web", 3)),
        (REPLICATION_CONTROLLER_RESOURCE, replication_controller("web", 3)),
    ] {
        let world = cluster_with_unselected_pods(object).await;
        let events = world.event_texts().await;
        let reported = "Error creating: pod \"web-";
        assert!(
            events.iter().all(|event| event.starts_with("Warning FailedCreate ") && event.contains(reported)),
            "{events:?}"
        );
        assert!(events[0].contains("was stored with labels that the selector does not match"), "{events:?}");
        let condition = world.get_object(resource, "web").await["status"]["conditions"][0].clone();
        assert_eq!((&condition["type"], &condition["reason"]), (&json!("ReplicaFailure"), &json!("FailedCreate")));
        let explained = world.loops.as_ref().unwrap().explain(Some("shop/web")).to_string();
        assert!(explained.contains("no Pods are created: admission changes them"), "{explained}");
        assert!(explained.contains("the next attempt is in 211s"), "{explained}");
        // An event of the set that leaves its spec as it is does not end the pause.
        world.sandbox.webhooks().remove(POLICY);
        world.touch_annotation(resource, "web").await;
        world.wait_seconds(200).await;
        assert_eq!(world.list_pods().await.len(), 0);
        world.wait_seconds(20).await;
        assert_eq!((world.active_pod_names().await.len(), world.request_count("create", "pods")), (3, 14));
        assert_eq!(world.get_object(resource, "web").await["status"]["conditions"], Value::Null);
        world.wait_until_settled().await;
    }
}

/// REPLICASET-88.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_set_ends_the_pause() {
    for (resource, object) in [
        (REPLICA_SET_RESOURCE, replica_set("web", 3)),
        (REPLICATION_CONTROLLER_RESOURCE, replication_controller("web", 3)),
    ] {
        let world = cluster_with_unselected_pods(object).await;
        world.merge_patch(resource, "web", json!({"spec": {"replicas": 4}})).await;
        world.wait_seconds(60).await;
        assert_eq!(world.request_count("create", "pods"), 12, "one attempt for each change");
        world.sandbox.webhooks().remove(POLICY);
        world.merge_patch(resource, "web", json!({"spec": {"replicas": 5}})).await;
        world.wait_seconds(1).await;
        assert_eq!(world.active_pod_names().await.len(), 5);
    }
}

/// A Pod without its owner reference is an orphan that the next sync adopts.
#[tokio::test(start_paused = true)]
async fn pods_that_lose_their_owner_reference_are_adopted() {
    let world = TestCluster::new().await;
    install_policy(&world, json!([{"op": "remove", "path": "/metadata/ownerReferences"}]));
    world.create_object(replica_set("web", 3)).await;
    world.wait_until_settled().await;
    let owners: Vec<_> = world.list_pods().await.iter().flat_map(owner_names).collect();
    assert_eq!((world.request_count("create", "pods"), owners), (3, vec!["ReplicaSet web".to_owned(); 3]));
}
