//! Admission webhooks that change the labels of new Pods.

use crate::world::*;

/// The label that the selector of a Job requires, in a JSON pointer.
const LABEL: &str = "batch.kubernetes.io~1controller-uid";

/// JOB-94.
#[tokio::test(start_paused = true)]
async fn pods_whose_labels_are_changed_are_deleted_and_tried_with_growing_pauses() {
    for job in [parallel("exit=0 after=5", 3), indexed("exit=0 after=5", 3)] {
        let world = conformance::relabelled_pods_are_tried_with_growing_pauses(&cluster(), job, LABEL).await;
        assert_eq!(world.status().await["failed"], Value::Null, "a deleted Pod is not a failure");
        world.sandbox.webhooks().remove("policy");
        conformance::a_touched_object_waits_for_the_end_of_the_pause(&world, JOBS).await;
        assert_eq!((&world.status().await["succeeded"], world.count("create", "pods")), (&json!(3), 14));
        world.settle().await;
    }
}

/// JOB-94.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_job_ends_the_pause() {
    let sum = sum("exit=0 after=60", json!({}));
    let world = conformance::relabelled_pods_are_tried_with_growing_pauses(&cluster(), sum, LABEL).await;
    world.sandbox.webhooks().remove("policy");
    world.change(json!({"activeDeadlineSeconds": 9999})).await;
    world.wait(2).await;
    assert_eq!(world.active_pods().await.len(), 1);
}
