//! Take-over of existing sets from an earlier process, and from upstream's controller.

use crate::world::*;

/// STATEFULSET-60.
#[tokio::test(start_paused = true)]
async fn the_take_over_of_a_settled_set_writes_nothing() {
    let mut world = cluster().settled(set(3, claims("Delete", "Delete"))).await;
    conformance::settled_objects_are_left_alone(&mut world, &[("get", SETS), ("get", "pods"), ("get", CLAIMS)]).await;
}

/// STATEFULSET-35.
#[tokio::test(start_paused = true)]
async fn a_revision_of_an_earlier_server_version_restarts_no_pod() {
    let mut world = cluster().settled(web(2)).await;
    world.crash();
    // Servers up to version 1.33 stored `creationTimestamp: null` in the revision, so the hash in the name was different.
    let name = world.names(REVISIONS).await.remove(0);
    let mut old = world.get(REVISIONS, &name).await;
    old["data"]["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    old["metadata"] = json!({"name": "web-old", "namespace": NAMESPACE, "labels": {"app": "web"},
        "ownerReferences": old["metadata"]["ownerReferences"]});
    world.delete(REVISIONS, &name).await;
    world.create(old).await;
    for pod in ["web-0", "web-1"] {
        world.label("pods", pod, json!({"controller-revision-hash": "web-old"})).await;
    }
    world.patch_status(SETS, "web", json!({"currentRevision": "web-old", "updateRevision": "web-old"})).await;
    world.clear_log();
    world.start();
    world.settle().await;
    world.assert_wrote_nothing();
    // The set is managed from then on, and its revision is that of new Pods.
    world.change_and_settle(json!({"replicas": 3})).await;
    assert_eq!(pod_and_claim_writes(&world), ["+web-2"]);
    assert_eq!(world.get("pods", "web-2").await["metadata"]["labels"]["controller-revision-hash"], "web-old");
}

/// STATEFULSET-61.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_does_not_change_the_final_state() {
    let steps = vec![Step::Change(new_image("img:2", json!({}))), Step::Change(json!({"replicas": 1}))];
    let scene = Scene { cluster: cluster(), settled: vec![set(2, claims("Delete", "Delete"))], steps };
    // A revision, two Pods in place of two others, the owners of a claim, the deletion of a Pod, and statuses.
    scene
        .crash_at_any_write(10, async |world, case| {
            assert_eq!(images(world).await, ["web-0 img:2"], "{case}");
            let status = world.status().await;
            assert_eq!(pick(&status, "replicas readyReplicas updatedReplicas"), json!([1, 1, 1]), "{case}");
            assert_eq!(status["currentRevision"], status["updateRevision"], "{case}");
            assert_eq!(world.names(REVISIONS).await.len(), 2, "{case}");
        })
        .await;
}
