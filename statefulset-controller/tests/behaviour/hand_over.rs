//! Take-over of existing sets from an earlier process, and from upstream's controller.

use sandbox::{Action, Rule};
use serde_json::{Value, json};

use crate::world::{CONTROLLER_IDENTITY, NAMESPACE, REVISIONS, SETS, World, claims, set};

/// STATEFULSET-60.
#[tokio::test(start_paused = true)]
async fn the_take_over_of_a_settled_set_writes_nothing() {
    let mut world = World::new().await;
    world.apply(set(3, claims("Delete", "Delete"))).await;
    world.settle().await;
    world.crash();
    world.reset_counters();
    world.start();
    world.settle().await;
    assert!(world.controller_writes().is_empty(), "{:?}", world.controller_writes());
}

/// STATEFULSET-35.
#[tokio::test(start_paused = true)]
async fn a_revision_of_an_earlier_server_version_restarts_no_pod() {
    let mut world = World::new().await;
    world.apply(set(2, json!({}))).await;
    world.settle().await;
    world.crash();
    // Servers up to version 1.33 stored `creationTimestamp: null` in the revision, so the hash in the name was different.
    let name = world.names(REVISIONS).await.remove(0);
    let mut old = world.get(REVISIONS, &name).await;
    old["data"]["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    old["metadata"] = json!({"name": "web-old", "namespace": NAMESPACE, "labels": {"app": "web"},
        "ownerReferences": old["metadata"]["ownerReferences"]});
    world.sandbox.delete(REVISIONS, Some(NAMESPACE), &name).await.unwrap();
    world.apply(old).await;
    for pod in ["web-0", "web-1"] {
        world.merge("pods", pod, json!({"metadata": {"labels": {"controller-revision-hash": "web-old"}}})).await;
    }
    let status = json!({"status": {"currentRevision": "web-old", "updateRevision": "web-old"}});
    world.sandbox.merge(SETS, Some(NAMESPACE), "web", Some("status"), status).await.unwrap();
    world.reset_counters();
    world.start();
    world.settle().await;
    assert!(world.controller_writes().is_empty(), "{:?}", world.controller_writes());
}

/// STATEFULSET-61.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_does_not_change_the_final_state() {
    for at in 0..24 {
        for lost in [Action::CutBefore, Action::CutAfter] {
            let mut world = World::new().await;
            world.apply(set(2, claims("Delete", "Delete"))).await;
            world.settle().await;
            world.reset_counters();
            for verb in ["create", "patch", "delete", "update"] {
                // All later writes of this verb are lost.
                world
                    .sandbox
                    .faults()
                    .add(Rule::new(lost.clone()).identity(CONTROLLER_IDENTITY).verb(verb).skip(at / 4));
            }
            world.roll_out("img:2", json!({})).await;
            world.wait(at + 1).await;
            world.crash();
            world.sandbox.faults().clear();
            world.start();
            world.settle().await;
            world.change_spec(json!({"replicas": 1})).await;
            world.settle().await;
            assert_eq!(world.names_and_images().await, ["web-0 img:2"], "{at} {lost:?}");
            let status = world.status().await;
            assert_eq!(
                (&status["replicas"], &status["readyReplicas"], &status["updatedReplicas"]),
                (&json!(1), &json!(1), &json!(1))
            );
            assert_eq!(
                (&status["currentRevision"], world.names(REVISIONS).await.len()),
                (&status["updateRevision"], 2)
            );
        }
    }
}
