//! Pods that carry the tracking finalizer although no Job counts them.

use crate::world::*;

/// JOB-61.
#[tokio::test(start_paused = true)]
async fn an_uncontrolled_pod_loses_the_finalizer() {
    let world = cluster()
        .settled(merged(
            orphan("lost", json!({"a": "b"}), ""),
            json!({"metadata": {"finalizers": [TRACKING_FINALIZER, "example.com/keep"]}}),
        ))
        .await;
    assert_eq!(finalizers(&world.get("pods", "lost").await), ["example.com/keep"]);
}

/// JOB-61.
#[tokio::test(start_paused = true)]
async fn pods_of_other_controllers_keep_their_finalizers() {
    let world = cluster().start().await;
    for (name, api, kind) in [("set", "apps/v1", "ReplicaSet"), ("other", "example.com/v1", "Job")] {
        let mut pod = orphan(name, json!({"a": "b"}), "");
        pod["metadata"]["finalizers"] = json!([TRACKING_FINALIZER]);
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": api, "kind": kind, "name": "x", "uid": "x", "controller": true}]);
        world.create(pod).await;
    }
    world.settle().await;
    world.delete("pods", "set").await;
    world.delete_and_settle("pods", "other").await;
    assert_eq!(finalizers(&world.get("pods", "set").await), [TRACKING_FINALIZER]);
    assert_eq!(finalizers(&world.get("pods", "other").await), [TRACKING_FINALIZER]);
}

/// JOB-61, JOB-82.
#[tokio::test(start_paused = true)]
async fn leftover_finalizers_are_found_at_start() {
    let mut world = cluster().start().await;
    world.create(job("done", "exit=0", json!({}))).await;
    world.create_and_settle(job("gone", "", json!({"completions": 2, "parallelism": 2}))).await;
    world.crash();
    delete_job(&world, "gone", "Background").await;
    let done = world.pods().await.into_iter().find(|pod| name(pod).starts_with("done")).unwrap();
    let labels = json!({"batch.kubernetes.io/controller-uid": "other"});
    let metadata = json!({"finalizers": [TRACKING_FINALIZER], "labels": labels});
    world.patch("pods", name(&done), json!({ "metadata": metadata })).await;
    delete_job(&world, "done", "Foreground").await;
    world
        .create(merged(
            orphan("lost", json!({"a": "b"}), ""),
            json!({"metadata": {"finalizers": [TRACKING_FINALIZER]}}),
        ))
        .await;
    world.wait(5).await;
    world.start();
    world.settle().await;
    for pod in world.pods().await {
        assert!(finalizers(&pod).is_empty(), "{}", name(&pod));
    }
}

/// JOB-5.
#[tokio::test(start_paused = true)]
async fn pods_of_a_job_with_another_manager_keep_the_finalizer() {
    let world = cluster().start().await;
    let theirs = world.create(job("theirs", "", json!({"managedBy": "example.com/queue"}))).await;
    let mut pod = orphan("pod", json!({"a": "b"}), "exit=0");
    pod["metadata"]["finalizers"] = json!([TRACKING_FINALIZER]);
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "theirs",
        "uid": theirs["metadata"]["uid"], "controller": true}]);
    world.create_and_settle(pod).await;
    world.delete_and_settle("pods", "pod").await;
    assert_eq!(finalizers(&world.get("pods", "pod").await), [TRACKING_FINALIZER]);
}
