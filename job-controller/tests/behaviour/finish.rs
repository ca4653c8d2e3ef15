//! The end of Jobs, and the finalizers of Pods when their Job is deleted.

use crate::{oracle, world::*};

/// JOB-58.
#[tokio::test(start_paused = true)]
async fn a_finished_job_is_not_written_any_more() {
    let world = cluster().settled(sum("exit=0", json!({}))).await;
    world.clear_log();
    for _ in 0..3 {
        world.touch_subject().await;
        world.wait(5).await;
    }
    world.assert_wrote_nothing();
    assert_eq!(world.true_conditions().await.len(), 2);
    assert_eq!(world.explain()["state"], "settled");
}

/// JOB-14.
#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_lose_their_finalizer() {
    for policy in ["Background", "Foreground", "Orphan"] {
        let world = cluster().settled(indexed("exit-index-0=0", 3)).await;
        delete_job(&world, "sum", policy).await;
        world.settle().await;
        let pods = world.pods().await;
        assert_eq!(pods.len(), 3, "{policy}");
        for pod in &pods {
            assert!(finalizers(pod).is_empty(), "{policy}: {}", name(pod));
        }
        assert_eq!((world.count("create", "pods"), world.count("delete", "pods")), (3, 0), "{policy}");
        oracle::check_all_writes(&world);
    }
}

/// Changes a label of the Pod, so that the selector of its Job no longer matches it.
async fn relabel(world: &World, pod: &str) {
    world.label("pods", pod, json!({"batch.kubernetes.io/controller-uid": "other"})).await;
}

/// JOB-14, JOB-81.
#[tokio::test(start_paused = true)]
async fn relabelled_pods_lose_the_finalizer_of_a_terminating_job() {
    for policy in ["Foreground", "Orphan"] {
        for (suspends, relabels_first) in [(false, true), (false, false), (true, false)] {
            let mut world = cluster().start().await;
            let job = world.create_and_settle(parallel("terminate-after=600", 2)).await;
            let pods: Vec<String> = world.active_pods().await.into_iter().collect();
            // The loops stop here, so that they do not release the Pod before the Job is deleted.
            world.crash();
            if suspends {
                world.change(json!({"suspend": true})).await;
            }
            if relabels_first {
                relabel(&world, &pods[0]).await;
                delete_job(&world, "sum", policy).await;
                world.start();
            } else {
                delete_job(&world, "sum", policy).await;
                relabel(&world, &pods[0]).await;
                world.start();
            }
            world.settle().await;
            let case = format!("{policy} suspends: {suspends}, relabels first: {relabels_first}");
            for pod in &pods {
                let pod = world.get("pods", pod).await;
                assert!(finalizers(&pod).is_empty(), "{case}: {}", name(&pod));
                // The Pod keeps its owner reference, so that the garbage collector still finds it.
                assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], job["metadata"]["uid"], "{case}");
            }
            // The writes to Pods are two creations, and one removal of the finalizer for each Pod.
            let untracks = world.own_writes().iter().filter(|write| write.resource == "pods").count();
            assert_eq!(untracks, 2 + pods.len(), "{case}: in addition to two creates");
        }
    }
}

/// JOB-81.
#[tokio::test(start_paused = true)]
async fn a_pod_relabelled_while_its_job_is_terminating_loses_the_finalizer() {
    // No garbage collector runs here, so the Job remains terminating after its Pods have lost the tracking finalizer.
    let world = cluster().start().await;
    let sum = world.create_and_settle(parallel("", 2)).await;
    delete_job(&world, "sum", "Foreground").await;
    world.settle().await;
    let mut late = orphan("late", json!({"a": "b"}), "");
    late["metadata"]["finalizers"] = json!([TRACKING_FINALIZER, "example.com/keep"]);
    late["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "sum",
        "uid": sum["metadata"]["uid"], "controller": true}]);
    world.create_and_settle(late).await;
    assert_eq!(finalizers(&world.get("pods", "late").await), ["example.com/keep"]);
}

/// JOB-83.
#[tokio::test(start_paused = true)]
async fn a_refused_removal_of_a_finalizer_is_retried() {
    let forbidden = Action::Forbidden;
    let mut world = cluster().settled(sum("", json!({}))).await;
    world.fault(rule(forbidden.clone(), "patch", "pods").times(3));
    world.clear_log();
    let pod = world.first_active_pod().await;
    world.crash();
    relabel(&world, &pod).await;
    delete_job(&world, "sum", "Foreground").await;
    world.start();
    world.wait(60).await;
    assert!(finalizers(&world.get("pods", &pod).await).is_empty());
    assert_eq!((world.sandbox.faults().hits(&forbidden), world.count("patch", "pods")), (3, 4));
    let events = world.events().await;
    assert!(
        events.iter().any(|event| event.contains("cannot remove the finalizer") && event.contains("is forbidden")),
        "{events:?}"
    );
}

/// JOB-12.
#[tokio::test(start_paused = true)]
async fn a_relabelled_pod_is_released_without_the_finalizer_unless_its_job_is_terminating() {
    for suspends in [false, true] {
        let mut world = cluster().settled(parallel("", 2)).await;
        let pod = world.first_active_pod().await;
        world.crash();
        relabel(&world, &pod).await;
        world.change(json!({ "suspend": suspends })).await;
        world.start();
        world.settle().await;
        let pod = world.get("pods", &pod).await;
        assert!(finalizers(&pod).is_empty(), "suspends: {suspends}");
        assert_eq!(pod["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len), 0, "suspends: {suspends}");
        assert!(pod["metadata"]["deletionTimestamp"].is_null(), "it belongs to no Job any more");
    }
}

/// JOB-61.
#[tokio::test(start_paused = true)]
async fn a_finished_job_keeps_no_finalizer_on_a_relabelled_pod() {
    let mut world = cluster().start().await;
    world.create(sum("exit=1", json!({}))).await;
    world.change_and_settle(json!({"backoffLimit": 0})).await;
    assert_eq!(world.true_conditions().await.last().unwrap(), "Failed BackoffLimitExceeded");
    let pod = name(&world.pods().await[0]).to_owned();
    world.crash();
    relabel(&world, &pod).await;
    world.patch("pods", &pod, json!({"metadata": {"finalizers": [TRACKING_FINALIZER]}})).await;
    delete_job(&world, "sum", "Foreground").await;
    world.start();
    world.settle().await;
    assert!(finalizers(&world.get("pods", &pod).await).is_empty());
}

/// JOB-52.
#[tokio::test(start_paused = true)]
async fn an_end_decided_by_another_version_keeps_its_reason_and_message() {
    let mut world = cluster().start().await;
    world.crash();
    world.create(sum("", json!({}))).await;
    let condition = json!({"type": "FailureTarget", "status": "True", "reason": "OnAWhim", "message": "why not",
        "lastProbeTime": "2026-11-21T09:00:00Z", "lastTransitionTime": "2026-11-21T09:00:00Z"});
    world.patch_status(JOBS, "sum", json!({"startTime": "2026-11-21T09:00:00Z", "conditions": [condition]})).await;
    world.start();
    world.wait(5).await;
    assert_eq!(world.true_conditions().await, ["FailureTarget OnAWhim", "Failed OnAWhim"]);
    assert_eq!(world.events().await, ["Warning OnAWhim why not"]);
}

/// JOB-70.
#[tokio::test(start_paused = true)]
async fn a_recreated_job_starts_at_once_and_counts_only_its_own_pods() {
    let world = cluster().settled(parallel("terminate-after=20", 2)).await;
    let old = world.active_pods().await;
    delete_job(&world, "sum", "Background").await;
    world.create(parallel("exit=0 after=2", 2)).await;
    world.wait(1).await;
    assert_eq!(world.active_pods().await.len(), 4, "the old Job's Pods do not count");
    world.settle().await;
    assert_eq!(pick(&world.status().await, "succeeded failed"), json!([2, null]));
    for pod in old {
        assert!(finalizers(&world.get("pods", &pod).await).is_empty());
    }
    oracle::check_all_writes(&world);
}

#[tokio::test(start_paused = true)]
async fn the_explanation_shows_what_a_job_waits_for() {
    let world = cluster().start().await;
    world.create(job("slow", "terminate-after=25", json!({"activeDeadlineSeconds": 5}))).await;
    world.create(job("bad", "exit=1", json!({}))).await;
    world.wait(10).await;
    let explained = |key: &str| world.loops().explain(Some(key))[0]["waiting"].clone();
    assert_eq!(explained("shop/slow"), json!(["Failed (DeadlineExceeded) once 1 terminating Pods have finished"]));
    world.wait(5).await;
    let why = explained("shop/bad").to_string();
    assert!(why.contains("1 Pods are missing, the next is created in "), "{why}");
}
