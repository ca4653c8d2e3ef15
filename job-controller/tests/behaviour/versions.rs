//! Writes with a precondition on a Pod's cached version, so that a stale cache causes a conflict instead of a lost result.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request};
use serde_json::json;

use crate::{
    oracle,
    world::{
        CONTROLLER_IDENTITY, ClusterSetup, TRACKING_FINALIZER, TestCluster, error_response, finalizers, job,
        job_with_spec, name, orphan_pod,
    },
};

/// JOB-13, JOB-86.
#[tokio::test(start_paused = true)]
async fn a_pod_that_succeeded_unseen_is_counted_and_not_deleted_with_its_suspended_job() {
    let world = TestCluster::new().await;
    world.create_object(job("sum", &[("exit", "0"), ("after", "10")])).await;
    world.wait_seconds(5).await;
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
    world.wait_seconds(8).await;
    world.reset_counts();
    world.patch_job_spec("sum", json!({"suspend": true})).await;
    world.wait_seconds(20).await;
    let pods = world.pods().await;
    assert_eq!(
        (pods[0]["status"]["phase"].as_str(), finalizers(&pods[0])),
        (Some("Succeeded"), vec![TRACKING_FINALIZER])
    );
    assert_eq!(world.request_count("delete", "pods"), 0);
    // A conflict causes no busy loop, because the next attempt waits until the cache is up to date, or for some seconds.
    let attempts = world.request_count("patch", "pods");
    assert!((1..=6).contains(&attempts), "{attempts} attempts");
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "pods");
    world.wait_until_settled().await;
    assert_eq!(world.job_status("sum").await["succeeded"], 1);
    assert_eq!(world.conditions("sum").await.last().unwrap(), "Complete CompletionsReached");
    oracle::check_all_writes(&world);
}

/// JOB-55, JOB-86.
#[tokio::test(start_paused = true)]
async fn a_pod_that_succeeded_unseen_is_not_counted_as_failed_with_its_job() {
    let world = TestCluster::new().await;
    let spec = json!({"completions": 2, "parallelism": 2, "activeDeadlineSeconds": 15});
    world.create_object(job_with_spec("sum", &[("exit", "0"), ("after", "10")], spec)).await;
    world.wait_seconds(5).await;
    world.wait_seconds(2).await;
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
    world.wait_seconds(20).await;
    let attempts = world.request_count("delete", "pods");
    assert!((2..=8).contains(&attempts), "{attempts} attempts: refused, and retried only after some seconds");
    assert!(world.conditions("sum").await.is_empty(), "the Job does not end with a cache known to be stale");
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "pods");
    world.wait_until_settled().await;
    let status = world.job_status("sum").await;
    assert_eq!((&status["succeeded"], status.get("failed")), (&json!(2), None));
    oracle::check_all_writes(&world);
}

/// JOB-13.
#[tokio::test(start_paused = true)]
async fn a_conflict_is_resolved_soon_when_the_newer_version_is_cached() {
    let world = TestCluster::new().await;
    world.create_object(job("sum", &[("exit", "0"), ("after", "10")])).await;
    world.wait_seconds(5).await;
    world.sandbox.faults().delay_watch(CONTROLLER_IDENTITY, "pods", Duration::from_secs(2));
    world.wait_seconds(6).await;
    let pod = name(&world.pods().await[0]).to_owned();
    // Another writer changes the Pod just before its finalizer is removed.
    world.clock.sleep(Duration::from_millis(1900)).await;
    world.merge("pods", &pod, json!({"metadata": {"annotations": {"note": "seen"}}})).await;
    world.wait_seconds(4).await;
    assert_eq!(world.job_status("sum").await["succeeded"], 1);
    assert!(world.request_count("patch", "pods") <= 2, "{}", world.request_count("patch", "pods"));
    oracle::check_all_writes(&world);
}

/// JOB-13.
#[tokio::test(start_paused = true)]
async fn an_unrelated_conflict_is_retried() {
    let refused = Arc::new(AtomicUsize::new(0));
    let filter = {
        let refused = Arc::clone(&refused);
        move |request: &Request<Bytes>| {
            let patches = request.method() == Method::PATCH && request.uri().path().contains("/pods/");
            let first = patches && refused.fetch_add(1, Ordering::Relaxed) < 2;
            first.then(|| error_response(409, "Conflict", "a webhook has said so", &json!([])))
        }
    };
    let world =
        TestCluster::with_setup(ClusterSetup { filter: Some(Arc::new(filter)), ..ClusterSetup::default() }).await;
    world.create_object(job("sum", &[("exit", "0")])).await;
    world.wait_seconds(4).await;
    assert_eq!(refused.load(Ordering::Relaxed), 1, "the Pod has not changed: the next attempt waits");
    world.wait_seconds(12).await;
    assert_eq!((refused.load(Ordering::Relaxed), &world.job_status("sum").await["succeeded"]), (3, &json!(1)));
    oracle::check_all_writes(&world);
}

/// JOB-13.
#[tokio::test(start_paused = true)]
async fn a_pod_selected_again_before_the_cache_shows_it_is_not_released() {
    let world = TestCluster::new().await;
    let job = world.create_object(job("sum", &[])).await;
    world.wait_until_settled().await;
    let pod = name(&world.pods().await[0]).to_owned();
    let uid = &job["metadata"]["uid"];
    let relabel =
        |uid: &serde_json::Value| json!({"metadata": {"labels": {"batch.kubernetes.io/controller-uid": uid}}});
    world.sandbox.faults().delay_watch(CONTROLLER_IDENTITY, "pods", Duration::from_secs(3));
    world.reset_counts();
    world.merge("pods", &pod, relabel(&json!("other"))).await;
    world.wait_seconds(2).await;
    world.merge("pods", &pod, relabel(uid)).await;
    world.wait_seconds(20).await;
    assert_eq!(
        (world.request_count("patch", "pods"), world.writes_of_loops().len()),
        (1, 0),
        "the release was refused"
    );
    assert_eq!(finalizers(&world.pods().await[0]), [TRACKING_FINALIZER]);
    oracle::check_all_writes(&world);
}

/// JOB-84.
#[tokio::test(start_paused = true)]
async fn a_job_in_a_terminating_namespace_sends_one_create() {
    let tries = Arc::new(AtomicUsize::new(0));
    let tried = Arc::clone(&tries);
    let filter = Arc::new(move |request: &Request<Bytes>| {
        let creates = request.method() == Method::POST && request.uri().path().ends_with("/pods");
        tried.fetch_add(usize::from(creates), Ordering::Relaxed);
        creates.then(|| {
            let causes = json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]);
            error_response(403, "Forbidden", "forbidden: namespace shop is being terminated", &causes)
        })
    });
    let world = TestCluster::with_setup(ClusterSetup { filter: Some(filter), ..ClusterSetup::default() }).await;
    world.create_object(job_with_spec("sum", &[], json!({"completions": 30, "parallelism": 30}))).await;
    world.wait_until_settled().await;
    // Each Pod that the namespace controller deletes enqueues the Job.
    for at in 0..5 {
        let uid = world.get(crate::world::JOBS_RESOURCE, "sum").await["metadata"]["uid"].clone();
        let mut pod = orphan_pod(&format!("late-{at}"), json!({"batch.kubernetes.io/controller-uid": uid}), &[]);
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": uid, "controller": true}]);
        world.create_object(pod).await;
        world.wait_seconds(2).await;
        world.sandbox.delete("pods", Some(crate::world::NAMESPACE), &format!("late-{at}")).await.unwrap();
        world.wait_seconds(3).await;
    }
    assert_eq!(tries.load(Ordering::Relaxed), 1);
    let explained = world.loops.as_ref().unwrap().explain(Some("shop/sum"))[0]["waiting"].to_string();
    assert!(explained.contains("the namespace is terminating"), "{explained}");
}
