//! Shadow mode: Pods become available and back-offs end with time, and the controller writes nothing.

use crate::world::*;

/// DAEMONSET-10.
#[tokio::test(start_paused = true)]
async fn a_shadow_plans_the_next_step_of_a_rollout_on_time_and_writes_nothing() {
    let mut world = cluster().start().await;
    world.create(daemon_set(json!({"minReadySeconds": 300}))).await;
    world.wait(600).await;
    world.roll_out("img:2", json!({})).await;
    world.wait(10).await;
    world.crash();
    let since = time(&condition(&pod_on(&world, "node-0").await, "Ready")["lastTransitionTime"]);
    world.start_shadow();
    world.wait(1000).await;
    let plans = world.plans();
    let (at, actions) = plans.last().unwrap();
    assert_eq!(at.duration_since(since).as_secs(), 300, "{plans:?}");
    let lines: Vec<&str> = actions.iter().map(String::as_str).collect();
    assert!(matches!(lines[..], [delete, "write the status"] if delete.ends_with("it is outdated")), "{plans:?}");
    world.assert_wrote_nothing();
    assert_eq!(images(&world).await, ["node-0 img:2", "node-1 img:1", "node-2 img:1"]);
}

/// DAEMONSET-10.
#[tokio::test(start_paused = true)]
async fn a_shadow_plans_the_deletion_of_a_failed_pod_at_the_end_of_each_back_off() {
    let mut world = cluster().settled(agent()).await;
    world.crash();
    let pod = pod_name_on(&world, "node-1").await;
    world.patch_pod_status(&pod, json!({"phase": "Failed", "conditions": null})).await;
    world.start_shadow();
    world.wait(20).await;
    let plans = world.plans();
    let deletion = format!("delete Pod {pod}: it has failed");
    let deletes = plans.iter().filter(|(_, actions)| actions.contains(&deletion));
    let times: Vec<i64> = deletes.map(|(at, _)| at.duration_since(plans[0].0).as_secs()).collect();
    assert_eq!(times, [0, 1, 3, 7, 15], "{plans:?}");
    world.assert_wrote_nothing();
    assert_eq!(world.status().await["numberUnavailable"], Value::Null);
}
