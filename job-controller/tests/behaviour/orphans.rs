//! Pods that carry the tracking finalizer although no Job counts them.

use serde_json::json;

use crate::world::{NAMESPACE, TRACKING_FINALIZER, TestCluster, finalizers, job, job_with_spec, orphan_pod};

/// JOB-61.
#[tokio::test(start_paused = true)]
async fn an_uncontrolled_pod_loses_the_finalizer() {
    let world = TestCluster::new().await;
    let mut lost = orphan_pod("lost", json!({"a": "b"}), &[]);
    lost["metadata"]["finalizers"] = json!([TRACKING_FINALIZER, "example.com/keep"]);
    world.create_object(lost).await;
    world.wait_until_settled().await;
    assert_eq!(finalizers(&world.get("pods", "lost").await), ["example.com/keep"]);
}

/// JOB-61.
#[tokio::test(start_paused = true)]
async fn pods_of_other_controllers_keep_their_finalizers() {
    let world = TestCluster::new().await;
    for (name, api, kind) in [("set", "apps/v1", "ReplicaSet"), ("other", "example.com/v1", "Job")] {
        let mut pod = orphan_pod(name, json!({"a": "b"}), &[]);
        pod["metadata"]["finalizers"] = json!([TRACKING_FINALIZER]);
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": api, "kind": kind, "name": "x", "uid": "x", "controller": true}]);
        world.create_object(pod).await;
    }
    world.wait_until_settled().await;
    world.sandbox.delete("pods", Some(NAMESPACE), "set").await.unwrap();
    world.sandbox.delete("pods", Some(NAMESPACE), "other").await.unwrap();
    world.wait_until_settled().await;
    assert_eq!(finalizers(&world.get("pods", "set").await), [TRACKING_FINALIZER]);
    assert_eq!(finalizers(&world.get("pods", "other").await), [TRACKING_FINALIZER]);
}

/// JOB-61, JOB-82.
#[tokio::test(start_paused = true)]
async fn leftover_finalizers_are_found_at_start() {
    let mut world = TestCluster::new().await;
    world.create_object(job("done", &[("exit", "0")])).await;
    world.create_object(job_with_spec("gone", &[], json!({"completions": 2, "parallelism": 2}))).await;
    world.wait_until_settled().await;
    world.crash_loops();
    world.delete_job("gone", "Background").await;
    let done = world.pods().await.into_iter().find(|pod| crate::world::name(pod).starts_with("done")).unwrap();
    world.merge("pods", crate::world::name(&done), json!({"metadata": {"finalizers": [TRACKING_FINALIZER]}})).await;
    let mut lost = orphan_pod("lost", json!({"a": "b"}), &[]);
    lost["metadata"]["finalizers"] = json!([TRACKING_FINALIZER]);
    world.create_object(lost).await;
    world.wait_seconds(5).await;
    world.start();
    world.wait_until_settled().await;
    for pod in world.pods().await {
        assert!(finalizers(&pod).is_empty(), "{}", crate::world::name(&pod));
    }
}

/// JOB-5.
#[tokio::test(start_paused = true)]
async fn pods_of_a_job_with_another_manager_keep_the_finalizer() {
    let world = TestCluster::new().await;
    let theirs = world.create_object(job_with_spec("theirs", &[], json!({"managedBy": "example.com/queue"}))).await;
    let mut pod = orphan_pod("pod", json!({"a": "b"}), &[("exit", "0")]);
    pod["metadata"]["finalizers"] = json!([TRACKING_FINALIZER]);
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "theirs",
        "uid": theirs["metadata"]["uid"], "controller": true}]);
    world.create_object(pod).await;
    world.wait_until_settled().await;
    world.sandbox.delete("pods", Some(NAMESPACE), "pod").await.unwrap();
    world.wait_until_settled().await;
    assert_eq!(finalizers(&world.get("pods", "pod").await), [TRACKING_FINALIZER]);
}
