//! Tests with refused writes, missing rights, and objects that cannot be read.

use std::sync::atomic::AtomicBool;

use crate::world::*;

fn on_status(action: Action) -> Rule {
    rule(action, "update", "poddisruptionbudgets/status")
}

/// DISRUPTION-38, DISRUPTION-40, DISRUPTION-65.
#[tokio::test(start_paused = true)]
async fn only_a_conflict_closes_no_budget() {
    for (action, attempts, closed) in [(Action::Conflict, 2, false), (Action::Invalid, 3, true)] {
        let world = world_with(cluster(), json!({"minAvailable": 1}), 2).await;
        world.clear_log();
        world.fault(on_status(action).times(1));
        world.patch_pod_status("web-0", ready_condition("False")).await;
        world.wait(100).await;
        assert_eq!(counts(&world).await, [2, 1, 1, 0]);
        world.assert_count("update", STATUS, attempts..=attempts);
        let reasons = world.own_writes().into_iter().filter_map(|write| write.after());
        let was_closed = reasons.map(|budget| condition(&budget, ALLOWED)).any(|found| found["reason"] == "SyncFailed");
        assert_eq!(was_closed, closed);
    }
}

/// DISRUPTION-37, DISRUPTION-40, DISRUPTION-75.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_or_a_stale_cache_leads_to_the_same_status() {
    for action in [Action::CutBefore, Action::CutAfter, Action::InternalError, Action::TooManyRequests(2)] {
        let world = world_with(cluster(), json!({"minAvailable": 1}), 2).await;
        world.delay("poddisruptionbudgets", 5);
        world.fault(on_status(action.clone()).times(1));
        world.patch_pod_status("web-0", ready_condition("False")).await;
        world.wait(60).await;
        assert_eq!(
            (counts(&world).await, condition_text(&world).await),
            ([2, 1, 1, 0], "False InsufficientPods ".to_owned())
        );
        world.assert_count("update", STATUS, 1..=12);
    }
}

/// Creates two Pods of a Deployment of size 3 itself, which only `scale` has, and a budget for them.
async fn create_budget_with_scale(world: &World) {
    let owner = world.create(merged(workload("Deployment", "direct"), json!({"spec": {"replicas": 3}}))).await;
    create_pods(world, 2, &owner).await;
    world.create_and_settle(budget(json!({"maxUnavailable": 1}))).await;
}

/// DISRUPTION-21, DISRUPTION-55.
#[tokio::test(start_paused = true)]
async fn a_refused_read_of_a_size_closes_the_budget() {
    let world = cluster().start().await;
    world.fault(rule(Action::Forbidden, "get", "deployments/scale"));
    create_budget_with_scale(&world).await;
    let condition = condition_text(&world).await;
    assert!(condition.starts_with("False SyncFailed ") && condition.contains("injected fault"), "{condition}");
    world.clear_faults();
    world.wait(1000).await;
    assert_eq!(counts(&world).await, [3, 2, 2, 0]);
}

/// DISRUPTION-17.
#[tokio::test(start_paused = true)]
async fn a_failed_discovery_closes_the_budget() {
    let is_on = Arc::new(AtomicBool::new(true));
    let fails = Arc::clone(&is_on);
    let filter: RequestFilter = Arc::new(move |request: &LoopRequest| {
        let is_discovery = request.uri().path() == "/apis" && fails.load(Ordering::Relaxed);
        is_discovery.then(|| refusal(500, "InternalError", "no discovery", &json!([])))
    });
    let world = cluster().filter(filter).start().await;
    create_budget_with_scale(&world).await;
    let condition = condition_text(&world).await;
    assert!(condition.starts_with("False SyncFailed ") && condition.contains("no discovery"), "{condition}");
    is_on.store(false, Ordering::Relaxed);
    world.wait(1000).await;
    assert_eq!(counts(&world).await, [3, 2, 2, 0]);
}

/// DISRUPTION-3, DISRUPTION-52, DISRUPTION-73.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_closes_the_budget() {
    for (lies, message) in [
        (&[("\"matchLabels\":{\"app\":\"web\"}", "\"matchLabels\":{\"app\":\"-\"}")], "not a valid label value"),
        (&[("\"replicas\":2,", "\"replicas\":-2,")], "spec.replicas is -2"),
    ] {
        let mut world = cluster().lies(lies).stopped().await;
        let owner = world.create(replica_set("web", 2)).await;
        create_pods(&world, 2, &owner).await;
        world.create(budget(json!({"maxUnavailable": 1}))).await;
        world.start();
        world.wait(60).await;
        world.assert_all_lies_were_told();
        let condition = condition_text(&world).await;
        assert!(condition.starts_with("False SyncFailed ") && condition.contains(message), "{condition}");
    }
}

/// DISRUPTION-35, DISRUPTION-36.
#[tokio::test(start_paused = true)]
async fn a_new_process_finds_nothing_to_do() {
    let mut world = world_with(cluster(), json!({"maxUnavailable": 1}), 3).await;
    world.crash();
    world.clear_log();
    world.start();
    world.wait(7 * 86_400).await;
    world.assert_wrote_nothing();
    assert_eq!(world.explain()["state"], "settled");
}
