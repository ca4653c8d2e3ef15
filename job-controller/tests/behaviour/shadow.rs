//! Shadow mode: decisions that depend on time are made at the right time, and nothing is written.

use jiff::Timestamp;
use serde_json::json;

use crate::world::{TestCluster, job_with_spec};

/// Returns the time at which the loops first decided this action for `shop/sum`, in seconds after `since`.
fn first_decided_after(world: &TestCluster, action: &str, since: &str) -> Option<i64> {
    let plans = world.loops.as_ref().unwrap().plans("shop/sum");
    let (at, _) = plans.iter().find(|(_, actions)| actions.iter().any(|each| each.starts_with(action)))?;
    Some(at.duration_since(since.parse::<Timestamp>().unwrap()).as_secs())
}

/// JOB-10.
#[tokio::test(start_paused = true)]
async fn an_active_deadline_is_decided_when_it_passes_and_no_pod_is_deleted() {
    let mut world = TestCluster::new().await;
    world.create_object(job_with_spec("sum", &[], json!({"activeDeadlineSeconds": 300}))).await;
    world.wait_until_settled().await;
    world.crash_loops();
    let started = world.job_status("sum").await["startTime"].as_str().unwrap().to_owned();
    world.start_shadow_loops();
    world.wait_seconds(1000).await;
    assert_eq!(first_decided_after(&world, "delete Pod", &started), Some(300));
    assert!(world.writes_of_loops().is_empty());
}

/// JOB-10.
#[tokio::test(start_paused = true)]
async fn a_postponed_pod_is_decided_after_its_back_off_and_not_created() {
    let mut world = TestCluster::new().await;
    world.create_object(job_with_spec("sum", &[("exit", "1"), ("after", "30")], json!({}))).await;
    world.wait_until_settled().await;
    world.crash_loops();
    world.start_shadow_loops();
    world.wait_seconds(60).await;
    let pod = &world.pods().await[0];
    let ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"].as_str().unwrap().to_owned();
    let created = first_decided_after(&world, "create 1 Pod", &ended);
    assert!(created.is_some_and(|seconds| (10..=12).contains(&seconds)), "{created:?}");
    assert!(world.writes_of_loops().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_time_to_live_is_decided_in_time_and_nothing_is_deleted() {
    let mut world = TestCluster::new().await;
    world.create_object(job_with_spec("sum", &[("exit", "0")], json!({"ttlSecondsAfterFinished": 300}))).await;
    world.wait_until_settled().await;
    world.crash_loops();
    let ended = world.job_status("sum").await["completionTime"].as_str().unwrap().to_owned();
    world.start_shadow_loops();
    world.wait_seconds(1000).await;
    assert_eq!(first_decided_after(&world, "remove Job sum", &ended), Some(300));
    assert!(world.writes_of_loops().is_empty());
}
