//! Added, changed and deleted nodes.

use serde_json::json;

use crate::world::{TestCluster, daemon_set};

/// DAEMONSET-9, DAEMONSET-12.
#[tokio::test(start_paused = true)]
async fn a_new_node_gets_a_pod_and_a_node_without_the_label_loses_it() {
    let world = TestCluster::new().await;
    world.change_node("node-0", json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    world.create_object(daemon_set(json!({"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}))).await;
    world.wait_until_settled().await;
    assert_eq!(world.pod_writes(), ["+node-0"]);
    world.change_node("node-2", json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    world.wait_until_settled().await;
    world.change_node("node-0", json!({"metadata": {"labels": {"disk": "hdd"}}})).await;
    world.wait_until_settled().await;
    assert_eq!(world.pod_writes(), ["+node-0", "+node-2", "-node-0"]);
    let status = world.status().await;
    assert_eq!((&status["desiredNumberScheduled"], &status["numberMisscheduled"]), (&json!(1), &json!(0)));
    let joined = world.nodes.add();
    world.wait_until_settled().await;
    world.change_node(&joined, json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    world.wait_until_settled().await;
    assert_eq!(world.pod_writes().last().unwrap(), &format!("+{joined}"));
}

/// DAEMONSET-14, DAEMONSET-22.
#[tokio::test(start_paused = true)]
async fn a_taint_prevents_new_pods_or_removes_all_pods() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    world.clear_records();
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "k", "effect": effect}]}});
    world.change_node("node-1", taint("PreferNoSchedule")).await;
    world.wait_until_settled().await;
    assert!(world.own_writes().is_empty());
    world.change_node("node-1", taint("NoSchedule")).await;
    world.wait_until_settled().await;
    let status = world.status().await;
    assert_eq!((&status["desiredNumberScheduled"], &status["numberMisscheduled"]), (&json!(2), &json!(1)));
    assert!(world.pod_writes().is_empty(), "the Pod stays");
    world.change_node("node-1", taint("NoExecute")).await;
    world.wait_until_settled().await;
    assert_eq!(world.pod_writes(), ["-node-1"]);
    world.change_node("node-1", json!({"spec": {"taints": null}})).await;
    world.wait_until_settled().await;
    assert_eq!(world.pod_writes(), ["-node-1", "+node-1"]);
}

/// DAEMONSET-15, DAEMONSET-16.
#[tokio::test(start_paused = true)]
async fn a_cordoned_node_keeps_its_pod_and_gets_one() {
    let world = TestCluster::new().await;
    let cordon = json!({"spec": {"unschedulable": true,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}});
    world.change_node("node-2", cordon).await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    assert_eq!(world.status().await["numberReady"], json!(3));
    assert_eq!(world.pod_on("node-2").await["spec"]["nodeName"], "node-2");
}

/// DAEMONSET-27, DAEMONSET-73.
#[tokio::test(start_paused = true)]
async fn a_deleted_node_is_no_longer_counted() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    world.sandbox.delete("nodes", None, "node-1").await.unwrap();
    world.wait_until_settled().await;
    let status = world.status().await;
    assert_eq!((&status["desiredNumberScheduled"], &status["numberReady"]), (&json!(2), &json!(2)));
    assert_eq!(
        world.pod_writes(),
        ["+node-0", "+node-1", "+node-2"],
        "its Pod is left to the garbage collector of Pods"
    );
}

/// DAEMONSET-3.
#[tokio::test(start_paused = true)]
async fn heartbeats_and_image_lists_cost_nothing() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    world.clear_records();
    let decided = world.decided_nodes();
    for n in 0..10 {
        let images: Vec<_> = (0..20).map(|i| json!({"names": [format!("image-{n}-{i}")], "sizeBytes": 7})).collect();
        let status = json!({"status": {"images": images, "nodeInfo": {"kubeletVersion": format!("v1.36.{n}")}}});
        world.sandbox.merge("nodes", None, "node-1", Some("status"), status).await.unwrap();
        world.change_node("node-0", json!({"metadata": {"annotations": {"seen": n.to_string()}}})).await;
        world.wait(10).await;
    }
    assert_eq!(world.decided_nodes(), decided);
    assert_eq!(world.sandbox.requests().count(Some(crate::world::CONTROLLER_IDENTITY), Some("patch"), None), 0);
    let queues = world.loops.as_ref().unwrap().metrics().render_prometheus();
    assert!(queues.contains("workqueue_adds_total{name=\"daemonset-node-updates\"} 0"), "{queues}");
}
