//! Tests of the times at which Jobs are started.

use crate::world::*;

/// CRONJOB-6.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_schedule_starts_nothing_by_itself() {
    let world = world_with(tick("0 0 1 1 *")).await;
    world.wait(1000).await;
    world.change(json!({"schedule": "*/10 * * * *"})).await;
    world.wait(30).await;
    assert_eq!(scheduled_times(&world).await, [""; 0]);
    world.wait(300).await;
    assert_eq!(scheduled_times(&world).await, ["00:20"]);
}

/// CRONJOB-10, CRONJOB-86.
#[tokio::test(start_paused = true)]
async fn a_run_is_started_within_milliseconds_of_its_time() {
    let world = world_with(every_five_minutes(json!({}))).await;
    let due: Timestamp = "2026-03-01T00:05:00Z".parse().unwrap();
    let left = Duration::try_from(due.duration_since(world.clock.now())).unwrap();
    world.clock.sleep(left.saturating_sub(Duration::from_millis(5))).await;
    assert_eq!(scheduled_times(&world).await, [""; 0]);
    world.wait(0.05).await;
    assert_eq!(scheduled_times(&world).await, ["00:05"]);
}
