//! Pods that lose the label `controller-revision-hash`, so that the watch no longer shows them.

use crate::world::*;

const HASH: &str = "controller-revision-hash";

/// Starts a world in which a DaemonSet with this update strategy is settled. Also returns the name of its Pod on `node-1`.
async fn world_with_settled_set(strategy: &str) -> (World, String) {
    let world = cluster().settled(daemon_set(json!({"updateStrategy": {"type": strategy}}))).await;
    world.clear_log();
    let pod = pod_name_on(&world, "node-1").await;
    (world, pod)
}

async fn owner(world: &World, pod: &str) -> Value {
    world.get("pods", pod).await["metadata"]["ownerReferences"][0]["name"].clone()
}

/// DAEMONSET-81.
#[tokio::test(start_paused = true)]
async fn a_pod_without_the_label_of_its_revision_gets_an_empty_one_and_is_not_replaced() {
    for strategy in ["OnDelete", "RollingUpdate"] {
        let (world, pod) = world_with_settled_set(strategy).await;
        world.label("pods", &pod, json!({HASH: null})).await;
        world.settle().await;
        // As in upstream, the label `pod-template-generation` identifies a Pod of the current template.
        assert_eq!((pod_writes(&world), world.count("list", "pods")), (vec!["~node-1".to_owned()], 1), "{strategy}");
        assert_eq!(world.get("pods", &pod).await["metadata"]["labels"][HASH], "");
        assert_eq!(world.status().await["numberAvailable"], 3);
        // The watch shows the Pod again, so its deletion needs no read of Pods.
        world.delete_and_settle("pods", &pod).await;
        assert_eq!(pod_writes(&world), ["~node-1", "+node-1"], "{strategy}");
        assert_eq!(world.count("list", "pods"), 1, "{strategy}");
    }
}

/// DAEMONSET-81.
#[tokio::test(start_paused = true)]
async fn a_pod_without_a_revision_is_outdated() {
    for (strategy, pods) in [("OnDelete", 1), ("RollingUpdate", 0)] {
        let (world, pod) = world_with_settled_set(strategy).await;
        world.label("pods", &pod, json!({HASH: null, "pod-template-generation": null})).await;
        world.wait(60).await;
        let stays = world.names("pods").await.iter().filter(|name| **name == pod).count();
        assert_eq!(stays, pods, "{strategy}");
        assert_eq!(world.status().await["updatedNumberScheduled"], 3 - pods, "{strategy}");
    }
}

/// DAEMONSET-81.
#[tokio::test(start_paused = true)]
async fn no_pod_is_created_until_the_read_of_a_hidden_pod_is_answered() {
    let (world, pod) = world_with_settled_set("RollingUpdate").await;
    world.fault(rule(Action::Latency(Duration::from_secs(20)), "list", "pods"));
    world.label("pods", &pod, Value::Null).await;
    world.patch(SETS, "agent", json!({"metadata": {"annotations": {"a": "b"}}})).await;
    world.wait(15).await;
    assert_eq!(world.count("create", "pods"), 0);
    world.wait(30).await;
    assert_eq!((owner(&world, &pod).await, world.count("create", "pods")), (Value::Null, 1));
}

/// DAEMONSET-81.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_labels_cannot_be_restored_costs_few_requests_and_does_not_hold_up_the_set() {
    let (world, pod) = world_with_settled_set("OnDelete").await;
    world.fault(rule(Action::Forbidden, "patch", "pods"));
    world.label("pods", &pod, json!({HASH: null})).await;
    world.wait(60).await;
    world.delete("pods", &pod_name_on(&world, "node-2").await).await;
    world.wait(60).await;
    assert_eq!((world.count("create", "pods"), world.count("delete", "pods")), (1, 0));
    world.wait(3600).await;
    let (tries, reads) = (world.count("patch", "pods"), world.count("list", "pods"));
    assert!((4..=25).contains(&tries), "it backs off: {tries}");
    assert!(reads <= 120, "{reads}");
}

/// DAEMONSET-81.
#[tokio::test(start_paused = true)]
async fn deleted_pods_are_not_read() {
    let (world, pod) = world_with_settled_set("RollingUpdate").await;
    world.delete_and_settle("pods", &pod).await;
    world.delete_and_settle("nodes", "node-2").await;
    assert_eq!((world.count("list", "pods"), world.count("get", "pods")), (0, 0));
}

/// DAEMONSET-83.
#[tokio::test(start_paused = true)]
async fn a_webhook_that_removes_the_label_causes_no_endless_creation_of_pods() {
    let world = cluster().start().await;
    world.strip_label(HASH);
    world.create(agent()).await;
    world.wait(3600).await;
    assert_eq!((world.names("pods").await.len(), world.count("create", "pods")), (3, 3));
    world.assert_count("patch", "pods", 3..=60);
    assert_eq!(world.status().await["numberAvailable"], 3);
    let pod = world.names("pods").await.remove(0);
    world.delete("pods", &pod).await;
    world.wait(180).await;
    assert_eq!((world.names("pods").await.len(), world.count("create", "pods")), (3, 4));
}
