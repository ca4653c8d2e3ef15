//! Shadow mode: Pods become available and back-offs end with time, and the controller writes nothing.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::world::{TestCluster, daemon_set};

/// DAEMONSET-10.
#[tokio::test(start_paused = true)]
async fn a_shadow_plans_the_next_step_of_a_rollout_on_time_and_writes_nothing() {
    let mut world = TestCluster::new().await;
    world.create_object(daemon_set(json!({"minReadySeconds": 300}))).await;
    world.wait(600).await;
    world.roll_out("img:2", json!({})).await;
    world.wait(10).await;
    world.crash();
    let ready = sandbox::nodes::condition(&world.pod_on("node-0").await, "Ready").unwrap().clone();
    let since: Timestamp = ready["lastTransitionTime"].as_str().unwrap().parse().unwrap();
    world.start_shadow();
    world.wait(1000).await;
    let plans = world.loops.as_ref().unwrap().plans("shop/agent");
    let (at, actions) = plans.last().unwrap();
    assert_eq!(at.duration_since(since).as_secs(), 300, "{plans:?}");
    let lines: Vec<&str> = actions.iter().map(String::as_str).collect();
    assert!(matches!(lines[..], [delete, "write the status"] if delete.ends_with("it is outdated")), "{plans:?}");
    assert!(world.own_writes().is_empty());
    assert_eq!(world.images().await, ["node-0 img:2", "node-1 img:1", "node-2 img:1"]);
}

/// DAEMONSET-10.
#[tokio::test(start_paused = true)]
async fn a_shadow_plans_the_deletion_of_a_failed_pod_at_the_end_of_each_back_off() {
    let mut world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    world.crash();
    let name = world.pod_on("node-1").await["metadata"]["name"].as_str().unwrap().to_owned();
    let failed = json!({"status": {"phase": "Failed", "conditions": null}});
    world.sandbox.merge("pods", Some("shop"), &name, Some("status"), failed).await.unwrap();
    world.start_shadow();
    world.wait(20).await;
    let plans = world.loops.as_ref().unwrap().plans("shop/agent");
    let deletes = |actions: &[String]| actions.contains(&format!("delete Pod {name}: it has failed"));
    let times: Vec<i64> = plans
        .iter()
        .filter(|(_, actions)| deletes(actions))
        .map(|(at, _)| at.duration_since(plans[0].0).as_secs())
        .collect();
    assert_eq!(times, [0, 1, 3, 7, 15], "{plans:?}");
    assert!(world.own_writes().is_empty());
    assert!(!world.has_event("Warning FailedDaemonPod").await);
    assert_eq!(world.status().await.get("numberUnavailable"), None::<&Value>);
}
