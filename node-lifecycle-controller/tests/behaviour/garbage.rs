//! The Pods that the Pod garbage collector deletes, and the times of the deletions.

use crate::world::*;
use node_lifecycle_controller::garbage::{
    MAX_NODES_PER_PASS, POD_GC_NODE_QUARANTINE, POD_GC_PERIOD, TERMINATED_POD_GC_THRESHOLD,
};

/// NODE-67, NODE-69, NODE-70.
#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_fail_and_are_removed() {
    let world = world_with_pod(json!([]), json!([])).await;
    world.wait(100).await;
    assert!(world.find("pods", "p").await.is_some());
    // The finalizer keeps the Pod, so that the test can inspect it after its deletion.
    world.patch("pods", "p", json!({"metadata": {"finalizers": ["example.com/f"]}})).await;
    world.delete("nodes", "n").await;
    world.wait(38).await;
    assert!(!is_terminating_or_deleted(&world, "p").await, "the quarantine has not ended");
    world.wait(45).await;
    let pod = world.find("pods", "p").await.unwrap();
    assert!(!pod["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(pod["status"]["phase"], "Failed");
    let target = condition(&pod, "DisruptionTarget");
    assert_eq!(pick(&target, "reason message"), json!(["DeletionByPodGC", "PodGC: node no longer exists"]));
    assert_eq!(world.count("get", "nodes"), 1, "the node was read from the server");
}

/// NODE-92.
#[tokio::test(start_paused = true)]
async fn pods_that_finalizers_keep_cause_no_requests_and_do_not_count_as_ended() {
    let few = OperatorSettings::new().with_tunable(TERMINATED_POD_GC_THRESHOLD.name, TunableValue::Integer(2));
    let world = pod_world(pod_cluster().settings(few)).await;
    create_node(&world, "n", json!([])).await;
    for name in ["a", "b", "c", "d", "orphan"] {
        create_pod(&world, name, "n", json!([])).await;
        world.wait(2).await;
    }
    let kept = json!({"metadata": {"finalizers": ["example.com/f"]}});
    for name in ["a", "b", "orphan"] {
        world.patch("pods", name, kept.clone()).await;
    }
    for name in ["a", "b", "c", "d"] {
        world.patch_pod_status(name, json!({"phase": "Succeeded"})).await;
    }
    world.wait(60).await;
    assert!(is_terminating_or_deleted(&world, "a").await && is_terminating_or_deleted(&world, "b").await);
    assert!(
        world.find("pods", "c").await.is_some() && world.find("pods", "d").await.is_some(),
        "two ended Pods are kept"
    );
    world.delete("nodes", "n").await;
    world.wait(100).await;
    assert!(is_terminating_or_deleted(&world, "orphan").await);
    let before = (world.count("delete", "pods"), world.count("get", "nodes"), world.count("get", "pods"));
    world.wait(3600).await;
    assert_eq!((world.count("delete", "pods"), world.count("get", "nodes"), world.count("get", "pods")), before);
}

/// NODE-67.
#[tokio::test(start_paused = true)]
async fn a_node_that_exists_again_in_time_keeps_its_pods() {
    let world = world_with_pod(json!([]), json!([])).await;
    world.delete("nodes", "n").await;
    world.wait(30).await;
    create_node(&world, "n", json!([])).await;
    world.wait(30).await;
    world.delete("nodes", "n").await;
    world.wait(35).await;
    assert!(world.find("pods", "p").await.is_some(), "the quarantine of the node restarts");
    world.wait(50).await;
    assert!(world.find("pods", "p").await.is_none());
}

/// NODE-65, NODE-69.
#[tokio::test(start_paused = true)]
async fn the_oldest_of_too_many_ended_pods_are_removed() {
    let few = OperatorSettings::new().with_tunable(TERMINATED_POD_GC_THRESHOLD.name, TunableValue::Integer(2));
    let world = pod_world(pod_cluster().settings(few)).await;
    create_node(&world, "n", json!([])).await;
    for name in ["a", "b", "c", "d"] {
        create_pod(&world, name, "n", json!([])).await;
        world.wait(2).await;
    }
    for name in ["a", "b", "c"] {
        world.patch_pod_status(name, json!({"phase": "Succeeded"})).await;
    }
    world.patch_pod_status("c", json!({"phase": "Failed", "reason": "Evicted"})).await;
    world.wait(30).await;
    let left = world.list("pods").await;
    let left: Vec<&str> = left.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(left, ["a", "b", "d"]);
    assert_eq!(world.count("patch", "pods/status"), 0, "the phase of an ended Pod is not written");
    world.patch_pod_status("d", json!({"phase": "Succeeded"})).await;
    world.wait(30).await;
    assert!(world.find("pods", "a").await.is_none() && world.find("pods", "d").await.is_some());
}

/// NODE-65.
#[tokio::test(start_paused = true)]
async fn many_ended_pods_are_removed_in_one_pass_the_oldest_first() {
    let few = OperatorSettings::new().with_tunable(TERMINATED_POD_GC_THRESHOLD.name, TunableValue::Integer(5));
    let mut world = pod_world(pod_cluster().settings(few)).await;
    world.crash();
    create_node(&world, "n", json!([])).await;
    // A pass reads ended Pods from the cache in chunks of 500, so these Pods need three chunks.
    for number in 0..1205 {
        let name = format!("p{number:04}");
        create_pod(&world, &name, "n", json!([])).await;
        world.patch_pod_status(&name, json!({"phase": "Succeeded"})).await;
        world.wait(0.1).await;
    }
    world.start();
    world.wait(15).await;
    let left = world.list("pods").await;
    let left: Vec<&str> = left.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(left, ["p1200", "p1201", "p1202", "p1203", "p1204"]);
    assert_eq!(world.count("delete", "pods"), 1200);
}

/// NODE-66.
#[tokio::test(start_paused = true)]
async fn terminating_pods_on_out_of_service_nodes_are_removed() {
    let world = pod_world(pod_cluster()).await;
    let out = json!([{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoSchedule"}]);
    for (node, ready) in [("dead", "Unknown"), ("alive", "True")] {
        create_node(&world, node, out.clone()).await;
        world.patch_status("nodes", node, ready_condition(ready)).await;
        create_pod(&world, node, node, json!([])).await;
        world.delete("pods", node).await;
    }
    create_pod(&world, "stays", "dead", json!([])).await;
    world.wait(25).await;
    assert!(world.find("pods", "dead").await.is_none());
    assert!(world.find("pods", "alive").await.is_some() && world.find("pods", "stays").await.is_some());
}

/// NODE-68, NODE-69.
#[tokio::test(start_paused = true)]
async fn a_terminating_pod_without_a_node_is_removed() {
    let world = pod_world(pod_cluster()).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": NAMESPACE, "finalizers": ["example.com/f"]},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}});
    world.create(pod).await;
    world.delete("pods", "p").await;
    world.wait(25).await;
    let pod = world.find("pods", "p").await.unwrap();
    assert_eq!(pod["status"]["phase"], "Failed");
    assert_eq!(condition(&pod, "DisruptionTarget"), json!(null));
    world.patch("pods", "p", json!({"metadata": {"finalizers": null}})).await;
    world.wait(1).await;
    assert!(world.find("pods", "p").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_explanation_changes_nothing() {
    let world = world_with_pod(json!([]), json!([])).await;
    world.delete("nodes", "n").await;
    for _ in 0..90 {
        world.wait(1).await;
        let explained = explain(&world, "pass");
        assert!(explained.contains("state"), "{explained}");
    }
    assert!(world.find("pods", "p").await.is_none());
}

/// NODE-64, NODE-67.
#[tokio::test(start_paused = true)]
async fn the_period_and_the_quarantine_can_be_set() {
    let short = |name, seconds| (name, TunableValue::Duration(Duration::from_secs(seconds)));
    for (quarantine, period, at_most) in [(3, 1, 5), (0, 1, 3), (60, 1, 62)] {
        let (period, quarantine) = (short(POD_GC_PERIOD.name, period), short(POD_GC_NODE_QUARANTINE.name, quarantine));
        let settings =
            OperatorSettings::new().with_tunable(period.0, period.1).with_tunable(quarantine.0, quarantine.1);
        let world = pod_world(pod_cluster().settings(settings)).await;
        create_node(&world, "n", json!([])).await;
        create_pod(&world, "p", "n", json!([])).await;
        world.delete("nodes", "n").await;
        let TunableValue::Duration(least) = quarantine.1 else { unreachable!() };
        if !least.is_zero() {
            world.clock.sleep(Duration::from_secs(least.as_secs() - 1)).await;
            assert!(world.find("pods", "p").await.is_some(), "{least:?}");
        }
        world.clock.sleep(Duration::from_secs(at_most - least.as_secs() + 1)).await;
        assert!(world.find("pods", "p").await.is_none(), "{least:?}");
    }
}

/// NODE-69, NODE-71.
#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_unseen_keeps_its_phase() {
    let world = world_with_pod(json!([]), json!([])).await;
    world.patch("pods", "p", json!({"metadata": {"finalizers": ["example.com/f"]}})).await;
    world.wait(5).await;
    world.hold("pods");
    world.patch_pod_status("p", json!({"phase": "Succeeded"})).await;
    world.delete("nodes", "n").await;
    world.wait(90).await;
    let pod = world.find("pods", "p").await.unwrap();
    assert_eq!(pod["status"]["phase"], "Succeeded");
    assert!(!pod["metadata"]["deletionTimestamp"].is_null(), "the Pod is deleted in the same pass");
}

/// NODE-71, NODE-90.
#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_during_its_removal_is_judged_again() {
    let world = world_with_pod(json!([]), json!([])).await;
    let slow = rule(Action::Latency(Duration::from_secs(10)), "delete", "pods");
    world.fault(slow.times(1));
    world.delete("nodes", "n").await;
    while world.count("patch", "pods/status") == 0 {
        world.wait(1).await;
    }
    world.wait(1).await;
    world.delete_with(&format!("/api/v1/namespaces/{NAMESPACE}/pods/p"), json!({"gracePeriodSeconds": 0})).await;
    create_node(&world, "other", json!([])).await;
    create_pod(&world, "p", "other", json!([])).await;
    world.wait(120).await;
    assert!(!is_terminating_or_deleted(&world, "p").await, "the new Pod with this name is not deleted");
}

/// NODE-70.
#[tokio::test(start_paused = true)]
async fn a_node_that_recovered_unseen_keeps_its_terminating_pods() {
    let out = json!([{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoSchedule"}]);
    for recovery in ["taint", "report"] {
        let world = pod_world(pod_cluster()).await;
        create_node(&world, "n", out.clone()).await;
        world.patch_status("nodes", "n", ready_condition("Unknown")).await;
        create_pod(&world, "p", "n", json!([])).await;
        world.wait(5).await;
        world.hold("nodes");
        match recovery {
            "taint" => taint(&world, "n", json!([])).await,
            _ => drop(world.patch_status("nodes", "n", ready_condition("True")).await),
        }
        world.delete("pods", "p").await;
        world.wait(60).await;
        assert!(world.find("pods", "p").await.is_some(), "{recovery}");
        assert!(world.count("get", "nodes") >= 1, "{recovery}");
    }
}

/// NODE-72.
#[tokio::test(start_paused = true)]
async fn many_missing_nodes_are_handled_in_several_passes() {
    let world = pod_world(pod_cluster()).await;
    let lost = MAX_NODES_PER_PASS + 3;
    for n in 0..lost {
        create_pod(&world, &format!("p{n}"), &format!("lost-{n}"), json!([])).await;
    }
    world.wait(63).await;
    assert_eq!(world.list("pods").await, Vec::<Value>::new());
    assert_eq!(world.count("get", "nodes"), lost as u64, "each node was read once");
}

/// NODE-72.
#[tokio::test(start_paused = true)]
async fn slow_reads_of_missing_nodes_do_not_delay_pods_without_a_node_for_an_hour() {
    let world = pod_world(pod_cluster()).await;
    for n in 0..40 {
        create_pod(&world, &format!("p{n}"), &format!("lost-{n}"), json!([])).await;
    }
    world.wait(15).await;
    let slow = rule(Action::Latency(Duration::from_secs(45)), "get", "nodes");
    world.fault(slow);
    // Waits until the quarantine of the missing nodes has ended and a pass reads the nodes from the server.
    while world.count("get", "nodes") == 0 {
        world.wait(1).await;
    }
    assert_eq!(world.count("get", "nodes"), 8, "eight nodes are read concurrently");
    create_pod(&world, "nowhere", "", json!([])).await;
    world.patch("pods", "nowhere", json!({"metadata": {"finalizers": ["example.com/f"]}})).await;
    world.wait(46).await;
    let left = world.list("pods").await.len();
    assert_eq!(left, 33, "the Pods of the first eight nodes are removed before the others are read");
    world.wait(4 * 45).await;
    assert_eq!(world.list("pods").await.len(), 1);
}

/// NODE-64.
#[tokio::test(start_paused = true)]
async fn a_pass_without_work_sends_nothing() {
    let world = world_with_pod(json!([]), json!([])).await;
    world.wait(5).await;
    let before = world.count_all();
    world.wait(3600).await;
    let since = world.count_all() - before;
    let watches = ["pods", "nodes", "leases.coordination.k8s.io"].map(|resource| world.count("watch", resource));
    let watches: u64 = watches.iter().sum();
    assert!(since <= watches, "{since} requests, {watches} of them watches that were opened again");
}
