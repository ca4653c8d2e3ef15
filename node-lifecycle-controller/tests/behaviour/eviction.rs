//! Taint eviction: the Pods that are deleted because of the taints of their node, and the times of the deletions.

use std::time::Duration;

use node_lifecycle_controller::eviction::TAINT_EVICTION_LOOP;
use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{ME, NS, PodLoopsWorld, condition, no_execute_taint, tolerate_all};

/// Admission gives every Pod a toleration of five minutes for this taint.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// NODE-48, NODE-55, NODE-62.
#[tokio::test(start_paused = true)]
async fn a_pod_without_tolerations_is_deleted_at_once_with_the_reason_in_its_condition() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    world.pod("p", "n", json!([])).await;
    world.wait(5).await;
    assert!(!world.is_terminating_or_deleted("p").await);
    assert_eq!(world.asked("get", "pods"), 0, "a node without taints costs nothing");
    world.taint("n", json!([no_execute_taint("k")])).await;
    world.wait(1).await;
    let pod = world.get("p").await.unwrap();
    assert!(!pod["metadata"]["deletionTimestamp"].is_null());
    let target = condition(&pod, "DisruptionTarget");
    assert_eq!(
        (&target["status"], &target["reason"], &target["message"]),
        (&json!("True"), &json!("DeletionByTaintManager"), &json!("Taint manager: deleting due to NoExecute taint"))
    );
    assert_eq!(target["observedGeneration"], 1);
    assert_eq!(world.event_messages().await, [format!("Marking for deletion Pod {NS}/p")]);
    assert_eq!((world.asked("patch", "pods/status"), world.asked("delete", "pods")), (1, 1));
    // A second taint changes nothing: the Pod is already terminating and has the condition `DisruptionTarget`.
    world.taint("n", json!([no_execute_taint("k"), no_execute_taint("j")])).await;
    world.wait(5).await;
    assert_eq!(world.asked("delete", "pods"), 1);
}

/// NODE-48, NODE-49.
#[tokio::test(start_paused = true)]
async fn a_pod_stays_until_its_toleration_ends() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    world.pod("ever", "n", json!([tolerate_all(None)])).await;
    world.pod("while", "n", json!([])).await;
    world.set_ready("n", "Unknown").await;
    world.taint("n", json!([no_execute_taint(UNREACHABLE)])).await;
    world.wait(298).await;
    assert!(!world.is_terminating_or_deleted("while").await);
    assert!(world.explain("shop/while").contains("deleted when its timer is due"));
    world.wait(4).await;
    assert!(world.is_terminating_or_deleted("while").await);
    world.wait(3600).await;
    assert!(!world.is_terminating_or_deleted("ever").await);
    assert_eq!(world.event_messages().await, [format!("Marking for deletion Pod {NS}/while")]);
}

/// NODE-63.
#[tokio::test(start_paused = true)]
async fn tolerations_that_compare_numbers_count_only_if_their_feature_gate_is_on() {
    for (is_on, leaves) in [(false, [true, true]), (true, [false, true])] {
        let world = PodLoopsWorld::with_comparison_gate(is_on).await;
        world.node("n", json!([])).await;
        for (pod, limit) in [("above", "10"), ("below", "3")] {
            let fewer = json!({"key": "k", "operator": "Lt", "value": limit, "effect": "NoExecute"});
            world.pod(pod, "n", json!([fewer])).await;
        }
        world.taint("n", json!([{"key": "k", "value": "5", "effect": "NoExecute"}])).await;
        world.wait(5).await;
        assert_eq!(
            [world.is_terminating_or_deleted("above").await, world.is_terminating_or_deleted("below").await],
            leaves,
            "gate: {is_on}"
        );
    }
}

/// NODE-59.
#[tokio::test(start_paused = true)]
async fn pods_on_a_recovered_node_stay_until_its_taint_is_removed() {
    let world = PodLoopsWorld::new().await;
    for (node, seconds) in [("back", 0), ("lost", 60), ("odd", 0)] {
        world.node(node, json!([])).await;
        world.pod(node, node, json!([tolerate_all(Some(seconds))])).await;
    }
    world.set_ready("lost", "Unknown").await;
    for node in ["back", "lost", "odd"] {
        world.taint(node, json!([no_execute_taint(UNREACHABLE)])).await;
    }
    world.wait(43).await;
    assert!(!world.is_terminating_or_deleted("back").await && !world.is_terminating_or_deleted("odd").await);
    assert!(world.explain("shop/back").contains("its node may be healthy"), "{}", world.explain("shop/back"));
    world.taint("back", json!([])).await;
    // The node `lost` becomes ready shortly before the toleration of its Pod ends.
    world.wait(16).await;
    world.set_ready("lost", "True").await;
    world.wait(5).await;
    world.taint("lost", json!([])).await;
    world.wait(10).await;
    assert!(
        world.is_terminating_or_deleted("odd").await,
        "its taint stays, and no heartbeat has arrived for a grace period"
    );
    world.wait(600).await;
    assert!(!world.is_terminating_or_deleted("back").await && !world.is_terminating_or_deleted("lost").await);
}

/// NODE-51.
#[tokio::test(start_paused = true)]
async fn the_removal_of_a_taint_in_time_cancels_the_deletion() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    world.pod("p", "n", json!([])).await;
    world.set_ready("n", "Unknown").await;
    world.taint("n", json!([no_execute_taint(UNREACHABLE)])).await;
    world.wait(200).await;
    world.taint("n", json!([])).await;
    world.wait(600).await;
    assert!(!world.is_terminating_or_deleted("p").await);
    assert_eq!(world.event_messages().await, [format!("Cancelling deletion of Pod {NS}/p")]);
    // After the next taint, the toleration of five minutes starts anew.
    world.taint("n", json!([no_execute_taint(UNREACHABLE)])).await;
    world.wait(200).await;
    assert!(!world.is_terminating_or_deleted("p").await);
    world.wait(101).await;
    assert!(world.is_terminating_or_deleted("p").await);
}

/// NODE-50.
#[tokio::test(start_paused = true)]
async fn a_taint_that_replaces_the_other_keeps_the_timer() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    world.pod("p", "n", json!([])).await;
    let not_ready = "node.kubernetes.io/not-ready";
    world.set_ready("n", "Unknown").await;
    world.taint("n", json!([no_execute_taint(not_ready)])).await;
    world.wait(100).await;
    world.taint("n", json!([no_execute_taint(not_ready), no_execute_taint(UNREACHABLE)])).await;
    world.taint("n", json!([no_execute_taint(UNREACHABLE)])).await;
    world.wait(199).await;
    assert!(!world.is_terminating_or_deleted("p").await);
    world.wait(3).await;
    assert!(world.is_terminating_or_deleted("p").await);
    assert_eq!(world.event_messages().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_process_trusts_a_node_that_reports_not_ready() {
    let mut world = PodLoopsWorld::new().await;
    world.crash();
    world.node("n", json!([])).await;
    world.pod("p", "n", json!([tolerate_all(Some(0))])).await;
    world.set_ready("n", "False").await;
    world.taint("n", json!([no_execute_taint("node.kubernetes.io/not-ready")])).await;
    world.start();
    world.wait(2).await;
    assert!(world.is_terminating_or_deleted("p").await);
}

/// NODE-53.
#[tokio::test(start_paused = true)]
async fn the_deletion_of_a_node_stops_no_timer() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    world.pod("p", "n", json!([tolerate_all(Some(30))])).await;
    world.taint("n", json!([no_execute_taint("k")])).await;
    world.wait(10).await;
    world.delete("nodes", None, "n").await;
    world.wait(15).await;
    assert!(!world.is_terminating_or_deleted("p").await);
    world.wait(7).await;
    assert!(world.is_terminating_or_deleted("p").await);
}

/// NODE-52.
#[tokio::test(start_paused = true)]
async fn a_timer_belongs_to_one_pod_and_not_to_its_name() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([no_execute_taint("k")])).await;
    world.node("other", json!([])).await;
    world.pod("p", "n", json!([tolerate_all(Some(30))])).await;
    world.wait(10).await;
    world.delete_now("p").await;
    world.pod("p", "other", json!([])).await;
    world.wait(600).await;
    assert!(!world.is_terminating_or_deleted("p").await, "another Pod with this name had to leave");
}

/// NODE-54.
#[tokio::test(start_paused = true)]
async fn a_restart_of_the_process_restarts_the_timer() {
    let mut world = PodLoopsWorld::new().await;
    world.node("n", json!([no_execute_taint("k")])).await;
    world.pod("p", "n", json!([tolerate_all(Some(30))])).await;
    world.wait(20).await;
    world.crash();
    world.start();
    world.wait(25).await;
    assert!(!world.is_terminating_or_deleted("p").await);
    world.wait(7).await;
    assert!(world.is_terminating_or_deleted("p").await);
}

/// NODE-61, NODE-89.
#[tokio::test(start_paused = true)]
async fn a_failed_deletion_is_retried_until_it_succeeds() {
    for (fault, verb) in [
        (Action::InternalError, "delete"),
        (Action::CutBefore, "delete"),
        (Action::CutAfter, "delete"),
        (Action::InternalError, "patch"),
        (Action::CutAfter, "patch"),
        (Action::InternalError, "get"),
    ] {
        let world = PodLoopsWorld::new().await;
        world.node("n", json!([])).await;
        world.pod("p", "n", json!([])).await;
        world.sandbox.faults().add(Rule::new(fault.clone()).identity(ME).verb(verb).times(12));
        world.taint("n", json!([no_execute_taint("k")])).await;
        world.wait(120).await;
        assert!(world.is_terminating_or_deleted("p").await, "{fault:?} {verb}");
        let pod = world.get("p").await.unwrap();
        assert_eq!(condition(&pod, "DisruptionTarget")["reason"], "DeletionByTaintManager");
    }
}

/// NODE-51, NODE-53.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_recreated_without_taints_cancels_the_deletion() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([no_execute_taint("k")])).await;
    world.pod("p", "n", json!([tolerate_all(Some(30))])).await;
    world.wait(10).await;
    world.delete("nodes", None, "n").await;
    world.wait(2).await;
    world.node("n", json!([])).await;
    world.wait(6).await;
    assert_eq!(world.event_messages().await, [format!("Cancelling deletion of Pod {NS}/p")]);
    world.taint("n", json!([no_execute_taint("k")])).await;
    // The cancelled timer would have ended at second 30; the new timer ends at second 48.
    world.wait(25).await;
    assert!(!world.is_terminating_or_deleted("p").await);
    world.wait(7).await;
    assert!(world.is_terminating_or_deleted("p").await);
}

/// NODE-56, NODE-86.
#[tokio::test(start_paused = true)]
async fn a_node_without_taints_at_the_server_loses_no_pod() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    world.wait(5).await;
    // The controller sees the Pod and the taint, but not the removal of the taint.
    world.taint("n", json!([no_execute_taint("k")])).await;
    world.wait(1).await;
    world.sandbox.faults().hold_watch(ME, "nodes");
    world.taint("n", json!([])).await;
    world.pod("p", "n", json!([])).await;
    world.wait(60).await;
    assert!(!world.is_terminating_or_deleted("p").await);
    assert_eq!(world.asked("get", "nodes"), 1, "the node was read once");
    world.sandbox.faults().release_watch(ME, "nodes");
    world.wait(600).await;
    assert!(!world.is_terminating_or_deleted("p").await);
    assert_eq!(world.event_messages().await, Vec::<String>::new());
}

/// NODE-51, NODE-56.
#[tokio::test(start_paused = true)]
async fn a_taint_whose_removal_is_not_seen_in_time_evicts_no_pod() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([no_execute_taint("k")])).await;
    world.pod("p", "n", json!([tolerate_all(Some(30))])).await;
    world.wait(28).await;
    world.sandbox.faults().hold_watch(ME, "nodes");
    world.taint("n", json!([])).await;
    world.wait(30).await;
    assert!(!world.is_terminating_or_deleted("p").await);
    assert_eq!(world.event_messages().await, [format!("Cancelling deletion of Pod {NS}/p")]);
    world.sandbox.faults().release_watch(ME, "nodes");
    world.wait(30).await;
    assert!(!world.is_terminating_or_deleted("p").await);
    assert_eq!(world.event_messages().await.len(), 1);
}

/// NODE-56, NODE-86.
#[tokio::test(start_paused = true)]
async fn a_toleration_that_is_not_seen_in_time_counts() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    world.pod("ever", "n", json!([])).await;
    world.pod("while", "n", json!([])).await;
    world.wait(5).await;
    world.sandbox.faults().hold_watch(ME, "pods");
    world.tolerate("ever", tolerate_all(None)).await;
    world.tolerate("while", tolerate_all(Some(30))).await;
    world.taint("n", json!([no_execute_taint("k")])).await;
    world.wait(25).await;
    assert!(!world.is_terminating_or_deleted("ever").await && !world.is_terminating_or_deleted("while").await);
    world.wait(10).await;
    assert!(world.is_terminating_or_deleted("while").await, "the Pod stayed until its timer was due");
    world.sandbox.faults().release_watch(ME, "pods");
    world.wait(600).await;
    assert!(!world.is_terminating_or_deleted("ever").await);
    assert_eq!(world.event_messages().await, [format!("Marking for deletion Pod {NS}/while")]);
}

/// NODE-57, NODE-86.
#[tokio::test(start_paused = true)]
async fn a_toleration_that_is_added_during_the_deletion_prevents_it() {
    for (verb, resource) in [("patch", "pods/status"), ("delete", "pods")] {
        let world = PodLoopsWorld::new().await;
        world.node("n", json!([])).await;
        world.pod("p", "n", json!([])).await;
        let slow = Rule::new(Action::Latency(Duration::from_secs(10))).identity(ME).verb(verb).resource(resource);
        world.sandbox.faults().add(slow.times(1));
        world.taint("n", json!([no_execute_taint("k")])).await;
        world.wait(5).await;
        world.tolerate("p", tolerate_all(None)).await;
        world.wait(600).await;
        assert!(!world.is_terminating_or_deleted("p").await, "{verb} {resource}");
        assert!(world.asked(verb, resource) >= 1);
    }
}

/// NODE-61.
#[tokio::test(start_paused = true)]
async fn a_pod_that_keeps_changing_is_evicted_nevertheless() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    world.pod("p", "n", json!([])).await;
    world.sandbox.faults().add(Rule::new(Action::Conflict).identity(ME).resource("pods/status").times(7));
    world.sandbox.faults().add(Rule::new(Action::Conflict).identity(ME).verb("delete").resource("pods").times(7));
    world.taint("n", json!([no_execute_taint("k")])).await;
    world.wait(120).await;
    assert!(world.is_terminating_or_deleted("p").await);
    assert_eq!(condition(&world.get("p").await.unwrap(), "DisruptionTarget")["reason"], "DeletionByTaintManager");
}

/// NODE-51.
#[tokio::test(start_paused = true)]
async fn a_deletion_whose_answer_is_lost_is_not_reported_as_cancelled() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([no_execute_taint("k")])).await;
    world.pod("p", "n", json!([tolerate_all(Some(30))])).await;
    world.sandbox.faults().add(Rule::new(Action::CutAfter).identity(ME).verb("delete").times(1));
    world.wait(120).await;
    assert!(world.is_terminating_or_deleted("p").await);
    assert_eq!(world.event_messages().await, [format!("Marking for deletion Pod {NS}/p")]);
    assert_eq!(world.asked("delete", "pods"), 1);
}

/// NODE-62.
#[tokio::test(start_paused = true)]
async fn a_pod_to_which_upstream_added_the_condition_is_deleted_without_a_write() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    world.pod("p", "n", json!([])).await;
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": "2026-11-21T08:59:00Z"});
    world.status("p", json!({"conditions": [condition]})).await;
    world.taint("n", json!([no_execute_taint("k")])).await;
    world.wait(5).await;
    assert!(world.is_terminating_or_deleted("p").await);
    assert_eq!((world.asked("patch", "pods/status"), world.asked("delete", "pods")), (0, 1));
}

/// NODE-48.
#[tokio::test(start_paused = true)]
async fn a_toleration_of_zero_or_negative_seconds_does_not_count() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([no_execute_taint("k")])).await;
    world.pod("none", "n", json!([tolerate_all(Some(0))])).await;
    world.pod("negative", "n", json!([tolerate_all(Some(-7))])).await;
    world.wait(1).await;
    assert!(world.is_terminating_or_deleted("none").await && world.is_terminating_or_deleted("negative").await);
    let marked = |name: &str| format!("Marking for deletion Pod {NS}/{name}");
    assert_eq!(world.event_messages().await, [marked("negative"), marked("none")], "there was no timer to cancel");
}

/// Pods that must leave a node at the same time share one read of the node.
/// NODE-58.
#[tokio::test(start_paused = true)]
async fn a_node_is_read_once_for_all_pods_that_leave_it() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    for number in 0..30 {
        world.pod(&format!("p{number}"), "n", json!([tolerate_all(Some(60))])).await;
    }
    world.set_ready("n", "Unknown").await;
    for (taint, reads) in [("k", [1, 0]), (UNREACHABLE, [1, 1])] {
        world.taint("n", json!([no_execute_taint(taint)])).await;
        let before = ["nodes", "leases.coordination.k8s.io"].map(|resource| world.asked("get", resource));
        world.wait(30).await;
        let read = || ["nodes", "leases.coordination.k8s.io"].map(|resource| world.asked("get", resource));
        assert_eq!(read(), before, "no Pod leaves yet");
        world.wait(40).await;
        let after = read();
        assert_eq!([after[0] - before[0], after[1] - before[1]], reads, "{taint}");
        for number in 0..30 {
            assert!(world.is_terminating_or_deleted(&format!("p{number}")).await, "{taint}");
            world.delete_now(&format!("p{number}")).await;
            world.pod(&format!("p{number}"), "n", json!([tolerate_all(Some(60))])).await;
        }
        world.taint("n", json!([])).await;
        world.wait(5).await;
    }
}

/// A Pod is deleted only if the state of its node was read within the last second, even if deletions are slow.
/// NODE-56, NODE-58.
#[tokio::test(start_paused = true)]
async fn a_taint_that_is_removed_while_pods_leave_keeps_the_others() {
    let world = PodLoopsWorld::new().await;
    world.node("n", json!([])).await;
    for number in 0..30 {
        world.pod(&format!("p{number:02}"), "n", json!([])).await;
    }
    let slow = Rule::new(Action::Latency(Duration::from_millis(300))).identity(ME).resource("pods");
    world.sandbox.faults().add(slow);
    world.taint("n", json!([no_execute_taint("k")])).await;
    world.clock.sleep(Duration::from_millis(200)).await;
    // The loops do not see the removal of the taint.
    world.sandbox.faults().hold_watch(ME, "nodes");
    world.taint("n", json!([])).await;
    world.wait(60).await;
    let mut terminating = 0;
    for number in 0..30 {
        terminating += usize::from(world.is_terminating_or_deleted(&format!("p{number:02}")).await);
    }
    // Eight Pods are processed at a time, each with two slow requests.
    assert!((8..=16).contains(&terminating), "{terminating}");
    assert!(world.asked("get", "nodes") >= 2);
}

/// If another program runs the node monitor, the taint eviction watches Leases itself.
/// NODE-59, NODE-87.
#[tokio::test(start_paused = true)]
async fn a_silent_node_loses_its_pods_at_once_and_one_that_renews_its_lease_keeps_them() {
    let world = PodLoopsWorld::with_loops(&[TAINT_EVICTION_LOOP]).await;
    for node in ["silent", "renewing"] {
        world.node(node, json!([])).await;
        world.pod(node, node, json!([tolerate_all(Some(0))])).await;
    }
    let renew = async || {
        let time = world.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "renewing", "namespace": "kube-node-lease"}, "spec": {"renewTime": time}});
        world.sandbox.apply(lease).await.unwrap();
    };
    for _ in 0..6 {
        renew().await;
        world.wait(10).await;
    }
    // The node monitor of the other program writes this condition for a node without heartbeats.
    let unknown = json!({"status": {"conditions": [
        {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}]}});
    for node in ["silent", "renewing"] {
        world.sandbox.merge("nodes", None, node, Some("status"), unknown.clone()).await.unwrap();
        world.taint(node, json!([no_execute_taint(UNREACHABLE)])).await;
    }
    world.wait(1).await;
    assert!(world.is_terminating_or_deleted("silent").await);
    for _ in 0..60 {
        renew().await;
        world.wait(10).await;
    }
    assert!(!world.is_terminating_or_deleted("renewing").await);
    world.wait(120).await;
    assert!(world.is_terminating_or_deleted("renewing").await, "this node is silent now, too");
}
