//! What the end of a Job waits for, and deletions of Jobs.

use serde_json::json;

use crate::{
    oracle,
    world::{JOBS, NS, World, finalizers, job, job_with, name},
};

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_lose_their_finalizer() {
    for policy in ["Background", "Foreground", "Orphan"] {
        let world = World::new().await;
        world
            .apply(job_with(
                "sum",
                &[("exit-index-0", "0")],
                json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}),
            ))
            .await;
        world.settle().await;
        world.remove("sum", policy).await;
        world.settle().await;
        let pods = world.pods().await;
        assert_eq!(pods.len(), 3, "{policy}");
        for pod in &pods {
            assert!(finalizers(pod).is_empty(), "{policy}: {}", name(pod));
        }
        assert_eq!((world.asked("create", "pods"), world.asked("delete", "pods")), (3, 0), "{policy}");
        oracle::check(&world);
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_that_another_version_decided_is_told_in_its_words() {
    let mut world = World::new().await;
    world.crash();
    world.apply(job("sum", &[])).await;
    let condition = json!({"type": "FailureTarget", "status": "True", "reason": "OnAWhim", "message": "why not",
        "lastProbeTime": "2026-11-21T09:00:00Z", "lastTransitionTime": "2026-11-21T09:00:00Z"});
    let status = json!({"startTime": "2026-11-21T09:00:00Z", "conditions": [condition]});
    world.sandbox.merge(JOBS, Some(NS), "sum", Some("status"), json!({ "status": status })).await.unwrap();
    world.start();
    world.wait(5).await;
    assert_eq!(world.conditions("sum").await, ["FailureTarget OnAWhim", "Failed OnAWhim"]);
    assert_eq!(world.events().await, ["Warning OnAWhim why not"]);
}

#[tokio::test(start_paused = true)]
async fn a_namesake_starts_at_once_and_counts_only_its_own() {
    let world = World::new().await;
    world.apply(job_with("sum", &[("terminate-after", "20")], json!({"completions": 2, "parallelism": 2}))).await;
    world.settle().await;
    let old = world.active().await;
    world.remove("sum", "Background").await;
    world.apply(job_with("sum", &[("exit", "0"), ("after", "2")], json!({"completions": 2, "parallelism": 2}))).await;
    world.wait(1).await;
    assert_eq!(world.active().await.len(), 4, "the Pods of the old one are another's");
    world.settle().await;
    let status = world.status("sum").await;
    assert_eq!((&status["succeeded"], status.get("failed")), (&json!(2), None));
    for pod in old {
        assert!(finalizers(&world.get("pods", &pod).await).is_empty());
    }
    oracle::check(&world);
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_is_not_touched_any_more() {
    let world = World::new().await;
    world.apply(job("sum", &[("exit", "0")])).await;
    world.settle().await;
    world.forget();
    for _ in 0..3 {
        world.poke("sum").await;
        world.wait(5).await;
    }
    assert!(world.written().is_empty());
    let told = world.loops.as_ref().unwrap().explain(Some("shop/sum"));
    assert_eq!(told[0]["state"], "settled");
}

#[tokio::test(start_paused = true)]
async fn the_job_says_what_it_waits_for() {
    let world = World::new().await;
    world.apply(job_with("slow", &[("terminate-after", "25")], json!({"activeDeadlineSeconds": 5}))).await;
    world.apply(job("bad", &[("exit", "1")])).await;
    world.wait(10).await;
    let told = |key: &str| world.loops.as_ref().unwrap().explain(Some(key))[0]["waiting"].clone();
    assert_eq!(told("shop/slow"), json!(["Failed (DeadlineExceeded) as soon as 1 terminating Pods are gone"]));
    world.wait(5).await;
    let why = told("shop/bad").to_string();
    assert!(why.contains("1 Pods are missing, the next is created in "), "{why}");
}
