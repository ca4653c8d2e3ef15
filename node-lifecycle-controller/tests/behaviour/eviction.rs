//! Taint eviction: the Pods that are deleted because of the taints of their node, and the times of the deletions.

use crate::world::*;
use node_lifecycle_controller::eviction::{TAINT_EVICTION_LOOP, TAINT_TOLERATION_COMPARISON_OPERATORS};

/// NODE-55, NODE-62.
#[tokio::test(start_paused = true)]
async fn an_eviction_takes_two_writes_and_is_not_repeated() {
    let world = world_with_pod("", json!([])).await;
    world.wait(5).await;
    assert_eq!(world.count("get", "pods"), 0, "a node without taints costs nothing");
    taint(&world, "n", "k").await;
    world.wait(1).await;
    assert!(has_left(&world, "p").await);
    assert_eq!((world.count("patch", "pods/status"), world.count("delete", "pods")), (1, 1));
    // A second taint changes nothing: the Pod is already terminating and has the condition `DisruptionTarget`.
    taint(&world, "n", "k j").await;
    world.wait(5).await;
    assert_eq!(world.count("delete", "pods"), 1);
}

/// Asserts that the Pod `p` leaves after so many seconds.
async fn assert_leaves_after(world: &World, seconds: u32) {
    world.wait(seconds - 2).await;
    assert!(!has_left(world, "p").await);
    world.wait(4).await;
    assert!(has_left(world, "p").await);
}

/// NODE-54.
#[tokio::test(start_paused = true)]
async fn a_restart_of_the_process_restarts_the_timer() {
    let mut world = world_with_pod("k", tolerating(Some(30))).await;
    world.wait(20).await;
    world.restart();
    assert_leaves_after(&world, 30).await;
}

/// NODE-51, NODE-53.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_recreated_without_taints_cancels_the_deletion() {
    let world = world_with_pod("k", tolerating(Some(30))).await;
    world.wait(10).await;
    world.delete("nodes", "n").await;
    world.wait(2).await;
    create_node(&world, "n", "").await;
    world.wait(6).await;
    assert_eq!(event_words(&world).await, ["Cancelling p"]);
    taint(&world, "n", "k").await;
    // The cancelled timer would have ended at second 30; the new timer ends at second 48.
    assert_leaves_after(&world, 30).await;
}

/// NODE-51, NODE-56.
#[tokio::test(start_paused = true)]
async fn a_taint_whose_removal_is_not_seen_in_time_evicts_no_pod() {
    let world = world_with_pod("k", tolerating(Some(30))).await;
    world.wait(28).await;
    world.hold("nodes");
    taint(&world, "n", "").await;
    world.wait(30).await;
    assert!(!has_left(&world, "p").await);
    assert_eq!(event_words(&world).await, ["Cancelling p"]);
    world.release("nodes");
    world.wait(30).await;
    assert!(!has_left(&world, "p").await);
    assert_eq!(event_words(&world).await.len(), 1);
}

/// NODE-51.
#[tokio::test(start_paused = true)]
async fn a_deletion_whose_answer_is_lost_is_not_reported_as_cancelled() {
    let world = world_with_pod("k", tolerating(Some(30))).await;
    world.fault(rule(Action::CutAfter, "delete", "").times(1));
    world.wait(120).await;
    assert!(has_left(&world, "p").await);
    assert_eq!((event_words(&world).await, world.count("delete", "pods")), (vec!["Marking p".to_owned()], 1));
}

/// NODE-63.
#[tokio::test(start_paused = true)]
async fn tolerations_that_compare_numbers_count_only_if_their_feature_gate_is_on() {
    let gate = TAINT_TOLERATION_COMPARISON_OPERATORS.name;
    for (is_on, leaves) in [(false, [true, true]), (true, [false, true])] {
        let world = pod_world(pod_cluster().gate(gate, is_on).server(|server| server.gate(gate, true))).await;
        create_node(&world, "n", "").await;
        for (pod, limit) in [("above", "10"), ("below", "3")] {
            let fewer = json!({"key": "k", "operator": "Lt", "value": limit, "effect": "NoExecute"});
            create_pod(&world, pod, "n", json!([fewer])).await;
        }
        set_taints(&world, "n", json!([{"key": "k", "value": "5", "effect": "NoExecute"}])).await;
        world.wait(5).await;
        assert_eq!([has_left(&world, "above").await, has_left(&world, "below").await], leaves, "gate: {is_on}");
    }
}

/// NODE-59.
#[tokio::test(start_paused = true)]
async fn pods_on_a_recovered_node_stay_until_its_taint_is_removed() {
    let world = pod_world(pod_cluster()).await;
    for (node, seconds) in [("back", 0), ("lost", 60), ("odd", 0)] {
        create_node(&world, node, "").await;
        create_pod(&world, node, node, tolerating(Some(seconds))).await;
    }
    world.patch_status("nodes", "lost", ready_condition("Unknown")).await;
    for node in ["back", "lost", "odd"] {
        taint(&world, node, UNREACHABLE).await;
    }
    world.wait(43).await;
    assert!(!has_left(&world, "back").await && !has_left(&world, "odd").await);
    assert!(explain(&world, "shop/back").contains("its node may be healthy"), "{}", explain(&world, "shop/back"));
    taint(&world, "back", "").await;
    // The node `lost` becomes ready shortly before the toleration of its Pod ends.
    world.wait(16).await;
    world.patch_status("nodes", "lost", ready_condition("True")).await;
    world.wait(5).await;
    taint(&world, "lost", "").await;
    world.wait(10).await;
    assert!(has_left(&world, "odd").await, "its taint stays, and no heartbeat has arrived for a grace period");
    world.wait(600).await;
    assert!(!has_left(&world, "back").await && !has_left(&world, "lost").await);
}

#[tokio::test(start_paused = true)]
async fn a_new_process_trusts_a_node_that_reports_not_ready() {
    let mut world = world_with_pod("", tolerating(Some(0))).await;
    world.crash();
    world.patch_status("nodes", "n", ready_condition("False")).await;
    taint(&world, "n", NOT_READY).await;
    world.start();
    world.wait(2).await;
    assert!(has_left(&world, "p").await);
}

/// NODE-61, NODE-89.
#[tokio::test(start_paused = true)]
async fn a_failed_deletion_is_retried_until_it_succeeds() {
    for (fault, verb) in [
        (Action::InternalError, "delete"),
        (Action::CutBefore, "delete"),
        (Action::CutAfter, "delete"),
        (Action::Conflict, "delete"),
        (Action::InternalError, "patch"),
        (Action::CutAfter, "patch"),
        (Action::Conflict, "patch"),
        (Action::InternalError, "get"),
    ] {
        let world = world_with_pod("", json!([])).await;
        world.fault(rule(fault.clone(), verb, "").times(12));
        taint(&world, "n", "k").await;
        world.wait(120).await;
        assert!(has_left(&world, "p").await, "{fault:?} {verb}");
        let pod = world.get("pods", "p").await;
        assert_eq!(condition(&pod, "DisruptionTarget")["reason"], "DeletionByTaintManager", "{fault:?} {verb}");
    }
}

/// NODE-56, NODE-86.
#[tokio::test(start_paused = true)]
async fn a_node_without_taints_at_the_server_loses_no_pod() {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", "").await;
    world.wait(5).await;
    // The controller sees the Pod and the taint, but not the removal of the taint.
    taint(&world, "n", "k").await;
    world.wait(1).await;
    world.hold("nodes");
    taint(&world, "n", "").await;
    create_pod(&world, "p", "n", json!([])).await;
    world.wait(60).await;
    assert!(!has_left(&world, "p").await);
    assert_eq!(world.count("get", "nodes"), 1, "the node was read once");
    world.release("nodes");
    world.wait(600).await;
    assert!(!has_left(&world, "p").await);
    assert_eq!(event_words(&world).await, [""; 0]);
}

/// NODE-56, NODE-86.
#[tokio::test(start_paused = true)]
async fn a_toleration_that_is_not_seen_in_time_counts() {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", "").await;
    create_pod(&world, "ever", "n", json!([])).await;
    create_pod(&world, "while", "n", json!([])).await;
    world.wait(5).await;
    world.hold("pods");
    tolerate(&world, "ever", tolerating(None)).await;
    tolerate(&world, "while", tolerating(Some(30))).await;
    taint(&world, "n", "k").await;
    world.wait(25).await;
    assert!(!has_left(&world, "ever").await && !has_left(&world, "while").await);
    world.wait(10).await;
    assert!(has_left(&world, "while").await, "the Pod stayed until its timer was due");
    world.release("pods");
    world.wait(600).await;
    assert!(!has_left(&world, "ever").await);
    assert_eq!(event_words(&world).await, ["Marking while"]);
}

/// NODE-57, NODE-86.
#[tokio::test(start_paused = true)]
async fn a_toleration_that_is_added_during_the_deletion_prevents_it() {
    for (verb, resource) in [("patch", "pods/status"), ("delete", "pods")] {
        let world = world_with_pod("", json!([])).await;
        world.fault(rule(Action::Latency(Duration::from_secs(10)), verb, resource).times(1));
        taint(&world, "n", "k").await;
        world.wait(5).await;
        tolerate(&world, "p", tolerating(None)).await;
        world.wait(600).await;
        assert!(!has_left(&world, "p").await, "{verb} {resource}");
        assert!(world.count(verb, resource) >= 1);
    }
}

/// NODE-62.
#[tokio::test(start_paused = true)]
async fn a_pod_to_which_upstream_added_the_condition_is_deleted_without_a_write() {
    let world = world_with_pod("", json!([])).await;
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": "2026-11-21T08:59:00Z"});
    world.patch_pod_status("p", json!({"conditions": [condition]})).await;
    taint(&world, "n", "k").await;
    world.wait(5).await;
    assert!(has_left(&world, "p").await);
    assert_eq!((world.count("patch", "pods/status"), world.count("delete", "pods")), (0, 1));
}

/// Starts the loops that delete Pods, and creates the node `n` with 30 Pods with these tolerations.
async fn world_with_many_pods(tolerations: Value) -> (World, Vec<String>) {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", "").await;
    let pods: Vec<String> = (0..30).map(|number| format!("p{number:02}")).collect();
    for pod in &pods {
        create_pod(&world, pod, "n", tolerations.clone()).await;
    }
    (world, pods)
}

/// Pods that must leave a node at the same time share one read of the node.
/// NODE-58.
#[tokio::test(start_paused = true)]
async fn a_node_is_read_once_for_all_pods_that_leave_it() {
    let (world, pods) = world_with_many_pods(tolerating(Some(60))).await;
    world.patch_status("nodes", "n", ready_condition("Unknown")).await;
    let reads = || ["nodes", LEASES].map(|resource| world.count("get", resource));
    for (key, expected) in [("k", [1, 0]), (UNREACHABLE, [1, 1])] {
        taint(&world, "n", key).await;
        let before = reads();
        world.wait(30).await;
        assert_eq!(reads(), before, "no Pod leaves yet");
        world.wait(40).await;
        let after = reads();
        assert_eq!([after[0] - before[0], after[1] - before[1]], expected, "{key}");
        for pod in &pods {
            assert!(has_left(&world, pod).await, "{key}");
            delete_now(&world, pod).await;
            create_pod(&world, pod, "n", tolerating(Some(60))).await;
        }
        taint(&world, "n", "").await;
        world.wait(5).await;
    }
}

/// A Pod is deleted only if the state of its node was read within the last second, even if deletions are slow.
/// NODE-56, NODE-58.
#[tokio::test(start_paused = true)]
async fn a_taint_that_is_removed_while_pods_leave_keeps_the_others() {
    let (world, pods) = world_with_many_pods(json!([])).await;
    world.fault(rule(Action::Latency(Duration::from_millis(300)), "", "pods"));
    taint(&world, "n", "k").await;
    world.wait(0.2).await;
    // The loops do not see the removal of the taint.
    world.hold("nodes");
    taint(&world, "n", "").await;
    world.wait(60).await;
    let terminating = pods.len() - world.active_pods().await.len();
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
        create_node(&world, node, "").await;
        create_pod(&world, node, node, tolerating(Some(0))).await;
    }
    let renew_for = async |minutes: u32| {
        for _ in 0..6 * minutes {
            renew(&world.sandbox, "renewing", world.clock.now()).await;
            world.wait(10).await;
        }
    };
    renew_for(1).await;
    for node in ["silent", "renewing"] {
        // The node monitor of the other program writes this condition for a node without heartbeats.
        let unknown = json!({"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status."}]});
        world.patch_status("nodes", node, unknown).await;
        taint(&world, node, UNREACHABLE).await;
    }
    world.wait(1).await;
    assert!(has_left(&world, "silent").await);
    renew_for(10).await;
    assert!(!has_left(&world, "renewing").await);
    world.wait(120).await;
    assert!(has_left(&world, "renewing").await, "this node is silent now, too");
}
