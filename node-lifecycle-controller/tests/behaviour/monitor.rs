//! Tests with single nodes that send no heartbeats, report that they are not ready, recover or are replaced.

use crate::world::*;

/// Starts six nodes with all loops, creates the Pod `p` on `node-1`, stops the heartbeats of the node, and waits until it is tainted.
async fn world_with_pod_on_lost_node() -> World {
    let world = live_world(live_cluster(6), 0).await;
    create_pod(&world, "p", "node-1", json!(null)).await;
    silence(&world, [1]);
    until_tainted(&world, "node-1").await;
    world
}

/// Pods are not evicted while their node renews its Lease, and are evicted when it stops. The Lease on the server decides, not
/// the status of the node.
/// NODE-59, NODE-87.
#[tokio::test(start_paused = true)]
async fn a_taint_that_cannot_be_removed_evicts_no_pod_of_a_healthy_node() {
    let world = world_with_pod_on_lost_node().await;
    world.wait(290).await;
    world.nodes().restore("node-1").unwrap();
    world.fault(rule(Action::InternalError, "patch", "nodes"));
    world.wait(1800).await;
    assert_eq!(taints(&world.get("nodes", "node-1").await, "NoExecute"), [UNREACHABLE], "the taint stays");
    assert!(!has_left(&world, "p").await, "its node is alive");
    let read = world.count("get", LEASES);
    world.wait(600).await;
    assert!(world.count("get", LEASES) - read <= 40, "one read every 15 seconds");
    // The conditions cannot be written either, so only the missing heartbeats show that the node has failed.
    world.fault(rule(Action::InternalError, "patch", "nodes/status"));
    silence(&world, [1]);
    world.wait(40).await;
    assert!(!has_left(&world, "p").await, "the grace period has not passed");
    world.wait(40).await;
    assert!(has_left(&world, "p").await);
}

/// NODE-27.
#[tokio::test(start_paused = true)]
async fn taints_that_others_write_at_the_same_time_stay() {
    let world = live_world(live_cluster(6), 0).await;
    silence(&world, [1]);
    // Because of the latency, another client can change the node between the read and the write of each change.
    world.fault(rule(Action::Latency(Duration::from_millis(300)), "patch", "nodes"));
    until_unknown(&world, "node-1", 90).await;
    let mut keys = vec![UNREACHABLE.to_owned()];
    for n in 0..4 {
        let mut all = world.get("nodes", "node-1").await["spec"]["taints"].as_array().cloned().unwrap_or_default();
        keys.insert(n, format!("example.com/{n}"));
        all.push(json!({"key": keys[n], "effect": "NoExecute"}));
        set_taints(&world, "node-1", json!(all)).await;
        world.wait(0.25).await;
    }
    world.wait(60).await;
    let mut found = taints(&world.get("nodes", "node-1").await, "NoExecute");
    found.sort();
    assert_eq!(found, keys);
}

/// NODE-47.
#[tokio::test(start_paused = true)]
async fn a_pod_created_on_a_lost_node_has_the_condition_of_its_kubelet() {
    let world = world_with_pod_on_lost_node().await;
    create_pod(&world, "late", "node-1", json!(null)).await;
    world.wait(1).await;
    assert_eq!(status(&world.get("pods", "late").await, "Ready"), "none", "the Pod never reported that it was ready");
    world.patch_pod_status("late", ready_condition("True")).await;
    world.wait(1).await;
    assert_eq!(status(&world.get("pods", "late").await, "Ready"), "True", "the condition of the kubelet stays");
}

/// NODE-2.
#[tokio::test(start_paused = true)]
async fn nodes_that_renew_their_leases_cost_no_request() {
    let world = live_world(live_cluster(100), 60).await;
    let before = request_count(&world);
    world.wait(3600).await;
    assert_eq!((request_count(&world), unknown_and_tainted(&world).await), (before, (0, 0)));
}

/// A node that renews its Lease is alive even if it does not report its status. Its condition `Unknown` and its taint, which
/// this program wrote, evict no Pod.
/// NODE-11, NODE-59, NODE-87.
#[tokio::test(start_paused = true)]
async fn a_node_that_renews_its_lease_and_reports_nothing_keeps_its_pods() {
    let world = world_with_pod_on_lost_node().await;
    world.wait(200).await;
    world.nodes().renew_only("node-1").unwrap();
    // A new Pod on the node is not evicted either.
    world.wait(60).await;
    create_pod(&world, "new", "node-1", tolerating(Some(0))).await;
    world.wait(900).await;
    let node = world.get("nodes", "node-1").await;
    assert_eq!((status(&node, "Ready"), taints(&node, "NoExecute")), ("Unknown", vec![UNREACHABLE.to_owned()]));
    assert!(!has_left(&world, "p").await && !has_left(&world, "new").await, "its node is alive");
    let reads = || ["nodes", LEASES, "pods"].map(|resource| world.count("get", resource)).iter().sum::<u64>();
    let before = reads();
    world.wait(600).await;
    let more = reads() - before;
    assert!(more <= 2 * 2 * 41, "{more} reads: a node and its Lease, once for both Pods or twice, every 15 seconds");
    silence(&world, [1]);
    world.wait(40).await;
    assert!(!has_left(&world, "p").await, "the grace period has not passed");
    world.wait(30).await;
    assert!(has_left(&world, "p").await && has_left(&world, "new").await);
}

/// The write of the conditions takes effect but its answer is lost: the Event and the taint follow as usual.
/// NODE-14.
#[tokio::test(start_paused = true)]
async fn an_unanswered_write_of_conditions_delays_neither_the_event_nor_the_taint() {
    let world = live_world(live_cluster(6), 10).await;
    world.fault(rule(Action::CutAfter, "patch", "nodes/status").times(1));
    silence(&world, [1]);
    let tainted = until_tainted(&world, "node-1").await;
    assert!(tainted <= 62, "{tainted}");
    world.wait(6).await;
    let events = world.events_in("default").await;
    let not_ready: Vec<_> = events.iter().filter(|event| event.contains("NodeNotReady")).collect();
    assert_eq!(not_ready, ["Normal NodeNotReady Node node-1 status is now: NodeNotReady"]);
}

/// The documentation of the crate names each queue of upstream for which this program has no metrics.
/// NODE-75.
#[tokio::test(start_paused = true)]
async fn upstreams_queues_are_served_or_documented() {
    let world = live_world(live_cluster(1), 0).await;
    let (metrics, documentation) = (world.metrics(), include_str!("../../src/lib.rs"));
    let is_served = |queue: &&str| metrics.contains(&format!("workqueue_adds_total{{name=\"{queue}\"}}"));
    assert!(["node_lifecycle_controller", "node_lifecycle_controller_pods", "noexec_taint_pod"].iter().all(is_served));
    let own = ["pod_garbage_collector", "node_lifecycle_controller_rounds"];
    for queue in ["noexec_taint_node", "orphaned_pods_nodes"].iter().filter(|queue| !is_served(queue)).chain(&own) {
        assert!(documentation.contains(&format!("`{queue}`")), "{queue}");
    }
}
