//! Shadow mode: the plan for an exceeded progress deadline is made in time, and nothing is written.

use crate::world::*;

/// DEPLOYMENT-60.
#[tokio::test(start_paused = true)]
async fn an_exceeded_deadline_is_decided_in_time_and_not_written() {
    let stuck = annotated(web(2), json!({"sim/never-ready": "true"}));
    let mut world = cluster().settled(with_spec(stuck, json!({"progressDeadlineSeconds": 600}))).await;
    world.crash();
    let status = world.status().await;
    let progress = time(&world.condition("Progressing").await["lastUpdateTime"]);
    world.start_shadow();
    world.wait(580).await;
    assert_eq!(world.plans(), [], "no plan exists before the deadline");
    world.wait(1000).await;
    let plans = world.plans();
    let [(at, actions)] = &plans[..] else { panic!("only one plan exists: {plans:?}") };
    assert_eq!(actions, &["write the status: counts, availability or progress changed"]);
    let late = at.duration_since(progress).as_secs() - 600;
    assert!((0..=3).contains(&late), "{late} s after the deadline");
    world.assert_wrote_nothing();
    assert_eq!(world.status().await, status);
}
