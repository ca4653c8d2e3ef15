//! The Pods that the Pod garbage collector deletes, and the times of the deletions.

use crate::world::*;
use node_lifecycle_controller::garbage::{
    MAX_NODES_PER_PASS, POD_GC_NODE_QUARANTINE, POD_GC_PERIOD, TERMINATED_POD_GC_THRESHOLD,
};

/// A cluster that keeps this many ended Pods.
fn cluster_that_keeps(ended: i64) -> Cluster {
    pod_cluster().tunable(TERMINATED_POD_GC_THRESHOLD.name, TunableValue::Integer(ended))
}

/// NODE-92.
#[tokio::test(start_paused = true)]
async fn pods_that_finalizers_keep_cause_no_requests_and_do_not_count_as_ended() {
    let world = pod_world(cluster_that_keeps(2)).await;
    create_node(&world, "n", "").await;
    for name in ["a", "b", "c", "d", "orphan"] {
        create_pod(&world, name, "n", json!([])).await;
        world.wait(2).await;
    }
    for name in ["a", "b", "orphan"] {
        keep(&world, name).await;
    }
    for name in ["a", "b", "c", "d"] {
        world.patch_pod_status(name, json!({"phase": "Succeeded"})).await;
    }
    world.wait(60).await;
    let mut leaving = Vec::new();
    for name in ["a", "b", "c", "d"] {
        leaving.push(has_left(&world, name).await);
    }
    assert_eq!(leaving, [true, true, false, false], "two ended Pods are kept");
    world.delete("nodes", "n").await;
    world.wait(100).await;
    assert!(has_left(&world, "orphan").await);
    let requests = || [("delete", "pods"), ("get", "nodes"), ("get", "pods")].map(|(verb, of)| world.count(verb, of));
    let before = requests();
    world.wait(3600).await;
    assert_eq!(requests(), before);
}

/// NODE-65, NODE-69.
#[tokio::test(start_paused = true)]
async fn many_ended_pods_are_removed_in_one_pass_the_oldest_first() {
    let mut world = pod_world(cluster_that_keeps(5)).await;
    world.crash();
    create_node(&world, "n", "").await;
    // A pass reads ended Pods from the cache in chunks of 500, so these Pods need three chunks.
    for number in 0..1205 {
        let name = format!("p{number:04}");
        create_pod(&world, &name, "n", json!([])).await;
        world.patch_pod_status(&name, json!({"phase": "Succeeded"})).await;
        world.wait(0.1).await;
    }
    world.start();
    world.wait(15).await;
    assert_eq!(world.names("pods").await, ["p1200", "p1201", "p1202", "p1203", "p1204"]);
    assert_eq!(world.count("delete", "pods"), 1200);
    assert_eq!(world.count("patch", "pods/status"), 0, "the phase of an ended Pod is not written");
}

#[tokio::test(start_paused = true)]
async fn an_explanation_changes_nothing() {
    let world = world_with_pod("", json!([])).await;
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
    for (quarantine, at_most) in [(3_u32, 5_u32), (0, 3), (60, 62)] {
        let cluster = pod_cluster().tunable(POD_GC_PERIOD.name, in_seconds(1));
        let world = pod_world(cluster.tunable(POD_GC_NODE_QUARANTINE.name, in_seconds(quarantine))).await;
        create_node(&world, "n", "").await;
        create_pod(&world, "p", "n", json!([])).await;
        world.delete("nodes", "n").await;
        if quarantine > 0 {
            world.wait(quarantine - 1).await;
            assert!(world.find("pods", "p").await.is_some(), "{quarantine}");
        }
        world.wait(at_most - quarantine + 1).await;
        assert!(world.find("pods", "p").await.is_none(), "{quarantine}");
    }
}

/// NODE-69, NODE-71.
#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_unseen_keeps_its_phase() {
    let world = world_with_pod("", json!([])).await;
    keep(&world, "p").await;
    world.wait(5).await;
    world.hold("pods");
    world.patch_pod_status("p", json!({"phase": "Succeeded"})).await;
    world.delete("nodes", "n").await;
    world.wait(90).await;
    let pod = world.get("pods", "p").await;
    assert_eq!(pod["status"]["phase"], "Succeeded");
    assert!(is_terminating(&pod), "the Pod is deleted in the same pass");
}

/// NODE-71, NODE-90.
#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_during_its_removal_is_judged_again() {
    let world = world_with_pod("", json!([])).await;
    world.fault(rule(Action::Latency(Duration::from_secs(10)), "delete", "pods").times(1));
    world.delete("nodes", "n").await;
    while world.count("patch", "pods/status") == 0 {
        world.wait(1).await;
    }
    world.wait(1).await;
    delete_now(&world, "p").await;
    create_node(&world, "other", "").await;
    create_pod(&world, "p", "other", json!([])).await;
    world.wait(120).await;
    assert!(!has_left(&world, "p").await, "the new Pod with this name is not deleted");
}

/// NODE-66, NODE-70.
#[tokio::test(start_paused = true)]
async fn terminating_pods_on_an_out_of_service_node_are_removed_unless_it_recovered_unseen() {
    for recovery in ["none", "taint", "report"] {
        let world = world_with_pod("", json!([])).await;
        let out = json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoSchedule"});
        set_taints(&world, "n", json!([out])).await;
        world.patch_status("nodes", "n", ready_condition("Unknown")).await;
        create_pod(&world, "stays", "n", json!([])).await;
        world.wait(5).await;
        world.hold("nodes");
        match recovery {
            "taint" => taint(&world, "n", "").await,
            "report" => drop(world.patch_status("nodes", "n", ready_condition("True")).await),
            _ => {}
        }
        world.delete("pods", "p").await;
        world.wait(60).await;
        assert_eq!(world.find("pods", "p").await.is_none(), recovery == "none", "{recovery}");
        assert!(!has_left(&world, "stays").await, "{recovery}");
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
    world.fault(rule(Action::Latency(Duration::from_secs(45)), "get", "nodes"));
    // Waits until the quarantine of the missing nodes has ended and a pass reads the nodes from the server.
    while world.count("get", "nodes") == 0 {
        world.wait(1).await;
    }
    assert_eq!(world.count("get", "nodes"), 8, "eight nodes are read concurrently");
    create_pod(&world, "nowhere", "", json!([])).await;
    keep(&world, "nowhere").await;
    world.wait(46).await;
    assert_eq!(
        world.pods().await.len(),
        33,
        "the Pods of the first eight nodes are removed before the others are read"
    );
    world.wait(4 * 45).await;
    assert_eq!(world.list("pods").await.len(), 1);
}

/// NODE-64.
#[tokio::test(start_paused = true)]
async fn a_pass_without_work_sends_nothing() {
    let world = world_with_pod("", json!([])).await;
    world.wait(5).await;
    let before = request_count(&world);
    world.wait(3600).await;
    assert_eq!(request_count(&world), before);
}
