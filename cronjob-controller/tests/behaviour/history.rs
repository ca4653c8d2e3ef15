//! Tests of finished Jobs: which are deleted, and which are left alone.

use crate::world::*;

async fn five_ended() -> World {
    let world =
        world_with(every_five_minutes(json!({"successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1}))).await;
    world.wait(190).await;
    for (minutes, kind) in [(25, "Complete"), (30, "Failed"), (35, "Complete"), (40, "Failed"), (45, "Complete")] {
        finish_job(&world, &format!("tick-295387{minutes}"), kind).await;
        world.wait(300).await;
    }
    assert_eq!(world.event_count("Normal SawCompletedJob").await, 5, "complete and failed Jobs are reported");
    world
}

/// CRONJOB-58, CRONJOB-78.
#[tokio::test(start_paused = true)]
async fn a_finished_job_released_by_a_user_is_kept_although_the_cache_is_stale() {
    let world = five_ended().await;
    // When this Job completes, there is one complete Job too many. The user releases the oldest Job while the watch lags.
    world.delay("jobs", 20);
    finish_job(&world, "tick-29538750", "Complete").await;
    world.wait(5).await;
    world.patch(JOBS, "tick-29538735", json!({"metadata": {"ownerReferences": null}})).await;
    world.wait(120).await;
    let kept = world.get(JOBS, "tick-29538735").await;
    assert_eq!(kept["metadata"]["deletionTimestamp"], Value::Null);
}

/// CRONJOB-3, CRONJOB-74.
#[tokio::test(start_paused = true)]
async fn jobs_of_an_earlier_cron_job_of_the_same_name_are_left_alone() {
    let world = five_ended().await;
    world.delete(CRON_JOBS, "tick").await;
    world.sandbox.requests().clear();
    world.create(with_spec(tick("0 0 1 1 *"), json!({"successfulJobsHistoryLimit": 0}))).await;
    world.wait(60).await;
    assert_eq!(world.count("delete", JOBS), 0, "the Jobs belong to an earlier CronJob of the same name");
    assert_eq!(world.event_count("Warning UnexpectedJob").await, 0);
}

/// CRONJOB-52.
#[tokio::test(start_paused = true)]
async fn a_settled_cron_job_gets_no_writes() {
    let mut world = five_ended().await;
    world.change(json!({"schedule": "0 0 1 1 *"})).await;
    conformance::settled_objects_are_left_alone(&mut world, &[("get", CRON_JOBS), ("get", JOBS)]).await;
}
