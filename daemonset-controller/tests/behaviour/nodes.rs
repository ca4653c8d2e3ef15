//! Added, changed and deleted nodes.

use crate::world::*;

/// DAEMONSET-9, DAEMONSET-12.
#[tokio::test(start_paused = true)]
async fn a_new_node_gets_a_pod_and_a_node_without_the_label_loses_it() {
    let world = cluster().start().await;
    world.label("nodes", "node-0", json!({"disk": "ssd"})).await;
    world.create_and_settle(daemon_set(json!({"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}))).await;
    assert_eq!(pod_writes(&world), ["+node-0"]);
    world.patch_and_settle("nodes", "node-2", json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    world.patch_and_settle("nodes", "node-0", json!({"metadata": {"labels": {"disk": "hdd"}}})).await;
    assert_eq!(pod_writes(&world), ["+node-0", "+node-2", "-node-0"]);
    assert_eq!(pick(&world.status().await, "desiredNumberScheduled numberMisscheduled"), json!([1, 0]));
    let joined = world.nodes().add();
    world.settle().await;
    world.patch_and_settle("nodes", &joined, json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    assert_eq!(pod_writes(&world).last().unwrap(), &format!("+{joined}"));
}

/// DAEMONSET-14, DAEMONSET-22.
#[tokio::test(start_paused = true)]
async fn a_taint_prevents_new_pods_or_removes_all_pods() {
    let world = cluster().settled(agent()).await;
    world.clear_log();
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "k", "effect": effect}]}});
    world.patch_and_settle("nodes", "node-1", taint("PreferNoSchedule")).await;
    world.assert_wrote_nothing();
    world.patch_and_settle("nodes", "node-1", taint("NoSchedule")).await;
    assert_eq!(pick(&world.status().await, "desiredNumberScheduled numberMisscheduled"), json!([2, 1]));
    assert!(pod_writes(&world).is_empty(), "the Pod stays");
    world.patch_and_settle("nodes", "node-1", taint("NoExecute")).await;
    assert_eq!(pod_writes(&world), ["-node-1"]);
    world.patch_and_settle("nodes", "node-1", json!({"spec": {"taints": null}})).await;
    assert_eq!(pod_writes(&world), ["-node-1", "+node-1"]);
}

/// DAEMONSET-27, DAEMONSET-73.
#[tokio::test(start_paused = true)]
async fn a_deleted_node_is_no_longer_counted() {
    let world = cluster().settled(agent()).await;
    world.delete_and_settle("nodes", "node-1").await;
    assert_eq!(pick(&world.status().await, "desiredNumberScheduled numberReady"), json!([2, 2]));
    assert_eq!(
        pod_writes(&world),
        ["+node-0", "+node-1", "+node-2"],
        "its Pod is left to the garbage collector of Pods"
    );
}

/// DAEMONSET-3.
#[tokio::test(start_paused = true)]
async fn heartbeats_and_image_lists_cost_nothing() {
    let world = cluster().settled(agent()).await;
    world.clear_log();
    let decided = decided_nodes(&world);
    for n in 0..10 {
        let images: Vec<_> = (0..20).map(|i| json!({"names": [format!("image-{n}-{i}")], "sizeBytes": 7})).collect();
        world
            .patch_status(
                "nodes",
                "node-1",
                json!({"images": images, "nodeInfo": {"kubeletVersion": format!("v1.36.{n}")}}),
            )
            .await;
        world.patch("nodes", "node-0", json!({"metadata": {"annotations": {"seen": n.to_string()}}})).await;
        world.wait(10).await;
    }
    assert_eq!(decided_nodes(&world), decided);
    assert_eq!(world.sandbox.requests().count(Some(CONTROLLER), Some("patch"), None), 0);
    let queues = world.metrics();
    assert!(queues.contains("workqueue_adds_total{name=\"daemonset-node-updates\"} 0"), "{queues}");
}
