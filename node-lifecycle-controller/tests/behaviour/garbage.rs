//! Which Pods are removed.

use common::settings::{Settings, TuneValue};
use node_lifecycle_controller::garbage::TERMINATED_POD_GC_THRESHOLD;
use serde_json::json;

use crate::world::{NS, World, condition};

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_is_gone_end_and_go() {
    let world = World::new().await;
    world.node("n", json!([])).await;
    world.pod("p", "n", json!([])).await;
    world.wait(100).await;
    assert!(world.get("p").await.is_some());
    // Somebody else looks at it, so that it can be seen after it has gone.
    world
        .sandbox
        .merge("pods", Some(NS), "p", None, json!({"metadata": {"finalizers": ["example.com/f"]}}))
        .await
        .unwrap();
    world.delete("nodes", None, "n").await;
    world.wait(38).await;
    assert!(!world.is_going("p").await, "too early to be sure");
    world.wait(45).await;
    let pod = world.get("p").await.unwrap();
    assert!(!pod["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(pod["status"]["phase"], "Failed");
    let target = condition(&pod, "DisruptionTarget");
    assert_eq!(
        (&target["reason"], &target["message"]),
        (&json!("DeletionByPodGC"), &json!("PodGC: node no longer exists"))
    );
    assert_eq!(world.asked("get", "nodes"), 1, "the server was asked");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_back_in_time_keeps_its_pods() {
    let world = World::new().await;
    world.node("n", json!([])).await;
    world.pod("p", "n", json!([])).await;
    world.delete("nodes", None, "n").await;
    world.wait(30).await;
    world.node("n", json!([])).await;
    world.wait(30).await;
    world.delete("nodes", None, "n").await;
    world.wait(35).await;
    assert!(world.get("p").await.is_some(), "its absence counts from the start");
    world.wait(50).await;
    assert!(world.get("p").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_oldest_of_too_many_ended_pods_go() {
    let few = Settings::new().with_tune(TERMINATED_POD_GC_THRESHOLD.name, TuneValue::Integer(2));
    let world = World::with(few).await;
    world.node("n", json!([])).await;
    for name in ["a", "b", "c", "d"] {
        world.pod(name, "n", json!([])).await;
        world.wait(2).await;
    }
    for name in ["a", "b", "c"] {
        world.status(name, json!({"phase": "Succeeded"})).await;
    }
    world.status("c", json!({"phase": "Failed", "reason": "Evicted"})).await;
    world.wait(30).await;
    let left = world.sandbox.list("pods", Some(NS)).await.unwrap();
    let left: Vec<&str> = left.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(left, ["a", "b", "d"]);
    assert_eq!(world.asked("patch", "pods/status"), 0, "who has ended ends no more");
    world.status("d", json!({"phase": "Succeeded"})).await;
    world.wait(30).await;
    assert!(world.get("a").await.is_none() && world.get("d").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_going_goes_where_nothing_runs_any_more() {
    let world = World::new().await;
    let out = json!([{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoSchedule"}]);
    for (node, ready) in [("dead", "Unknown"), ("alive", "True")] {
        world.node(node, out.clone()).await;
        world.report(node, ready).await;
        world.pod(node, node, json!([])).await;
        world.delete("pods", Some(NS), node).await;
    }
    world.pod("stays", "dead", json!([])).await;
    world.wait(25).await;
    assert!(world.get("dead").await.is_none());
    assert!(world.get("alive").await.is_some() && world.get("stays").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_going_and_has_no_node_goes() {
    let world = World::new().await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": NS, "finalizers": ["example.com/f"]},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}});
    world.sandbox.create(pod).await.unwrap();
    world.delete("pods", Some(NS), "p").await;
    world.wait(25).await;
    let pod = world.get("p").await.unwrap();
    assert_eq!(pod["status"]["phase"], "Failed");
    assert_eq!(condition(&pod, "DisruptionTarget"), json!(null));
    world.sandbox.merge("pods", Some(NS), "p", None, json!({"metadata": {"finalizers": null}})).await.unwrap();
    world.wait(1).await;
    assert!(world.get("p").await.is_none());
}
