//! Shadow mode: the controller plans the next Pod when a Pod becomes available, and writes nothing.

use crate::world::*;

/// STATEFULSET-54, STATEFULSET-62.
#[tokio::test(start_paused = true)]
async fn a_shadow_plans_the_next_pod_on_time_and_does_not_create_it() {
    let mut world = cluster().settled(set(2, json!({"minReadySeconds": 300}))).await;
    world.crash();
    let since = time(&condition(&world.get("pods", "web-0").await, "Ready")["lastTransitionTime"]);
    world.start_shadow();
    world.wait(1000).await;
    let plans = world.plans();
    let [(at, actions)] = &plans[..] else { panic!("{plans:?}") };
    assert_eq!(actions, &["create Pod web-1: from the update revision", "write the status"]);
    assert_eq!(at.duration_since(since).as_secs(), 300);
    world.assert_wrote_nothing();
    assert_eq!(world.names("pods").await, ["web-0"]);
}
