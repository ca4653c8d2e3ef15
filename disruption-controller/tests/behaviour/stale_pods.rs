//! Tests of the condition `DisruptionTarget` of Pods that were not terminated.

use crate::world::*;

/// Creates the Pod `p` with a condition `DisruptionTarget` that is so many seconds old.
async fn create_disrupted_pod(world: &World, age: i64) -> Value {
    world.create(orphan_pod("p", "web")).await;
    let target = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "m",
        "lastTransitionTime": seconds_ago(world, age)});
    let other = json!({"type": "Ready", "status": "False", "message": "kept"});
    let status = json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": [target, other]});
    world.patch_status("pods", "p", status).await
}

async fn is_reset(world: &World) -> bool {
    condition(&world.get("pods", "p").await, "DisruptionTarget")["status"] == "False"
}

/// DISRUPTION-47, DISRUPTION-48, DISRUPTION-49, DISRUPTION-50, DISRUPTION-69.
#[tokio::test(start_paused = true)]
async fn the_condition_is_reset_after_two_minutes_and_nothing_else_is() {
    let world = cluster().start().await;
    let before = create_disrupted_pod(&world, 60).await;
    world.wait(57).await;
    assert!(!is_reset(&world).await);
    world.wait(5).await;
    let after = world.get("pods", "p").await;
    let target = condition(&after, "DisruptionTarget");
    assert_eq!(
        (target["status"].as_str(), &target["reason"], &target["message"]),
        (Some("False"), &Value::Null, &Value::Null)
    );
    assert_eq!(target["observedGeneration"], after["metadata"]["generation"]);
    assert_eq!(condition(&after, "Ready"), condition(&before, "Ready"));
    assert_eq!((&after["status"]["podIP"], &after["spec"]), (&before["status"]["podIP"], &before["spec"]));
    assert_eq!(world.own_write_lines(), ["patch pods/status p"]);
}

/// DISRUPTION-48, DISRUPTION-53.
#[tokio::test(start_paused = true)]
async fn an_old_condition_is_reset_at_once_also_after_a_start() {
    let mut world = cluster().stopped().await;
    create_disrupted_pod(&world, 600).await;
    world.start();
    world.settle().await;
    assert!(is_reset(&world).await);
    let short = cluster().tunable("stale-pod-disruption-timeout", TunableValue::Duration(Duration::from_secs(5)));
    let world = short.start().await;
    create_disrupted_pod(&world, 0).await;
    world.wait(7).await;
    assert!(is_reset(&world).await);
}

/// DISRUPTION-51.
#[tokio::test(start_paused = true)]
async fn a_refused_reset_is_retried() {
    for action in [Action::Conflict, Action::Forbidden, Action::InternalError] {
        let world = cluster().start().await;
        world.fault(rule(action, "patch", "pods/status"));
        create_disrupted_pod(&world, 600).await;
        world.wait(60).await;
        assert!(!is_reset(&world).await);
        world.assert_count("patch", "pods/status", 5..=40);
        world.clear_faults();
        world.wait(100).await;
        assert!(is_reset(&world).await);
    }
}
