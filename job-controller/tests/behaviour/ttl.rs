//! The deletion of finished Jobs after their time to live.

use serde_json::json;

use crate::world::{JOBS_RESOURCE, NAMESPACE, TestCluster, job, job_with_spec};

async fn is_deleted(world: &TestCluster, name: &str) -> bool {
    // No garbage collector runs here to complete the foreground deletion, so a deleted Job remains terminating.
    match world.sandbox.get(JOBS_RESOURCE, Some(NAMESPACE), name).await {
        Ok(job) => job["metadata"]["deletionTimestamp"].is_string(),
        Err(_) => true,
    }
}

/// JOB-62.
#[tokio::test(start_paused = true)]
async fn a_finished_job_is_deleted_after_its_time_to_live() {
    let world = TestCluster::new().await;
    world.create_object(job_with_spec("ok", &[("exit", "0")], json!({"ttlSecondsAfterFinished": 30}))).await;
    world
        .create_object(job_with_spec(
            "bad",
            &[("exit", "1")],
            json!({"ttlSecondsAfterFinished": 30, "backoffLimit": 0}),
        ))
        .await;
    world.create_object(job("stays", &[("exit", "0")])).await;
    world.create_object(job_with_spec("runs", &[], json!({"ttlSecondsAfterFinished": 0}))).await;
    world.wait_seconds(25).await;
    for name in ["ok", "bad", "stays", "runs"] {
        assert!(!is_deleted(&world, name).await, "{name}");
    }
    world.wait_seconds(15).await;
    assert!(is_deleted(&world, "ok").await && is_deleted(&world, "bad").await);
    assert!(!is_deleted(&world, "stays").await && !is_deleted(&world, "runs").await);
    let ok = world.get(JOBS_RESOURCE, "ok").await;
    assert_eq!(ok["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let text = world.loops.as_ref().map(|l| l.metrics().render_prometheus()).unwrap();
    assert!(text.contains("ttl_after_finished_controller_job_deletion_duration_seconds_count 2"));
}

/// JOB-63.
#[tokio::test(start_paused = true)]
async fn a_longer_time_to_live_delays_the_deletion_and_none_prevents_it() {
    let world = TestCluster::new().await;
    for name in ["longer", "for-ever"] {
        world.create_object(job_with_spec(name, &[("exit", "0")], json!({"ttlSecondsAfterFinished": 30}))).await;
    }
    world.wait_seconds(20).await;
    world.patch_job_spec("longer", json!({"ttlSecondsAfterFinished": 100})).await;
    world.patch_job_spec("for-ever", json!({"ttlSecondsAfterFinished": null})).await;
    world.wait_seconds(60).await;
    assert!(!is_deleted(&world, "longer").await && !is_deleted(&world, "for-ever").await);
    world.wait_seconds(40).await;
    assert!(is_deleted(&world, "longer").await && !is_deleted(&world, "for-ever").await);
}

/// JOB-62.
#[tokio::test(start_paused = true)]
async fn a_time_to_live_of_zero_deletes_at_once() {
    let world = TestCluster::new().await;
    world.create_object(job_with_spec("ok", &[("exit", "0")], json!({"ttlSecondsAfterFinished": 0}))).await;
    world.wait_seconds(4).await;
    assert!(is_deleted(&world, "ok").await);
}

/// JOB-62.
#[tokio::test(start_paused = true)]
async fn jobs_that_finished_before_the_start_are_found() {
    let mut world = TestCluster::new().await;
    world.create_object(job_with_spec("ok", &[("exit", "0")], json!({"ttlSecondsAfterFinished": 10}))).await;
    world.wait_seconds(5).await;
    world.crash_loops();
    world.wait_seconds(60).await;
    assert!(!is_deleted(&world, "ok").await);
    world.start();
    world.wait_seconds(2).await;
    assert!(is_deleted(&world, "ok").await);
}

/// JOB-1.
#[tokio::test(start_paused = true)]
async fn each_loop_runs_without_the_other() {
    use common::settings::OperatorSettings;
    let mut world = TestCluster::new().await;
    world.create_object(job_with_spec("ok", &[("exit", "0")], json!({"ttlSecondsAfterFinished": 0}))).await;
    world.crash_loops();
    let client = world.sandbox.client(crate::world::CONTROLLER_IDENTITY);
    world.loops =
        Some(sandbox::loops::Loops::start(&client, &world.clock, OperatorSettings::new(), &[job_controller::JOB_LOOP]));
    world.wait_seconds(30).await;
    assert_eq!(world.conditions("ok").await.len(), 2);
    assert!(!is_deleted(&world, "ok").await);
    world.loops = Some(sandbox::loops::Loops::start(
        &client,
        &world.clock,
        OperatorSettings::new(),
        &[job_controller::TTL_AFTER_FINISHED_LOOP],
    ));
    world.wait_seconds(2).await;
    assert!(is_deleted(&world, "ok").await);
}
