//! Shadow mode: the plan for a newly available Pod is made in time, and the status is not written.

use jiff::Timestamp;
use serde_json::json;

use crate::world::{TestCluster, replica_set};

/// REPLICASET-36, REPLICASET-55.
#[tokio::test(start_paused = true)]
async fn an_available_pod_is_decided_in_time_and_not_written() {
    let mut world = TestCluster::new().await;
    let mut object = replica_set("web", 1);
    object["spec"]["minReadySeconds"] = json!(300);
    world.create_object(object).await;
    world.wait_until_settled().await;
    world.crash_loops();
    let pod = &world.list_pods().await[0];
    let since = sandbox::nodes::condition(pod, "Ready").unwrap()["lastTransitionTime"].clone();
    let since: Timestamp = since.as_str().unwrap().parse().unwrap();
    world.start_shadow();
    world.wait_seconds(1000).await;
    let plans = world.loops.as_ref().unwrap().plans("shop/web");
    assert_eq!(plans.len(), 1, "{plans:?}");
    let (at, actions) = &plans[0];
    assert_eq!(actions, &["write the status"]);
    assert_eq!(at.duration_since(since).as_secs(), 300);
    assert!(world.own_writes().is_empty());
}
