//! Shadow mode, in which the loops decide and write nothing.

use crate::world::*;

/// REPLICASET-55.
#[tokio::test(start_paused = true)]
async fn shadow_mode_decides_and_writes_nothing() {
    let world = cluster().shadow().settled(web(3)).await;
    world.assert_wrote_nothing();
    assert_eq!(world.explain()["actions"], json!(["create 3 Pods", "write the status"]));
}

/// REPLICASET-36, REPLICASET-55.
#[tokio::test(start_paused = true)]
async fn an_available_pod_is_decided_in_time_and_not_written() {
    let mut world = cluster().settled(with_spec(web(1), json!({"minReadySeconds": 300}))).await;
    world.crash();
    let since = time(&condition(&world.pods().await[0], "Ready")["lastTransitionTime"]);
    world.start_shadow();
    world.wait(1000).await;
    let plans = world.plans();
    let [(at, actions)] = &plans[..] else { panic!("{plans:?}") };
    assert_eq!((at.duration_since(since).as_secs(), &actions[..]), (300, &["write the status".to_owned()][..]));
    world.assert_wrote_nothing();
}
