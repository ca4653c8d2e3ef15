//! Revisions: taken names, adoption, and the fields of other writers.

use crate::world::*;

/// STATEFULSET-36.
#[tokio::test(start_paused = true)]
async fn a_name_taken_by_other_data_counts_as_a_collision() {
    let (world, taken, name) = conformance::a_taken_revision_name_counts_as_a_collision(&cluster(), web(1)).await;
    assert_eq!(pick(&world.status().await, "readyReplicas updateRevision"), json!([1, name]));
    // The label has the hash of the data, without the collision.
    let revision = world.get(REVISIONS, &name).await;
    let hash = text(&revision["metadata"]["labels"], "controller.kubernetes.io/hash");
    assert_eq!(format!("web-{hash}"), taken);
}

/// STATEFULSET-10.
#[tokio::test(start_paused = true)]
async fn orphaned_revisions_that_match_are_adopted() {
    let world = cluster().settled(web(1)).await;
    let name = world.names(REVISIONS).await.remove(0);
    world.patch(REVISIONS, &name, json!({"metadata": {"ownerReferences": null}})).await;
    world.wait(1).await;
    world.patch_and_settle(SETS, "web", json!({"metadata": {"annotations": {"poke": "1"}}})).await;
    assert_eq!(owners(&world.get(REVISIONS, &name).await), ["StatefulSet web"]);
    assert_eq!(world.names(REVISIONS).await, [name]);
}

/// STATEFULSET-72.
#[tokio::test(start_paused = true)]
async fn conditions_of_other_writers_stay_in_the_status() {
    let world = cluster().settled(web(1)).await;
    let conditions =
        json!([{"type": "Checked", "status": "True", "lastTransitionTime": null, "reason": "R", "message": ""}]);
    world.patch_status(SETS, "web", json!({"conditions": conditions})).await;
    world.change_and_settle(json!({"replicas": 2})).await;
    let status = world.status().await;
    assert_eq!((&status["conditions"][0]["type"], &status["replicas"]), (&json!("Checked"), &json!(2)));
}

/// STATEFULSET-36.
#[tokio::test(start_paused = true)]
async fn a_collision_with_the_current_revision_does_not_make_the_rollout_look_complete() {
    let world = cluster().settled(set(1, json!({"updateStrategy": {"type": "OnDelete"}}))).await;
    let before = world.status().await["currentRevision"].clone();
    world.roll_out_and_settle("img:2").await;
    let taken = world.status().await["updateRevision"].as_str().unwrap().to_owned();
    world.roll_out_and_settle("img:1").await;
    // The next rollout needs a name that the current revision has. Names are hashes, so the test creates such a revision
    // itself.
    let mut object = world.get(REVISIONS, before.as_str().unwrap()).await;
    world.delete_and_settle(REVISIONS, &taken).await;
    let owner = object["metadata"]["ownerReferences"].clone();
    object["metadata"] =
        json!({"name": taken, "namespace": NAMESPACE, "labels": {"app": "web"}, "ownerReferences": owner});
    object["revision"] = json!(5);
    world.create_and_settle(object).await;
    let status = json!({"currentRevision": taken, "updateRevision": taken});
    world.patch_status(SETS, "web", status).await;
    world.patch_and_settle("pods", "web-0", json!({"metadata": {"labels": {"controller-revision-hash": taken}}})).await;
    world.roll_out_and_settle("img:2").await;
    let status = world.status().await;
    assert_eq!(pick(&status, "collisionCount currentRevision"), json!([1, taken]), "{status}");
    assert_ne!(status["updateRevision"], json!(taken));
    assert_eq!(pick(&status, "currentReplicas updatedReplicas"), json!([1, null]));
}
