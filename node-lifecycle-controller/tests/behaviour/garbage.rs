//! The Pods that the Pod garbage collector deletes, and the times of the deletions.

use std::time::Duration;

use common::settings::{OperatorSettings, TunableValue};
use node_lifecycle_controller::garbage::{
    MAX_NODES_PER_PASS, POD_GC_NODE_QUARANTINE, POD_GC_PERIOD, TERMINATED_POD_GC_THRESHOLD,
};
use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{ME, NS, PodLoopsWorld, condition};

/// NODE-67, NODE-69, NODE-70.
#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_fail_and_are_removed() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    world.pod("p", "n", json!([])).await;
    world.wait(100).await;
    assert!(world.get("p").await.is_some());
    // The finalizer keeps the Pod, so that the test can inspect it after its deletion.
    world
        .sandbox
        .merge("pods", Some(NS), "p", None, json!({"metadata": {"finalizers": ["example.com/f"]}}))
        .await
        .unwrap();
    world.delete("nodes", None, "n").await;
    world.wait(38).await;
    assert!(!world.is_terminating_or_deleted("p").await, "the quarantine has not ended");
    world.wait(45).await;
    let pod = world.get("p").await.unwrap();
    assert!(!pod["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(pod["status"]["phase"], "Failed");
    let target = condition(&pod, "DisruptionTarget");
    assert_eq!(
        (&target["reason"], &target["message"]),
        (&json!("DeletionByPodGC"), &json!("PodGC: node no longer exists"))
    );
    assert_eq!(world.asked("get", "nodes"), 1, "the node was read from the server");
}

/// NODE-92.
#[tokio::test(start_paused = true)]
async fn pods_that_finalizers_keep_cause_no_requests_and_do_not_count_as_ended() {
    let few = OperatorSettings::new().with_tunable(TERMINATED_POD_GC_THRESHOLD.name, TunableValue::Integer(2));
    let world = PodLoopsWorld::with(few).await;
    world.node("n", json!([])).await;
    for name in ["a", "b", "c", "d", "orphan"] {
        world.pod(name, "n", json!([])).await;
        world.wait(2).await;
    }
    let kept = json!({"metadata": {"finalizers": ["example.com/f"]}});
    for name in ["a", "b", "orphan"] {
        world.sandbox.merge("pods", Some(NS), name, None, kept.clone()).await.unwrap();
    }
    for name in ["a", "b", "c", "d"] {
        world.status(name, json!({"phase": "Succeeded"})).await;
    }
    world.wait(60).await;
    assert!(world.is_terminating_or_deleted("a").await && world.is_terminating_or_deleted("b").await);
    assert!(world.get("c").await.is_some() && world.get("d").await.is_some(), "two ended Pods are kept");
    world.delete("nodes", None, "n").await;
    world.wait(100).await;
    assert!(world.is_terminating_or_deleted("orphan").await);
    let before = (world.asked("delete", "pods"), world.asked("get", "nodes"), world.asked("get", "pods"));
    world.wait(3600).await;
    assert_eq!((world.asked("delete", "pods"), world.asked("get", "nodes"), world.asked("get", "pods")), before);
}

/// NODE-67.
#[tokio::test(start_paused = true)]
async fn a_node_that_exists_again_in_time_keeps_its_pods() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    world.pod("p", "n", json!([])).await;
    world.delete("nodes", None, "n").await;
    world.wait(30).await;
    world.node("n", json!([])).await;
    world.wait(30).await;
    world.delete("nodes", None, "n").await;
    world.wait(35).await;
    assert!(world.get("p").await.is_some(), "the quarantine of the node restarts");
    world.wait(50).await;
    assert!(world.get("p").await.is_none());
}

/// NODE-65, NODE-69.
#[tokio::test(start_paused = true)]
async fn the_oldest_of_too_many_ended_pods_are_removed() {
    let few = OperatorSettings::new().with_tunable(TERMINATED_POD_GC_THRESHOLD.name, TunableValue::Integer(2));
    let world = PodLoopsWorld::with(few).await;
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
    assert_eq!(world.asked("patch", "pods/status"), 0, "the phase of an ended Pod is not written");
    world.status("d", json!({"phase": "Succeeded"})).await;
    world.wait(30).await;
    assert!(world.get("a").await.is_none() && world.get("d").await.is_some());
}

/// NODE-65.
#[tokio::test(start_paused = true)]
async fn many_ended_pods_are_removed_in_one_pass_the_oldest_first() {
    let few = OperatorSettings::new().with_tunable(TERMINATED_POD_GC_THRESHOLD.name, TunableValue::Integer(5));
    let mut world = PodLoopsWorld::with(few).await;
    world.crash();
    world.node("n", json!([])).await;
    // A pass reads ended Pods from the cache in chunks of 500, so these Pods need three chunks.
    for number in 0..1205 {
        let name = format!("p{number:04}");
        world.pod(&name, "n", json!([])).await;
        world.status(&name, json!({"phase": "Succeeded"})).await;
        world.clock.sleep(Duration::from_millis(100)).await;
    }
    world.start();
    world.wait(15).await;
    let left = world.sandbox.list("pods", Some(NS)).await.unwrap();
    let left: Vec<&str> = left.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(left, ["p1200", "p1201", "p1202", "p1203", "p1204"]);
    assert_eq!(world.asked("delete", "pods"), 1200);
}

/// NODE-66.
#[tokio::test(start_paused = true)]
async fn terminating_pods_on_out_of_service_nodes_are_removed() {
    let world = PodLoopsWorld::new().await;
    let out = json!([{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoSchedule"}]);
    for (node, ready) in [("dead", "Unknown"), ("alive", "True")] {
        world.node(node, out.clone()).await;
        world.set_ready(node, ready).await;
        world.pod(node, node, json!([])).await;
        world.delete("pods", Some(NS), node).await;
    }
    world.pod("stays", "dead", json!([])).await;
    world.wait(25).await;
    assert!(world.get("dead").await.is_none());
    assert!(world.get("alive").await.is_some() && world.get("stays").await.is_some());
}

/// NODE-68, NODE-69.
#[tokio::test(start_paused = true)]
async fn a_terminating_pod_without_a_node_is_removed() {
    let world = PodLoopsWorld::new().await;
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

#[tokio::test(start_paused = true)]
async fn an_explanation_changes_nothing() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    world.pod("p", "n", json!([])).await;
    world.delete("nodes", None, "n").await;
    for _ in 0..90 {
        world.wait(1).await;
        let explained = world.explain("pass");
        assert!(explained.contains("state"), "{explained}");
    }
    assert!(world.get("p").await.is_none());
}

/// NODE-64, NODE-67.
#[tokio::test(start_paused = true)]
async fn the_period_and_the_quarantine_can_be_set() {
    let short = |name, seconds| (name, TunableValue::Duration(Duration::from_secs(seconds)));
    for (quarantine, period, at_most) in [(3, 1, 5), (0, 1, 3), (60, 1, 62)] {
        let (period, quarantine) = (short(POD_GC_PERIOD.name, period), short(POD_GC_NODE_QUARANTINE.name, quarantine));
        let settings =
            OperatorSettings::new().with_tunable(period.0, period.1).with_tunable(quarantine.0, quarantine.1);
        let world = PodLoopsWorld::with(settings).await;
        world.node("n", json!([])).await;
        world.pod("p", "n", json!([])).await;
        world.delete("nodes", None, "n").await;
        let TunableValue::Duration(least) = quarantine.1 else { unreachable!() };
        if !least.is_zero() {
            world.wait(least.as_secs() - 1).await;
            assert!(world.get("p").await.is_some(), "{least:?}");
        }
        world.wait(at_most - least.as_secs() + 1).await;
        assert!(world.get("p").await.is_none(), "{least:?}");
    }
}

/// NODE-69, NODE-71.
#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_unseen_keeps_its_phase() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    world.pod("p", "n", json!([])).await;
    let keep = json!({"metadata": {"finalizers": ["example.com/f"]}});
    world.sandbox.merge("pods", Some(NS), "p", None, keep).await.unwrap();
    world.wait(5).await;
    world.sandbox.faults().hold_watch(ME, "pods");
    world.status("p", json!({"phase": "Succeeded"})).await;
    world.delete("nodes", None, "n").await;
    world.wait(90).await;
    let pod = world.get("p").await.unwrap();
    assert_eq!(pod["status"]["phase"], "Succeeded");
    assert!(!pod["metadata"]["deletionTimestamp"].is_null(), "the Pod is deleted in the same pass");
}

/// NODE-71, NODE-90.
#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_during_its_removal_is_judged_again() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    world.pod("p", "n", json!([])).await;
    let slow = Rule::new(Action::Latency(Duration::from_secs(10))).identity(ME).verb("delete").resource("pods");
    world.sandbox.faults().add(slow.times(1));
    world.delete("nodes", None, "n").await;
    while world.asked("patch", "pods/status") == 0 {
        world.wait(1).await;
    }
    world.wait(1).await;
    let path = format!("/api/v1/namespaces/{NS}/pods/p");
    let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    world.sandbox.send(http::Method::DELETE, &path, "application/json", Some(&now)).await.unwrap();
    world.node("other", json!([])).await;
    world.pod("p", "other", json!([])).await;
    world.wait(120).await;
    assert!(!world.is_terminating_or_deleted("p").await, "the new Pod with this name is not deleted");
}

/// NODE-70.
#[tokio::test(start_paused = true)]
async fn a_node_that_recovered_unseen_keeps_its_terminating_pods() {
    let out = json!([{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoSchedule"}]);
    for recovery in ["taint", "report"] {
        let world = PodLoopsWorld::new().await;
        world.node("n", out.clone()).await;
        world.set_ready("n", "Unknown").await;
        world.pod("p", "n", json!([])).await;
        world.wait(5).await;
        world.sandbox.faults().hold_watch(ME, "nodes");
        match recovery {
            "taint" => world.taint("n", json!([])).await,
            _ => world.set_ready("n", "True").await,
        }
        world.delete("pods", Some(NS), "p").await;
        world.wait(60).await;
        assert!(world.get("p").await.is_some(), "{recovery}");
        assert!(world.asked("get", "nodes") >= 1, "{recovery}");
    }
}

/// NODE-72.
#[tokio::test(start_paused = true)]
async fn many_missing_nodes_are_handled_in_several_passes() {
    let world = PodLoopsWorld::new().await;
    let lost = MAX_NODES_PER_PASS + 3;
    for n in 0..lost {
        world.pod(&format!("p{n}"), &format!("lost-{n}"), json!([])).await;
    }
    world.wait(63).await;
    assert_eq!(world.sandbox.list("pods", Some(NS)).await.unwrap(), Vec::<serde_json::Value>::new());
    assert_eq!(world.asked("get", "nodes"), lost as u64, "each node was read once");
}

/// NODE-72.
#[tokio::test(start_paused = true)]
async fn slow_reads_of_missing_nodes_do_not_delay_pods_without_a_node_for_an_hour() {
    let world = PodLoopsWorld::new().await;
    for n in 0..40 {
        world.pod(&format!("p{n}"), &format!("lost-{n}"), json!([])).await;
    }
    world.wait(15).await;
    let slow = Rule::new(Action::Latency(Duration::from_secs(45))).identity(ME).verb("get").resource("nodes");
    world.sandbox.faults().add(slow);
    // Waits until the quarantine of the missing nodes has ended and a pass reads the nodes from the server.
    while world.asked("get", "nodes") == 0 {
        world.wait(1).await;
    }
    assert_eq!(world.asked("get", "nodes"), 8, "eight nodes are read concurrently");
    world.pod("nowhere", "", json!([])).await;
    let keep = json!({"metadata": {"finalizers": ["example.com/f"]}});
    world.sandbox.merge("pods", Some(NS), "nowhere", None, keep).await.unwrap();
    world.wait(46).await;
    let left = world.sandbox.list("pods", Some(NS)).await.unwrap().len();
    assert_eq!(left, 33, "the Pods of the first eight nodes are removed before the others are read");
    world.wait(4 * 45).await;
    assert_eq!(world.sandbox.list("pods", Some(NS)).await.unwrap().len(), 1);
}

/// NODE-64.
#[tokio::test(start_paused = true)]
async fn a_pass_without_work_sends_nothing() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    world.pod("p", "n", json!([])).await;
    world.wait(5).await;
    let before = world.sandbox.requests().count(Some(ME), None, None);
    world.wait(3600).await;
    let since = world.sandbox.requests().count(Some(ME), None, None) - before;
    let watches = ["pods", "nodes", "leases.coordination.k8s.io"].map(|resource| world.asked("watch", resource));
    let watches: u64 = watches.iter().sum();
    assert!(since <= watches, "{since} requests, {watches} of them watches that were opened again");
}
