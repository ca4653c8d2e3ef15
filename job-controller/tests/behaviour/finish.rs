//! The end of Jobs, and the finalizers of Pods when their Job is deleted.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use serde_json::json;

use crate::{
    oracle,
    world::{
        ClusterSetup, JOBS_RESOURCE, NAMESPACE, RequestFilter, TRACKING_FINALIZER, TestCluster, error_response,
        finalizers, job, job_with_spec, name,
    },
};

/// JOB-14.
#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_lose_their_finalizer() {
    for policy in ["Background", "Foreground", "Orphan"] {
        let world = TestCluster::new().await;
        world
            .create_object(job_with_spec(
                "sum",
                &[("exit-index-0", "0")],
                json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}),
            ))
            .await;
        world.wait_until_settled().await;
        world.delete_job("sum", policy).await;
        world.wait_until_settled().await;
        let pods = world.pods().await;
        assert_eq!(pods.len(), 3, "{policy}");
        for pod in &pods {
            assert!(finalizers(pod).is_empty(), "{policy}: {}", name(pod));
        }
        assert_eq!((world.request_count("create", "pods"), world.request_count("delete", "pods")), (3, 0), "{policy}");
        oracle::check_all_writes(&world);
    }
}

/// Changes a label of the Pod, so that the selector of its Job no longer matches it.
async fn relabel(world: &TestCluster, pod: &str) {
    let labels = json!({"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "other"}}});
    world.merge("pods", pod, labels).await;
}

/// JOB-14, JOB-81.
#[tokio::test(start_paused = true)]
async fn relabelled_pods_lose_the_finalizer_of_a_terminating_job() {
    for policy in ["Foreground", "Orphan"] {
        for (suspends, relabels_first) in [(false, true), (false, false), (true, false)] {
            let mut world = TestCluster::new().await;
            let slow = [("terminate-after", "600")];
            let job =
                world.create_object(job_with_spec("sum", &slow, json!({"completions": 2, "parallelism": 2}))).await;
            world.wait_until_settled().await;
            let pods: Vec<String> = world.active_pod_names().await.into_iter().collect();
            // The loops stop here, so that they do not release the Pod before the Job is deleted.
            world.crash_loops();
            if suspends {
                world.patch_job_spec("sum", json!({"suspend": true})).await;
            }
            if relabels_first {
                relabel(&world, &pods[0]).await;
                world.delete_job("sum", policy).await;
                world.start();
            } else {
                world.delete_job("sum", policy).await;
                relabel(&world, &pods[0]).await;
                world.start();
            }
            world.wait_until_settled().await;
            let case = format!("{policy} suspends: {suspends}, relabels first: {relabels_first}");
            for pod in &pods {
                let pod = world.get("pods", pod).await;
                assert!(finalizers(&pod).is_empty(), "{case}: {}", name(&pod));
                // The Pod keeps its owner reference, so that the garbage collector still finds it.
                assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], job["metadata"]["uid"], "{case}");
            }
            // The writes to Pods are two creations, and one removal of the finalizer for each Pod.
            let untracks = world.writes_of_loops().iter().filter(|write| write.resource == "pods").count();
            assert_eq!(untracks, 2 + pods.len(), "{case}: in addition to two creates");
        }
    }
}

/// JOB-81.
#[tokio::test(start_paused = true)]
async fn a_pod_relabelled_while_its_job_is_terminating_loses_the_finalizer() {
    // No garbage collector runs here, so the Job remains terminating after its Pods have lost the tracking finalizer.
    let world = TestCluster::new().await;
    let sum = world.create_object(job_with_spec("sum", &[], json!({"completions": 2, "parallelism": 2}))).await;
    world.wait_until_settled().await;
    world.delete_job("sum", "Foreground").await;
    world.wait_until_settled().await;
    let mut late = crate::world::orphan_pod("late", json!({"a": "b"}), &[]);
    late["metadata"]["finalizers"] = json!([TRACKING_FINALIZER, "example.com/keep"]);
    late["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "sum",
        "uid": sum["metadata"]["uid"], "controller": true}]);
    world.create_object(late).await;
    world.wait_until_settled().await;
    assert_eq!(finalizers(&world.get("pods", "late").await), ["example.com/keep"]);
}

/// JOB-83.
#[tokio::test(start_paused = true)]
async fn a_refused_removal_of_a_finalizer_is_retried() {
    let refused = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&refused);
    let filter: RequestFilter = Arc::new(move |request| {
        let is_untrack = request.method() == http::Method::PATCH && request.uri().path().contains("/pods/");
        (is_untrack && counter.fetch_add(1, Relaxed) < 3)
            .then(|| error_response(403, "Forbidden", "pods are locked", &json!([])))
    });
    let mut world = TestCluster::with_setup(ClusterSetup { filter: Some(filter), ..ClusterSetup::default() }).await;
    world.create_object(job("sum", &[])).await;
    world.wait_until_settled().await;
    let pod = world.active_pod_names().await.into_iter().next().unwrap();
    world.crash_loops();
    relabel(&world, &pod).await;
    world.delete_job("sum", "Foreground").await;
    world.start();
    world.wait_seconds(60).await;
    assert!(finalizers(&world.get("pods", &pod).await).is_empty());
    assert_eq!(refused.load(Relaxed), 4);
    let events = world.events().await;
    assert!(
        events.iter().any(|event| event.contains("cannot remove the finalizer") && event.contains("pods are locked")),
        "{events:?}"
    );
}

/// JOB-12.
#[tokio::test(start_paused = true)]
async fn a_relabelled_pod_is_released_without_the_finalizer_unless_its_job_is_terminating() {
    for suspends in [false, true] {
        let mut world = TestCluster::new().await;
        world.create_object(job_with_spec("sum", &[], json!({"completions": 2, "parallelism": 2}))).await;
        world.wait_until_settled().await;
        let pod = world.active_pod_names().await.into_iter().next().unwrap();
        world.crash_loops();
        relabel(&world, &pod).await;
        world.patch_job_spec("sum", json!({ "suspend": suspends })).await;
        world.start();
        world.wait_until_settled().await;
        let pod = world.get("pods", &pod).await;
        assert!(finalizers(&pod).is_empty(), "suspends: {suspends}");
        assert_eq!(pod["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len), 0, "suspends: {suspends}");
        assert!(pod["metadata"]["deletionTimestamp"].is_null(), "it belongs to no Job any more");
    }
}

/// JOB-61.
#[tokio::test(start_paused = true)]
async fn a_finished_job_keeps_no_finalizer_on_a_relabelled_pod() {
    let mut world = TestCluster::new().await;
    world.create_object(job("sum", &[("exit", "1")])).await;
    world.merge(JOBS_RESOURCE, "sum", json!({"spec": {"backoffLimit": 0}})).await;
    world.wait_until_settled().await;
    assert_eq!(world.conditions("sum").await.last().unwrap(), "Failed BackoffLimitExceeded");
    let pod = name(&world.pods().await[0]).to_owned();
    world.crash_loops();
    relabel(&world, &pod).await;
    world.merge("pods", &pod, json!({"metadata": {"finalizers": [TRACKING_FINALIZER]}})).await;
    world.delete_job("sum", "Foreground").await;
    world.start();
    world.wait_until_settled().await;
    assert!(finalizers(&world.get("pods", &pod).await).is_empty());
}

/// JOB-52.
#[tokio::test(start_paused = true)]
async fn an_end_decided_by_another_version_keeps_its_reason_and_message() {
    let mut world = TestCluster::new().await;
    world.crash_loops();
    world.create_object(job("sum", &[])).await;
    let condition = json!({"type": "FailureTarget", "status": "True", "reason": "OnAWhim", "message": "why not",
        "lastProbeTime": "2026-11-21T09:00:00Z", "lastTransitionTime": "2026-11-21T09:00:00Z"});
    let status = json!({"startTime": "2026-11-21T09:00:00Z", "conditions": [condition]});
    world
        .sandbox
        .merge(JOBS_RESOURCE, Some(NAMESPACE), "sum", Some("status"), json!({ "status": status }))
        .await
        .unwrap();
    world.start();
    world.wait_seconds(5).await;
    assert_eq!(world.conditions("sum").await, ["FailureTarget OnAWhim", "Failed OnAWhim"]);
    assert_eq!(world.events().await, ["Warning OnAWhim why not"]);
}

/// JOB-70.
#[tokio::test(start_paused = true)]
async fn a_recreated_job_starts_at_once_and_counts_only_its_own_pods() {
    let world = TestCluster::new().await;
    world
        .create_object(job_with_spec("sum", &[("terminate-after", "20")], json!({"completions": 2, "parallelism": 2})))
        .await;
    world.wait_until_settled().await;
    let old = world.active_pod_names().await;
    world.delete_job("sum", "Background").await;
    world
        .create_object(job_with_spec(
            "sum",
            &[("exit", "0"), ("after", "2")],
            json!({"completions": 2, "parallelism": 2}),
        ))
        .await;
    world.wait_seconds(1).await;
    assert_eq!(world.active_pod_names().await.len(), 4, "the old Job's Pods do not count");
    world.wait_until_settled().await;
    let status = world.job_status("sum").await;
    assert_eq!((&status["succeeded"], status.get("failed")), (&json!(2), None));
    for pod in old {
        assert!(finalizers(&world.get("pods", &pod).await).is_empty());
    }
    oracle::check_all_writes(&world);
}

/// JOB-58.
#[tokio::test(start_paused = true)]
async fn a_finished_job_is_not_written_any_more() {
    let world = TestCluster::new().await;
    world.create_object(job("sum", &[("exit", "0")])).await;
    world.wait_until_settled().await;
    world.reset_counts();
    for _ in 0..3 {
        world.touch_job("sum").await;
        world.wait_seconds(5).await;
    }
    assert!(world.writes_of_loops().is_empty());
    let explained = world.loops.as_ref().unwrap().explain(Some("shop/sum"));
    assert_eq!(explained[0]["state"], "settled");
}

#[tokio::test(start_paused = true)]
async fn the_explanation_shows_what_a_job_waits_for() {
    let world = TestCluster::new().await;
    world.create_object(job_with_spec("slow", &[("terminate-after", "25")], json!({"activeDeadlineSeconds": 5}))).await;
    world.create_object(job("bad", &[("exit", "1")])).await;
    world.wait_seconds(10).await;
    let explained = |key: &str| world.loops.as_ref().unwrap().explain(Some(key))[0]["waiting"].clone();
    assert_eq!(explained("shop/slow"), json!(["Failed (DeadlineExceeded) once 1 terminating Pods have finished"]));
    world.wait_seconds(5).await;
    let why = explained("shop/bad").to_string();
    assert!(why.contains("1 Pods are missing, the next is created in "), "{why}");
}
