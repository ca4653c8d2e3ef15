//! Taint eviction: the Pods that are deleted because of the taints of their node, and the times of the deletions.

use crate::world::*;
use node_lifecycle_controller::eviction::TAINT_EVICTION_LOOP;

/// Admission gives every Pod a toleration of five minutes for this taint.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// NODE-48, NODE-55, NODE-62.
#[tokio::test(start_paused = true)]
async fn a_pod_without_tolerations_is_deleted_at_once_with_the_reason_in_its_condition() {
    let world = world_with_pod(json!([]), json!([])).await;
    world.wait(5).await;
    assert!(!is_terminating_or_deleted(&world, "p").await);
    assert_eq!(world.count("get", "pods"), 0, "a node without taints costs nothing");
    taint(&world, "n", no_execute("k")).await;
    world.wait(1).await;
    let pod = world.find("pods", "p").await.unwrap();
    assert!(!pod["metadata"]["deletionTimestamp"].is_null());
    let target = condition(&pod, "DisruptionTarget");
    assert_eq!(
        pick(&target, "status reason message"),
        json!(["True", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"])
    );
    assert_eq!(target["observedGeneration"], 1);
    assert_eq!(event_messages(&world).await, [format!("Marking for deletion Pod {NAMESPACE}/p")]);
    assert_eq!((world.count("patch", "pods/status"), world.count("delete", "pods")), (1, 1));
    // A second taint changes nothing: the Pod is already terminating and has the condition `DisruptionTarget`.
    taint(&world, "n", json!([no_execute_taint("k"), no_execute_taint("j")])).await;
    world.wait(5).await;
    assert_eq!(world.count("delete", "pods"), 1);
}

/// NODE-48, NODE-49.
#[tokio::test(start_paused = true)]
async fn a_pod_stays_until_its_toleration_ends() {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", json!([])).await;
    create_pod(&world, "ever", "n", tolerating(None)).await;
    create_pod(&world, "while", "n", json!([])).await;
    world.patch_status("nodes", "n", ready_condition("Unknown")).await;
    taint(&world, "n", no_execute(UNREACHABLE)).await;
    world.wait(298).await;
    assert!(!is_terminating_or_deleted(&world, "while").await);
    assert!(explain(&world, "shop/while").contains("deleted when its timer is due"));
    world.wait(4).await;
    assert!(is_terminating_or_deleted(&world, "while").await);
    world.wait(3600).await;
    assert!(!is_terminating_or_deleted(&world, "ever").await);
    assert_eq!(event_messages(&world).await, [format!("Marking for deletion Pod {NAMESPACE}/while")]);
}

/// NODE-63.
#[tokio::test(start_paused = true)]
async fn tolerations_that_compare_numbers_count_only_if_their_feature_gate_is_on() {
    for (is_on, leaves) in [(false, [true, true]), (true, [false, true])] {
        let world = pod_world(cluster_with_comparison_gate(is_on)).await;
        create_node(&world, "n", json!([])).await;
        for (pod, limit) in [("above", "10"), ("below", "3")] {
            let fewer = json!({"key": "k", "operator": "Lt", "value": limit, "effect": "NoExecute"});
            create_pod(&world, pod, "n", json!([fewer])).await;
        }
        taint(&world, "n", json!([{"key": "k", "value": "5", "effect": "NoExecute"}])).await;
        world.wait(5).await;
        assert_eq!(
            [is_terminating_or_deleted(&world, "above").await, is_terminating_or_deleted(&world, "below").await],
            leaves,
            "gate: {is_on}"
        );
    }
}

/// NODE-59.
#[tokio::test(start_paused = true)]
async fn pods_on_a_recovered_node_stay_until_its_taint_is_removed() {
    let world = pod_world(pod_cluster()).await;
    for (node, seconds) in [("back", 0), ("lost", 60), ("odd", 0)] {
        create_node(&world, node, json!([])).await;
        create_pod(&world, node, node, tolerating(Some(seconds))).await;
    }
    world.patch_status("nodes", "lost", ready_condition("Unknown")).await;
    for node in ["back", "lost", "odd"] {
        taint(&world, node, no_execute(UNREACHABLE)).await;
    }
    world.wait(43).await;
    assert!(!is_terminating_or_deleted(&world, "back").await && !is_terminating_or_deleted(&world, "odd").await);
    assert!(explain(&world, "shop/back").contains("its node may be healthy"), "{}", explain(&world, "shop/back"));
    taint(&world, "back", json!([])).await;
    // The node `lost` becomes ready shortly before the toleration of its Pod ends.
    world.wait(16).await;
    world.patch_status("nodes", "lost", ready_condition("True")).await;
    world.wait(5).await;
    taint(&world, "lost", json!([])).await;
    world.wait(10).await;
    assert!(
        is_terminating_or_deleted(&world, "odd").await,
        "its taint stays, and no heartbeat has arrived for a grace period"
    );
    world.wait(600).await;
    assert!(!is_terminating_or_deleted(&world, "back").await && !is_terminating_or_deleted(&world, "lost").await);
}

/// NODE-51.
#[tokio::test(start_paused = true)]
async fn the_removal_of_a_taint_in_time_cancels_the_deletion() {
    let world = world_with_pod(json!([]), json!([])).await;
    world.patch_status("nodes", "n", ready_condition("Unknown")).await;
    taint(&world, "n", no_execute(UNREACHABLE)).await;
    world.wait(200).await;
    taint(&world, "n", json!([])).await;
    world.wait(600).await;
    assert!(!is_terminating_or_deleted(&world, "p").await);
    assert_eq!(event_messages(&world).await, [format!("Cancelling deletion of Pod {NAMESPACE}/p")]);
    // After the next taint, the toleration of five minutes starts anew.
    taint(&world, "n", no_execute(UNREACHABLE)).await;
    world.wait(200).await;
    assert!(!is_terminating_or_deleted(&world, "p").await);
    world.wait(101).await;
    assert!(is_terminating_or_deleted(&world, "p").await);
}

/// NODE-50.
#[tokio::test(start_paused = true)]
async fn a_taint_that_replaces_the_other_keeps_the_timer() {
    let world = world_with_pod(json!([]), json!([])).await;
    let not_ready = "node.kubernetes.io/not-ready";
    world.patch_status("nodes", "n", ready_condition("Unknown")).await;
    taint(&world, "n", no_execute(not_ready)).await;
    world.wait(100).await;
    taint(&world, "n", json!([no_execute_taint(not_ready), no_execute_taint(UNREACHABLE)])).await;
    taint(&world, "n", no_execute(UNREACHABLE)).await;
    world.wait(199).await;
    assert!(!is_terminating_or_deleted(&world, "p").await);
    world.wait(3).await;
    assert!(is_terminating_or_deleted(&world, "p").await);
    assert_eq!(event_messages(&world).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_process_trusts_a_node_that_reports_not_ready() {
    let mut world = pod_world(pod_cluster()).await;
    world.crash();
    create_node(&world, "n", json!([])).await;
    create_pod(&world, "p", "n", tolerating(Some(0))).await;
    world.patch_status("nodes", "n", ready_condition("False")).await;
    taint(&world, "n", json!([no_execute_taint("node.kubernetes.io/not-ready")])).await;
    world.start();
    world.wait(2).await;
    assert!(is_terminating_or_deleted(&world, "p").await);
}

/// NODE-53.
#[tokio::test(start_paused = true)]
async fn the_deletion_of_a_node_stops_no_timer() {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", json!([])).await;
    create_pod(&world, "p", "n", tolerating(Some(30))).await;
    taint(&world, "n", no_execute("k")).await;
    world.wait(10).await;
    world.delete("nodes", "n").await;
    world.wait(15).await;
    assert!(!is_terminating_or_deleted(&world, "p").await);
    world.wait(7).await;
    assert!(is_terminating_or_deleted(&world, "p").await);
}

/// NODE-52.
#[tokio::test(start_paused = true)]
async fn a_timer_belongs_to_one_pod_and_not_to_its_name() {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", no_execute("k")).await;
    create_node(&world, "other", json!([])).await;
    create_pod(&world, "p", "n", tolerating(Some(30))).await;
    world.wait(10).await;
    delete_now(&world, "p").await;
    create_pod(&world, "p", "other", json!([])).await;
    world.wait(600).await;
    assert!(!is_terminating_or_deleted(&world, "p").await, "another Pod with this name had to leave");
}

/// NODE-54.
#[tokio::test(start_paused = true)]
async fn a_restart_of_the_process_restarts_the_timer() {
    let mut world = pod_world(pod_cluster()).await;
    create_node(&world, "n", no_execute("k")).await;
    create_pod(&world, "p", "n", tolerating(Some(30))).await;
    world.wait(20).await;
    world.restart();
    world.wait(25).await;
    assert!(!is_terminating_or_deleted(&world, "p").await);
    world.wait(7).await;
    assert!(is_terminating_or_deleted(&world, "p").await);
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
        let world = world_with_pod(json!([]), json!([])).await;
        world.fault(rule(fault.clone(), verb, "").times(12));
        taint(&world, "n", no_execute("k")).await;
        world.wait(120).await;
        assert!(is_terminating_or_deleted(&world, "p").await, "{fault:?} {verb}");
        let pod = world.find("pods", "p").await.unwrap();
        assert_eq!(condition(&pod, "DisruptionTarget")["reason"], "DeletionByTaintManager");
    }
}

/// NODE-51, NODE-53.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_recreated_without_taints_cancels_the_deletion() {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", no_execute("k")).await;
    create_pod(&world, "p", "n", tolerating(Some(30))).await;
    world.wait(10).await;
    world.delete("nodes", "n").await;
    world.wait(2).await;
    create_node(&world, "n", json!([])).await;
    world.wait(6).await;
    assert_eq!(event_messages(&world).await, [format!("Cancelling deletion of Pod {NAMESPACE}/p")]);
    taint(&world, "n", no_execute("k")).await;
    // The cancelled timer would have ended at second 30; the new timer ends at second 48.
    world.wait(25).await;
    assert!(!is_terminating_or_deleted(&world, "p").await);
    world.wait(7).await;
    assert!(is_terminating_or_deleted(&world, "p").await);
}

/// NODE-56, NODE-86.
#[tokio::test(start_paused = true)]
async fn a_node_without_taints_at_the_server_loses_no_pod() {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", json!([])).await;
    world.wait(5).await;
    // The controller sees the Pod and the taint, but not the removal of the taint.
    taint(&world, "n", no_execute("k")).await;
    world.wait(1).await;
    world.hold("nodes");
    taint(&world, "n", json!([])).await;
    create_pod(&world, "p", "n", json!([])).await;
    world.wait(60).await;
    assert!(!is_terminating_or_deleted(&world, "p").await);
    assert_eq!(world.count("get", "nodes"), 1, "the node was read once");
    world.release("nodes");
    world.wait(600).await;
    assert!(!is_terminating_or_deleted(&world, "p").await);
    assert_eq!(event_messages(&world).await, Vec::<String>::new());
}

/// NODE-51, NODE-56.
#[tokio::test(start_paused = true)]
async fn a_taint_whose_removal_is_not_seen_in_time_evicts_no_pod() {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", no_execute("k")).await;
    create_pod(&world, "p", "n", tolerating(Some(30))).await;
    world.wait(28).await;
    world.hold("nodes");
    taint(&world, "n", json!([])).await;
    world.wait(30).await;
    assert!(!is_terminating_or_deleted(&world, "p").await);
    assert_eq!(event_messages(&world).await, [format!("Cancelling deletion of Pod {NAMESPACE}/p")]);
    world.release("nodes");
    world.wait(30).await;
    assert!(!is_terminating_or_deleted(&world, "p").await);
    assert_eq!(event_messages(&world).await.len(), 1);
}

/// NODE-56, NODE-86.
#[tokio::test(start_paused = true)]
async fn a_toleration_that_is_not_seen_in_time_counts() {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", json!([])).await;
    create_pod(&world, "ever", "n", json!([])).await;
    create_pod(&world, "while", "n", json!([])).await;
    world.wait(5).await;
    world.hold("pods");
    tolerate(&world, "ever", tolerate_all(None)).await;
    tolerate(&world, "while", tolerate_all(Some(30))).await;
    taint(&world, "n", no_execute("k")).await;
    world.wait(25).await;
    assert!(!is_terminating_or_deleted(&world, "ever").await && !is_terminating_or_deleted(&world, "while").await);
    world.wait(10).await;
    assert!(is_terminating_or_deleted(&world, "while").await, "the Pod stayed until its timer was due");
    world.release("pods");
    world.wait(600).await;
    assert!(!is_terminating_or_deleted(&world, "ever").await);
    assert_eq!(event_messages(&world).await, [format!("Marking for deletion Pod {NAMESPACE}/while")]);
}

/// NODE-57, NODE-86.
#[tokio::test(start_paused = true)]
async fn a_toleration_that_is_added_during_the_deletion_prevents_it() {
    for (verb, resource) in [("patch", "pods/status"), ("delete", "pods")] {
        let world = world_with_pod(json!([]), json!([])).await;
        let slow = rule(Action::Latency(Duration::from_secs(10)), verb, resource);
        world.fault(slow.times(1));
        taint(&world, "n", no_execute("k")).await;
        world.wait(5).await;
        tolerate(&world, "p", tolerate_all(None)).await;
        world.wait(600).await;
        assert!(!is_terminating_or_deleted(&world, "p").await, "{verb} {resource}");
        assert!(world.count(verb, resource) >= 1);
    }
}

/// NODE-61.
#[tokio::test(start_paused = true)]
async fn a_pod_that_keeps_changing_is_evicted_nevertheless() {
    let world = world_with_pod(json!([]), json!([])).await;
    world.fault(rule(Action::Conflict, "", "pods/status").times(7));
    world.fault(rule(Action::Conflict, "delete", "pods").times(7));
    taint(&world, "n", no_execute("k")).await;
    world.wait(120).await;
    assert!(is_terminating_or_deleted(&world, "p").await);
    assert_eq!(
        condition(&world.find("pods", "p").await.unwrap(), "DisruptionTarget")["reason"],
        "DeletionByTaintManager"
    );
}

/// NODE-51.
#[tokio::test(start_paused = true)]
async fn a_deletion_whose_answer_is_lost_is_not_reported_as_cancelled() {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", no_execute("k")).await;
    create_pod(&world, "p", "n", tolerating(Some(30))).await;
    world.fault(rule(Action::CutAfter, "delete", "").times(1));
    world.wait(120).await;
    assert!(is_terminating_or_deleted(&world, "p").await);
    assert_eq!(event_messages(&world).await, [format!("Marking for deletion Pod {NAMESPACE}/p")]);
    assert_eq!(world.count("delete", "pods"), 1);
}

/// NODE-62.
#[tokio::test(start_paused = true)]
async fn a_pod_to_which_upstream_added_the_condition_is_deleted_without_a_write() {
    let world = world_with_pod(json!([]), json!([])).await;
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": "2026-11-21T08:59:00Z"});
    world.patch_pod_status("p", json!({"conditions": [condition]})).await;
    taint(&world, "n", no_execute("k")).await;
    world.wait(5).await;
    assert!(is_terminating_or_deleted(&world, "p").await);
    assert_eq!((world.count("patch", "pods/status"), world.count("delete", "pods")), (0, 1));
}

/// NODE-48.
#[tokio::test(start_paused = true)]
async fn a_toleration_of_zero_or_negative_seconds_does_not_count() {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", no_execute("k")).await;
    create_pod(&world, "none", "n", tolerating(Some(0))).await;
    create_pod(&world, "negative", "n", tolerating(Some(-7))).await;
    world.wait(1).await;
    assert!(is_terminating_or_deleted(&world, "none").await && is_terminating_or_deleted(&world, "negative").await);
    let marked = |name: &str| format!("Marking for deletion Pod {NAMESPACE}/{name}");
    assert_eq!(event_messages(&world).await, [marked("negative"), marked("none")], "there was no timer to cancel");
}

/// Pods that must leave a node at the same time share one read of the node.
/// NODE-58.
#[tokio::test(start_paused = true)]
async fn a_node_is_read_once_for_all_pods_that_leave_it() {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", json!([])).await;
    for number in 0..30 {
        create_pod(&world, &format!("p{number}"), "n", tolerating(Some(60))).await;
    }
    world.patch_status("nodes", "n", ready_condition("Unknown")).await;
    for (key, reads) in [("k", [1, 0]), (UNREACHABLE, [1, 1])] {
        taint(&world, "n", no_execute(key)).await;
        let before = ["nodes", "leases.coordination.k8s.io"].map(|resource| world.count("get", resource));
        world.wait(30).await;
        let read = || ["nodes", "leases.coordination.k8s.io"].map(|resource| world.count("get", resource));
        assert_eq!(read(), before, "no Pod leaves yet");
        world.wait(40).await;
        let after = read();
        assert_eq!([after[0] - before[0], after[1] - before[1]], reads, "{key}");
        for number in 0..30 {
            assert!(is_terminating_or_deleted(&world, &format!("p{number}")).await, "{key}");
            delete_now(&world, &format!("p{number}")).await;
            create_pod(&world, &format!("p{number}"), "n", tolerating(Some(60))).await;
        }
        taint(&world, "n", json!([])).await;
        world.wait(5).await;
    }
}

/// A Pod is deleted only if the state of its node was read within the last second, even if deletions are slow.
/// NODE-56, NODE-58.
#[tokio::test(start_paused = true)]
async fn a_taint_that_is_removed_while_pods_leave_keeps_the_others() {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", json!([])).await;
    for number in 0..30 {
        create_pod(&world, &format!("p{number:02}"), "n", json!([])).await;
    }
    let slow = rule(Action::Latency(Duration::from_millis(300)), "", "pods");
    world.fault(slow);
    taint(&world, "n", no_execute("k")).await;
    world.wait(0.2).await;
    // The loops do not see the removal of the taint.
    world.hold("nodes");
    taint(&world, "n", json!([])).await;
    world.wait(60).await;
    let mut terminating = 0;
    for number in 0..30 {
        terminating += usize::from(is_terminating_or_deleted(&world, &format!("p{number:02}")).await);
    }
    // Eight Pods are processed at a time, each with two slow requests.
    assert!((8..=16).contains(&terminating), "{terminating}");
    assert!(world.count("get", "nodes") >= 2);
}

/// If another program runs the node monitor, the taint eviction watches Leases itself.
/// NODE-59, NODE-87.
#[tokio::test(start_paused = true)]
async fn a_silent_node_loses_its_pods_at_once_and_one_that_renews_its_lease_keeps_them() {
    let world = pod_world(pod_cluster().loops(&[TAINT_EVICTION_LOOP])).await;
    for node in ["silent", "renewing"] {
        create_node(&world, node, json!([])).await;
        create_pod(&world, node, node, tolerating(Some(0))).await;
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
    let unknown = json!({"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}]});
    for node in ["silent", "renewing"] {
        world.patch_status("nodes", node, unknown.clone()).await;
        taint(&world, node, no_execute(UNREACHABLE)).await;
    }
    world.wait(1).await;
    assert!(is_terminating_or_deleted(&world, "silent").await);
    for _ in 0..60 {
        renew().await;
        world.wait(10).await;
    }
    assert!(!is_terminating_or_deleted(&world, "renewing").await);
    world.wait(120).await;
    assert!(is_terminating_or_deleted(&world, "renewing").await, "this node is silent now, too");
}
