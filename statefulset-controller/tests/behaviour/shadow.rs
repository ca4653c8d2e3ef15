//! Shadow mode: the controller plans the next Pod when a Pod becomes available, and writes nothing.

use jiff::Timestamp;
use serde_json::json;

use crate::world::{World, set};

/// STATEFULSET-54, STATEFULSET-62.
#[tokio::test(start_paused = true)]
async fn a_shadow_plans_the_next_pod_on_time_and_does_not_create_it() {
    let mut world = World::new().await;
    world.apply(set(2, json!({"minReadySeconds": 300}))).await;
    world.settle().await;
    world.crash();
    let pod = world.get("pods", "web-0").await;
    let since = sandbox::nodes::condition(&pod, "Ready").unwrap()["lastTransitionTime"].clone();
    let since: Timestamp = since.as_str().unwrap().parse().unwrap();
    world.start_shadow();
    world.wait(1000).await;
    let plans = world.loops.as_ref().unwrap().plans("shop/web");
    assert_eq!(plans.len(), 1, "{plans:?}");
    let (at, actions) = &plans[0];
    assert_eq!(actions, &["create Pod web-1: from the update revision", "write the status"]);
    assert_eq!(at.duration_since(since).as_secs(), 300);
    assert!(world.controller_writes().is_empty());
    assert_eq!(world.names("pods").await, ["web-0"]);
}
