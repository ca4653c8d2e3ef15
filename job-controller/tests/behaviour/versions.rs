//! Writes with a precondition on a Pod's cached version, so that a stale cache causes a conflict instead of a lost result.

use crate::world::*;

/// JOB-13, JOB-86.
#[tokio::test(start_paused = true)]
async fn a_pod_that_succeeded_unseen_is_counted_and_not_deleted_with_its_suspended_job() {
    let world = cluster().start().await;
    world.create(sum("exit=0 after=10", json!({}))).await;
    world.wait(5).await;
    world.hold("pods");
    world.wait(8).await;
    world.clear_log();
    world.change(json!({"suspend": true})).await;
    world.wait(20).await;
    let pods = world.pods().await;
    assert_eq!(
        (pods[0]["status"]["phase"].as_str(), finalizers(&pods[0])),
        (Some("Succeeded"), vec![TRACKING_FINALIZER])
    );
    assert_eq!(world.count("delete", "pods"), 0);
    // A conflict causes no busy loop, because the next attempt waits until the cache is up to date, or for some seconds.
    world.assert_count("patch", "pods", 1..=6);
    world.release("pods");
    world.settle().await;
    assert_eq!(world.status().await["succeeded"], 1);
    assert_eq!(world.true_conditions().await.last().unwrap(), "Complete CompletionsReached");
}

/// JOB-55, JOB-86.
#[tokio::test(start_paused = true)]
async fn a_pod_that_succeeded_unseen_is_not_counted_as_failed_with_its_job() {
    let world = cluster().start().await;
    let spec = json!({"completions": 2, "parallelism": 2, "activeDeadlineSeconds": 15});
    world.create(sum("exit=0 after=10", spec)).await;
    world.wait(5).await;
    world.wait(2).await;
    world.hold("pods");
    world.wait(20).await;
    world.assert_count("delete", "pods", 2..=8);
    assert!(world.true_conditions().await.is_empty(), "the Job does not end with a cache known to be stale");
    world.release("pods");
    world.settle().await;
    assert_eq!(pick(&world.status().await, "succeeded failed"), json!([2, null]));
}

/// JOB-13.
#[tokio::test(start_paused = true)]
async fn a_conflict_is_resolved_soon_when_the_newer_version_is_cached() {
    let world = cluster().start().await;
    world.create(sum("exit=0 after=10", json!({}))).await;
    world.wait(5).await;
    world.delay("pods", 2);
    world.wait(6).await;
    let pod = name(&world.pods().await[0]).to_owned();
    // Another writer changes the Pod just before its finalizer is removed.
    world.wait(1.9).await;
    world.patch("pods", &pod, json!({"metadata": {"annotations": {"note": "seen"}}})).await;
    world.wait(4).await;
    assert_eq!(world.status().await["succeeded"], 1);
    assert!(world.count("patch", "pods") <= 2, "{}", world.count("patch", "pods"));
}

/// JOB-13.
#[tokio::test(start_paused = true)]
async fn an_unrelated_conflict_is_retried() {
    let conflict = Action::Conflict;
    let world = cluster().start().await;
    world.fault(rule(conflict.clone(), "patch", "pods").times(2));
    let refused = || world.sandbox.faults().hits(&conflict);
    world.create(sum("exit=0", json!({}))).await;
    world.wait(4).await;
    assert_eq!(refused(), 1, "the Pod has not changed: the next attempt waits");
    world.wait(12).await;
    assert_eq!((refused(), world.count("patch", "pods")), (2, 3));
    assert_eq!(world.status().await["succeeded"], 1);
}

/// JOB-13.
#[tokio::test(start_paused = true)]
async fn a_pod_selected_again_before_the_cache_shows_it_is_not_released() {
    let world = cluster().start().await;
    let job = world.create_and_settle(sum("", json!({}))).await;
    let pod = name(&world.pods().await[0]).to_owned();
    let uid = &job["metadata"]["uid"];
    let relabel = |uid: &Value| json!({"metadata": {"labels": {"batch.kubernetes.io/controller-uid": uid}}});
    world.delay("pods", 3);
    world.clear_log();
    world.patch("pods", &pod, relabel(&json!("other"))).await;
    world.wait(2).await;
    world.patch("pods", &pod, relabel(uid)).await;
    world.wait(20).await;
    assert_eq!((world.count("patch", "pods"), world.own_writes().len()), (1, 0), "the release was refused");
    assert_eq!(finalizers(&world.pods().await[0]), [TRACKING_FINALIZER]);
}
