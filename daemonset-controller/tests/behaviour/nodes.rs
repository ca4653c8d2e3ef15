//! Added, changed and deleted nodes.

use crate::world::*;

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
