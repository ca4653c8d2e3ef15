//! The deletion of finished Jobs after their time to live.

use crate::world::*;

async fn is_deleted(world: &World, name: &str) -> bool {
    // No garbage collector runs here to complete the foreground deletion, so a deleted Job remains terminating.
    match world.sandbox.get(JOBS, Some(NAMESPACE), name).await {
        Ok(job) => job["metadata"]["deletionTimestamp"].is_string(),
        Err(_) => true,
    }
}

/// JOB-63.
#[tokio::test(start_paused = true)]
async fn a_longer_time_to_live_delays_the_deletion_and_none_prevents_it() {
    let world = cluster().start().await;
    for name in ["longer", "for-ever"] {
        world.create(job(name, "exit=0", json!({"ttlSecondsAfterFinished": 30}))).await;
    }
    world.wait(20).await;
    world.patch(JOBS, "longer", json!({"spec": {"ttlSecondsAfterFinished": 100}})).await;
    world.patch(JOBS, "for-ever", json!({"spec": {"ttlSecondsAfterFinished": null}})).await;
    world.wait(60).await;
    assert!(!is_deleted(&world, "longer").await && !is_deleted(&world, "for-ever").await);
    world.wait(40).await;
    assert!(is_deleted(&world, "longer").await && !is_deleted(&world, "for-ever").await);
    assert_eq!(world.metric("ttl_after_finished_controller_job_deletion_duration_seconds_count"), 1);
}

/// JOB-1.
#[tokio::test(start_paused = true)]
async fn each_loop_runs_without_the_other() {
    let job_loop = &[job_controller::JOB_LOOP];
    let mut world = cluster().loops(job_loop).start().await;
    world.create(job("ok", "exit=0", json!({"ttlSecondsAfterFinished": 0}))).await;
    world.wait(30).await;
    assert_eq!(conditions(&world, "ok").await.len(), 2);
    assert!(!is_deleted(&world, "ok").await);
    world.set_loops(&[job_controller::TTL_AFTER_FINISHED_LOOP]);
    world.restart();
    world.wait(2).await;
    assert!(is_deleted(&world, "ok").await);
}
