//! Pods that carry the tracking finalizer although no Job counts them.

use serde_json::json;

use crate::world::{FINALIZER, NS, World, finalizers, job, job_with, stray};

/// JOB-61.
#[tokio::test(start_paused = true)]
async fn an_uncontrolled_pod_loses_the_finalizer() {
    let world = World::new().await;
    let mut lost = stray("lost", json!({"a": "b"}), &[]);
    lost["metadata"]["finalizers"] = json!([FINALIZER, "example.com/keep"]);
    world.apply(lost).await;
    world.settle().await;
    assert_eq!(finalizers(&world.get("pods", "lost").await), ["example.com/keep"]);
}

/// JOB-61.
#[tokio::test(start_paused = true)]
async fn pods_of_other_controllers_keep_their_finalizers() {
    let world = World::new().await;
    for (name, api, kind) in [("set", "apps/v1", "ReplicaSet"), ("other", "example.com/v1", "Job")] {
        let mut pod = stray(name, json!({"a": "b"}), &[]);
        pod["metadata"]["finalizers"] = json!([FINALIZER]);
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": api, "kind": kind, "name": "x", "uid": "x", "controller": true}]);
        world.apply(pod).await;
    }
    world.settle().await;
    world.sandbox.delete("pods", Some(NS), "set").await.unwrap();
    world.sandbox.delete("pods", Some(NS), "other").await.unwrap();
    world.settle().await;
    assert_eq!(finalizers(&world.get("pods", "set").await), [FINALIZER]);
    assert_eq!(finalizers(&world.get("pods", "other").await), [FINALIZER]);
}

/// JOB-61, JOB-82.
#[tokio::test(start_paused = true)]
async fn leftover_finalizers_are_found_at_start() {
    let mut world = World::new().await;
    world.apply(job("done", &[("exit", "0")])).await;
    world.apply(job_with("gone", &[], json!({"completions": 2, "parallelism": 2}))).await;
    world.settle().await;
    world.crash();
    world.remove("gone", "Background").await;
    let done = world.pods().await.into_iter().find(|pod| crate::world::name(pod).starts_with("done")).unwrap();
    world.merge("pods", crate::world::name(&done), json!({"metadata": {"finalizers": [FINALIZER]}})).await;
    let mut lost = stray("lost", json!({"a": "b"}), &[]);
    lost["metadata"]["finalizers"] = json!([FINALIZER]);
    world.apply(lost).await;
    world.wait(5).await;
    world.start();
    world.settle().await;
    for pod in world.pods().await {
        assert!(finalizers(&pod).is_empty(), "{}", crate::world::name(&pod));
    }
}

/// JOB-5.
#[tokio::test(start_paused = true)]
async fn pods_of_a_job_with_another_manager_keep_the_finalizer() {
    let world = World::new().await;
    let theirs = world.apply(job_with("theirs", &[], json!({"managedBy": "example.com/queue"}))).await;
    let mut pod = stray("pod", json!({"a": "b"}), &[("exit", "0")]);
    pod["metadata"]["finalizers"] = json!([FINALIZER]);
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "theirs",
        "uid": theirs["metadata"]["uid"], "controller": true}]);
    world.apply(pod).await;
    world.settle().await;
    world.sandbox.delete("pods", Some(NS), "pod").await.unwrap();
    world.settle().await;
    assert_eq!(finalizers(&world.get("pods", "pod").await), [FINALIZER]);
}
