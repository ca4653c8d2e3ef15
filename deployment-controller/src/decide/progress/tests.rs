use serde_json::json;

use super::*;
use crate::{decide::conditions::*, world::DeploymentBuilder};

/// Returns a rollout that has made no progress for `millis` milliseconds.
fn stuck(reason: &str, millis: i64) -> DeploymentBuilder {
    let mut world = DeploymentBuilder::new(8).with_set("old", 6, 6).with_new_set("new", 4, 0);
    assert_eq!(world.apply_until_settled(), 1);
    world = world.with_condition(PROGRESSING, reason);
    world.now += SignedDuration::from_millis(millis);
    world
}

/// DEPLOYMENT-60.
#[test]
fn the_deadline_is_checked_after_it_has_passed() {
    for (millis, want) in [
        (120_000, Requeue::After(Duration::from_secs(481))),
        (599_400, Requeue::AfterBackoff),
        (600_000, Requeue::AfterBackoff),
    ] {
        let plan = stuck(NEW_REPLICA_SET_CREATED, millis).plan();
        assert_eq!((plan.steps.len(), plan.requeue), (0, want), "{millis}");
    }
    let mut late = stuck(NEW_REPLICA_SET_CREATED, 600_100);
    let plan = late.plan();
    let message = "ReplicaSet \"new\" has timed out progressing.";
    assert_eq!(plan.last_progressing_condition(), (PROGRESS_DEADLINE_EXCEEDED, "False", message));
    late.apply_plan(&plan);
    let plan = late.plan();
    assert_eq!((plan.steps.len(), plan.requeue), (0, Requeue::AfterPlannedDelay));
}

/// DEPLOYMENT-61.
#[test]
fn without_a_deadline_there_is_no_condition() {
    for none in [json!(null), json!(i32::MAX)] {
        let mut world = stuck(NEW_REPLICA_SET_CREATED, 900_000);
        world.spec["progressDeadlineSeconds"] = none;
        let plan = world.plan();
        assert_eq!((plan.last_progressing_condition().0, plan.requeue), ("", Requeue::AfterPlannedDelay));
    }
}

/// DEPLOYMENT-85.
#[test]
fn a_complete_rollout_never_times_out_and_is_not_checked_again() {
    let plan = stuck(NEW_REPLICA_SET_AVAILABLE, 9_000_000).plan();
    assert_eq!((plan.steps.len(), plan.requeue), (0, Requeue::AfterPlannedDelay));
}

/// DEPLOYMENT-59.
#[test]
fn progress_moves_the_update_time_and_keeps_the_transition_time() {
    let mut world = stuck(NEW_REPLICA_SET_CREATED, 30_000);
    let start = world.now - SignedDuration::from_secs(30);
    for ready in [1, 2] {
        world.sets[1]["status"]["readyReplicas"] = json!(ready);
        let plan = world.plan();
        let status = plan.last_written_status();
        let condition = find_progressing_condition(&status).unwrap();
        assert_eq!(&*condition.message, "ReplicaSet \"new\" is progressing.");
        assert_eq!(condition.last_update_time, Some(world.now));
        assert_eq!(condition.last_transition_time, Some(start));
        world.apply_plan(&plan);
        world.now += SignedDuration::from_secs(10);
    }
}

/// DEPLOYMENT-59, DEPLOYMENT-60.
#[test]
fn progress_after_the_deadline_is_a_transition() {
    let mut world = stuck(PROGRESS_DEADLINE_EXCEEDED, 30_000);
    world.sets[1]["status"]["readyReplicas"] = json!(1);
    let status = world.plan().last_written_status();
    let condition = find_progressing_condition(&status).unwrap();
    assert_eq!((&*condition.reason, condition.last_transition_time), (REPLICA_SET_UPDATED, Some(world.now)));
}

/// DEPLOYMENT-58.
#[test]
fn completion_keeps_the_transition_time() {
    let mut world =
        DeploymentBuilder::new(2).with_new_set("new", 2, 2).with_condition(PROGRESSING, REPLICA_SET_UPDATED);
    let start = world.now;
    world.now += SignedDuration::from_secs(5);
    let status = world.plan().last_written_status();
    let condition = find_progressing_condition(&status).unwrap();
    assert_eq!(&*condition.message, "ReplicaSet \"new\" has successfully progressed.");
    assert_eq!((condition.last_transition_time, condition.last_update_time), (Some(start), Some(world.now)));
}

/// DEPLOYMENT-62.
#[test]
fn a_failure_of_the_new_set_is_copied_before_others() {
    let failure = |message: &str| {
        json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message,
            "lastTransitionTime": "2026-11-21T08:00:00Z"}])
    };
    let mut world = stuck(NEW_REPLICA_SET_CREATED, 1_000);
    world.sets[0]["status"]["conditions"] = failure("old");
    assert_eq!(passed_on(&world).as_deref(), Some("old"));
    world.sets[1]["status"]["conditions"] = failure("new");
    assert_eq!(passed_on(&world).as_deref(), Some("new"));
    let plan = world.plan();
    let status = plan.last_written_status();
    let condition = list::get(&status.conditions, REPLICA_FAILURE).unwrap();
    let time: Timestamp = "2026-11-21T08:00:00Z".parse().unwrap();
    assert_eq!((condition.last_update_time, condition.last_transition_time), (Some(time), Some(time)));
    world.apply_plan(&plan);
    for at in [0, 1] {
        world.sets[at]["status"]["conditions"] = json!([]);
    }
    assert_eq!(passed_on(&world), None);
}

fn passed_on(world: &DeploymentBuilder) -> Option<String> {
    let status = world.plan().last_written_status();
    list::get(&status.conditions, REPLICA_FAILURE).map(|condition| condition.message.to_string())
}
