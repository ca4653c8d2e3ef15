//! Shadow mode: the plan for an exceeded progress deadline is made in time, and nothing is written.

use jiff::Timestamp;
use serde_json::json;

use crate::world::{World, web_deployment};

/// DEPLOYMENT-60.
#[tokio::test(start_paused = true)]
async fn an_exceeded_deadline_is_decided_in_time_and_not_written() {
    let mut world = World::new().await;
    let mut object = web_deployment(2);
    object["spec"]["progressDeadlineSeconds"] = json!(600);
    object["spec"]["template"]["metadata"]["annotations"] = json!({"sim/never-ready": "true"});
    world.create_object(object).await;
    world.settle().await;
    world.crash();
    let status = world.get_web().await["status"].clone();
    let progress = sandbox::nodes::condition(&world.get_web().await, "Progressing").unwrap()["lastUpdateTime"].clone();
    let progress: Timestamp = progress.as_str().unwrap().parse().unwrap();
    world.start_shadow();
    let plans = |world: &World| world.loops.as_ref().unwrap().plans("shop/web");
    world.wait(580.0).await;
    assert_eq!(plans(&world), [], "no plan exists before the deadline");
    world.wait(1000.0).await;
    let plans = plans(&world);
    let (at, actions) = &plans[0];
    assert_eq!(actions, &["write the status: counts, availability or progress changed"]);
    let late = at.duration_since(progress).as_secs() - 600;
    assert!((0..=3).contains(&late), "{late} s after the deadline");
    assert_eq!(plans.len(), 1, "only one plan exists: {plans:?}");
    assert_eq!(world.own_writes(), Vec::<String>::new());
    assert_eq!(world.get_web().await["status"], status);
}
