//! Admission webhooks that change the metadata of new Pods.

use crate::world::*;

/// REPLICASET-88.
#[tokio::test(start_paused = true)]
async fn pods_whose_labels_are_changed_are_deleted_and_tried_with_growing_pauses() {
    for (resource, object) in web_of_each_kind(3) {
        let world = conformance::relabelled_pods_are_tried_with_growing_pauses(&cluster(), object, "app").await;
        let condition = world.get(resource, "web").await["status"]["conditions"][0].clone();
        assert_eq!(pick(&condition, "type reason"), json!(["ReplicaFailure", "FailedCreate"]));
        world.sandbox.webhooks().remove("policy");
        conformance::a_touched_object_waits_for_the_end_of_the_pause(&world, resource).await;
        assert_eq!((world.active_pods().await.len(), world.count("create", "pods")), (3, 14));
        assert_eq!(world.status_of(resource, "web").await["conditions"], Value::Null);
        world.settle().await;
    }
}

/// REPLICASET-88.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_set_ends_the_pause() {
    for (resource, object) in web_of_each_kind(3) {
        let world = conformance::relabelled_pods_are_tried_with_growing_pauses(&cluster(), object, "app").await;
        world.patch(resource, "web", json!({"spec": {"replicas": 4}})).await;
        world.wait(60).await;
        assert_eq!(world.count("create", "pods"), 12, "one attempt for each change");
        world.sandbox.webhooks().remove("policy");
        world.patch(resource, "web", json!({"spec": {"replicas": 5}})).await;
        world.wait(1).await;
        assert_eq!(world.active_pods().await.len(), 5);
    }
}

/// A Pod without its owner reference is an orphan that the next sync adopts.
#[tokio::test(start_paused = true)]
async fn pods_that_lose_their_owner_reference_are_adopted() {
    let world = cluster().start().await;
    let patch = json!([{"op": "remove", "path": "/metadata/ownerReferences"}]);
    world.sandbox.webhooks().install(Webhook::new("policy", Operation::Create, "pods").patches(patch));
    world.create_and_settle(web(3)).await;
    let owners: Vec<_> = world.pods().await.iter().flat_map(owners).collect();
    assert_eq!((world.count("create", "pods"), owners), (3, vec!["ReplicaSet web".to_owned(); 3]));
}
