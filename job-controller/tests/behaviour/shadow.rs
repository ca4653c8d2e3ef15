//! Shadow mode: decisions that depend on time are made at the right time, and nothing is written.

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn shadow_mode_decides_and_writes_nothing() {
    let world = cluster().shadow().settled(parallel("", 3)).await;
    world.assert_wrote_nothing();
    assert_eq!(world.explain()["actions"], json!(["create 3 Pods", "write the status"]));
}

/// JOB-10.
#[tokio::test(start_paused = true)]
async fn an_active_deadline_is_decided_when_it_passes_and_no_pod_is_deleted() {
    let mut world = cluster().settled(sum("", json!({"activeDeadlineSeconds": 300}))).await;
    world.crash();
    let started = time(&world.status().await["startTime"]);
    world.start_shadow();
    world.wait(1000).await;
    assert_eq!(world.planned_after("delete Pod", started), Some(300));
    world.assert_wrote_nothing();
}

/// JOB-10.
#[tokio::test(start_paused = true)]
async fn a_postponed_pod_is_decided_after_its_back_off_and_not_created() {
    let mut world = cluster().settled(sum("exit=1 after=30", json!({}))).await;
    world.crash();
    world.start_shadow();
    world.wait(60).await;
    let pod = &world.pods().await[0];
    let ended = time(&pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]);
    let created = world.planned_after("create 1 Pod", ended);
    assert!(created.is_some_and(|seconds| (10..=12).contains(&seconds)), "{created:?}");
    world.assert_wrote_nothing();
}

/// JOB-62.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_time_to_live_is_decided_in_time_and_nothing_is_deleted() {
    let mut world = cluster().settled(sum("exit=0", json!({"ttlSecondsAfterFinished": 300}))).await;
    world.crash();
    let ended = time(&world.status().await["completionTime"]);
    world.start_shadow();
    world.wait(1000).await;
    assert_eq!(world.planned_after("remove Job sum", ended), Some(300));
    world.assert_wrote_nothing();
}
