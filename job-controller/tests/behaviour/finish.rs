//! The end of Jobs, and the finalizers of Pods when their Job is deleted.

use crate::world::*;

/// Changes a label of the Pod, so that the selector of its Job no longer matches it.
async fn relabel(world: &World, pod: &str) {
    world.label("pods", pod, json!({"batch.kubernetes.io/controller-uid": "other"})).await;
}

/// JOB-12, JOB-14, JOB-81.
#[tokio::test(start_paused = true)]
async fn relabelled_pods_lose_the_finalizer_and_are_released_unless_their_job_is_terminating() {
    for (deletes, suspends, relabels_first) in [
        ("Foreground", false, true),
        ("Foreground", false, false),
        ("Foreground", true, false),
        ("Orphan", false, true),
        ("Orphan", false, false),
        ("Orphan", true, false),
        ("", false, true),
        ("", true, true),
    ] {
        let case = format!("deletes: {deletes}, suspends: {suspends}, relabels first: {relabels_first}");
        let mut world = cluster().settled(parallel("terminate-after=600", 2)).await;
        let first = world.first_active_pod().await;
        // The loops stop here, so that they do not release the Pod before the Job is deleted.
        world.crash();
        world.clear_log();
        world.change(json!({ "suspend": suspends })).await;
        if relabels_first {
            relabel(&world, &first).await;
        }
        if !deletes.is_empty() {
            delete_job(&world, "sum", deletes).await;
        }
        if !relabels_first {
            relabel(&world, &first).await;
        }
        world.start();
        world.settle().await;
        let relabelled = world.get("pods", &first).await;
        assert!(finalizers(&relabelled).is_empty(), "{case}");
        if deletes.is_empty() {
            assert!(owners(&relabelled).is_empty() && !is_terminating(&relabelled), "{case}: it belongs to no Job");
            continue;
        }
        // The Pods keep their owner reference, so that the garbage collector still finds them.
        for pod in world.pods().await {
            assert_eq!((finalizers(&pod).len(), owners(&pod)), (0, vec!["Job sum".to_owned()]), "{case}");
        }
        let untracks = world.own_writes().iter().filter(|write| write.resource == "pods").count();
        assert_eq!(untracks, 2, "{case}: one removal of the finalizer for each Pod");
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
