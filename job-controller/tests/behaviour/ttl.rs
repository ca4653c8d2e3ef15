//! The deletion of finished Jobs after their time to live.

use serde_json::json;

use crate::world::{JOBS, NS, World, job, job_with};

async fn gone(world: &World, name: &str) -> bool {
    // No garbage collector runs here to complete the foreground deletion, so a deleted Job stays terminating.
    match world.sandbox.get(JOBS, Some(NS), name).await {
        Ok(job) => job["metadata"]["deletionTimestamp"].is_string(),
        Err(_) => true,
    }
}

/// JOB-62.
#[tokio::test(start_paused = true)]
async fn a_finished_job_is_deleted_after_its_time_to_live() {
    let world = World::new().await;
    world.apply(job_with("ok", &[("exit", "0")], json!({"ttlSecondsAfterFinished": 30}))).await;
    world.apply(job_with("bad", &[("exit", "1")], json!({"ttlSecondsAfterFinished": 30, "backoffLimit": 0}))).await;
    world.apply(job("stays", &[("exit", "0")])).await;
    world.apply(job_with("runs", &[], json!({"ttlSecondsAfterFinished": 0}))).await;
    world.wait(25).await;
    for name in ["ok", "bad", "stays", "runs"] {
        assert!(!gone(&world, name).await, "{name}");
    }
    world.wait(15).await;
    assert!(gone(&world, "ok").await && gone(&world, "bad").await);
    assert!(!gone(&world, "stays").await && !gone(&world, "runs").await);
    let ok = world.get(JOBS, "ok").await;
    assert_eq!(ok["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let text = world.loops.as_ref().map(|l| l.metrics().prometheus()).unwrap();
    assert!(text.contains("ttl_after_finished_controller_job_deletion_duration_seconds_count 2"));
}

/// JOB-63.
#[tokio::test(start_paused = true)]
async fn a_longer_time_to_live_delays_the_deletion_and_none_prevents_it() {
    let world = World::new().await;
    for name in ["longer", "for-ever"] {
        world.apply(job_with(name, &[("exit", "0")], json!({"ttlSecondsAfterFinished": 30}))).await;
    }
    world.wait(20).await;
    world.change("longer", json!({"ttlSecondsAfterFinished": 100})).await;
    world.change("for-ever", json!({"ttlSecondsAfterFinished": null})).await;
    world.wait(60).await;
    assert!(!gone(&world, "longer").await && !gone(&world, "for-ever").await);
    world.wait(40).await;
    assert!(gone(&world, "longer").await && !gone(&world, "for-ever").await);
}

/// JOB-62.
#[tokio::test(start_paused = true)]
async fn a_time_to_live_of_zero_deletes_at_once() {
    let world = World::new().await;
    world.apply(job_with("ok", &[("exit", "0")], json!({"ttlSecondsAfterFinished": 0}))).await;
    world.wait(4).await;
    assert!(gone(&world, "ok").await);
}

/// JOB-62.
#[tokio::test(start_paused = true)]
async fn jobs_that_finished_before_the_start_are_found() {
    let mut world = World::new().await;
    world.apply(job_with("ok", &[("exit", "0")], json!({"ttlSecondsAfterFinished": 10}))).await;
    world.wait(5).await;
    world.crash();
    world.wait(60).await;
    assert!(!gone(&world, "ok").await);
    world.start();
    world.wait(2).await;
    assert!(gone(&world, "ok").await);
}

/// JOB-1.
#[tokio::test(start_paused = true)]
async fn each_loop_runs_without_the_other() {
    use common::settings::Settings;
    let mut world = World::new().await;
    world.apply(job_with("ok", &[("exit", "0")], json!({"ttlSecondsAfterFinished": 0}))).await;
    world.crash();
    let client = world.sandbox.client(crate::world::ME);
    world.loops = Some(sandbox::loops::Loops::start(&client, &world.clock, Settings::new(), &[job_controller::JOB]));
    world.wait(30).await;
    assert_eq!(world.conditions("ok").await.len(), 2);
    assert!(!gone(&world, "ok").await);
    world.loops = Some(sandbox::loops::Loops::start(
        &client,
        &world.clock,
        Settings::new(),
        &[job_controller::TTL_AFTER_FINISHED],
    ));
    world.wait(2).await;
    assert!(gone(&world, "ok").await);
}
