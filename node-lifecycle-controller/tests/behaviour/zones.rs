//! The rate at which nodes are tainted when many fail, and the limits of tainting.

use crate::world::*;

/// Returns the seconds from `since` until each tainted node got its first `NoExecute` taint, sorted.
fn taint_times(cluster: &World, since: Timestamp) -> Vec<i64> {
    let first = |node: String| {
        let writes = node_writes(cluster, &node, since);
        writes.into_iter().find(|(_, node)| !taints(node, "NoExecute").is_empty()).map(|(at, _)| at)
    };
    let mut times: Vec<i64> = cluster.nodes().names().into_iter().filter_map(first).collect();
    times.sort_unstable();
    times
}

fn silence(cluster: &World, nodes: std::ops::Range<u32>) {
    for node in nodes {
        cluster.nodes().silence(&format!("node-{node}")).unwrap();
    }
}

/// Type, reason and message of the Event that is recorded when four of ten nodes are tainted or wait for a taint.
const ALARM: &str = "Warning ManyNodesTainted 4 of 10 nodes have a NoExecute taint or wait for it";

/// Returns the Events that were recorded because the share of tainted nodes is large.
async fn alarms(cluster: &World) -> Vec<String> {
    cluster.events_in("default").await.into_iter().filter(|event| event.contains("ManyNodesTainted")).collect()
}

/// NODE-33.
#[tokio::test(start_paused = true)]
async fn nodes_of_a_zone_are_tainted_one_after_the_other() {
    let cluster = world_of_one_zone(10, OperatorSettings::new()).await;
    cluster.wait(20).await;
    let since = cluster.clock.now();
    silence(&cluster, 0..4);
    cluster.wait(120).await;
    let times = taint_times(&cluster, since);
    assert_eq!(times.len(), 4, "{times:?}");
    assert!(times.windows(2).all(|pair| (9..=11).contains(&(pair[1] - pair[0]))), "{times:?}");
}

/// NODE-35.
#[tokio::test(start_paused = true)]
async fn zones_are_tainted_independently_of_each_other() {
    let cluster = live_world(live_cluster(12)).await;
    cluster.wait(20).await;
    let since = cluster.clock.now();
    silence(&cluster, 0..3);
    cluster.wait(70).await;
    let times = taint_times(&cluster, since);
    assert_eq!(times.len(), 3);
    assert!(times[2] - times[0] <= 6, "{times:?}");
}

/// NODE-33.
#[tokio::test(start_paused = true)]
async fn a_small_zone_that_is_partially_disrupted_is_left_alone() {
    let cluster = world_of_one_zone(10, OperatorSettings::new()).await;
    cluster.wait(20).await;
    silence(&cluster, 0..6);
    cluster.wait(600).await;
    assert_eq!((unknown_count(&cluster).await, tainted_nodes(&cluster).await.len()), (6, 0));
    // One node recovers: 5 of 10 nodes are not ready, which is below the threshold of 55 %.
    cluster.nodes().restore("node-0").unwrap();
    cluster.wait(120).await;
    assert_eq!(tainted_nodes(&cluster).await.len(), 5);
}

/// NODE-42, NODE-84.
#[tokio::test(start_paused = true)]
async fn a_failed_write_does_not_make_a_zone_of_silent_nodes_seem_healthy() {
    let cluster = world_of_one_zone(10, OperatorSettings::new()).await;
    cluster.wait(20).await;
    let refused = rule(Action::InternalError, "patch", "nodes/status");
    cluster.fault(refused.times(1));
    silence(&cluster, 0..6);
    cluster.wait(200).await;
    assert_eq!((unknown_count(&cluster).await, tainted_nodes(&cluster).await.len()), (6, 0));
}

/// NODE-33.
#[tokio::test(start_paused = true)]
async fn a_large_zone_that_is_partially_disrupted_is_tainted_slowly() {
    let cluster = world_of_one_zone(12, flags(&[("large-cluster-size-threshold", TunableValue::Integer(10))])).await;
    cluster.wait(20).await;
    let since = cluster.clock.now();
    silence(&cluster, 0..8);
    cluster.wait(400).await;
    let times = taint_times(&cluster, since);
    assert!((3..=4).contains(&times.len()), "{times:?}");
    assert!(times.windows(2).skip(1).all(|pair| (99..=101).contains(&(pair[1] - pair[0]))), "{times:?}");
}

/// NODE-37, NODE-38, NODE-39.
#[tokio::test(start_paused = true)]
async fn when_every_node_is_silent_no_node_is_tainted_and_taints_are_removed() {
    let cluster = live_world(live_cluster(9)).await;
    cluster.wait(20).await;
    silence(&cluster, 0..1);
    until(&cluster, "node-0", 90, |node| !taints(node, "NoExecute").is_empty()).await;
    silence(&cluster, 1..9);
    cluster.wait(90).await;
    assert_eq!((unknown_count(&cluster).await, tainted_nodes(&cluster).await.len()), (9, 0));
    cluster.wait(600).await;
    assert_eq!(tainted_nodes(&cluster).await.len(), 0, "no node is tainted during a total disruption");
    // One node recovers: all other nodes get a whole grace period before they are tainted, at the rate of their zone.
    let since = cluster.clock.now();
    cluster.nodes().restore("node-4").unwrap();
    cluster.wait(400).await;
    let times = taint_times(&cluster, since);
    assert!(times.len() == 8 && times[0] >= 50, "{times:?}");
}

/// NODE-35, NODE-74.
#[tokio::test(start_paused = true)]
async fn a_lost_zone_is_tainted_at_the_usual_rate_and_others_are_not() {
    let cluster = live_world(live_cluster(9)).await;
    cluster.wait(20).await;
    for node in [0, 3, 6] {
        silence(&cluster, node..node + 1);
    }
    cluster.wait(120).await;
    assert_eq!(tainted_nodes(&cluster).await, ["node-0", "node-3", "node-6"]);
    let metrics = cluster.metrics();
    assert!(metrics.contains("node_collector_evictions_total{zone=\"r:\0:z0\"} 3\n"), "{metrics}");
    assert!(metrics.contains("node_collector_zone_health{zone=\"r:\0:z0\"} 0\n"), "{metrics}");
    assert!(metrics.contains("node_collector_zone_size{zone=\"r:\0:z1\"} 3\n"), "{metrics}");
    assert!(metrics.contains("node_collector_unhealthy_nodes_in_zone{zone=\"r:\0:z0\"} 3\n"), "{metrics}");
}

/// NODE-36.
#[tokio::test(start_paused = true)]
async fn excluded_nodes_do_not_affect_the_state_of_their_zone() {
    let cluster = world_of_one_zone(6, OperatorSettings::new()).await;
    for node in 0..3 {
        cluster.label("nodes", &format!("node-{node}"), json!({"node.kubernetes.io/exclude-disruption": ""})).await;
    }
    cluster.wait(20).await;
    // Two of the three counted nodes are ready. Of all six nodes, including excluded ones, four send no heartbeats.
    silence(&cluster, 0..4);
    cluster.wait(200).await;
    assert_eq!(tainted_nodes(&cluster).await.len(), 4);
}

/// NODE-40.
#[tokio::test(start_paused = true)]
async fn a_node_that_changes_its_zone_while_it_waits_is_tainted_in_its_new_zone() {
    let cluster = world_of_one_zone(10, OperatorSettings::new()).await;
    cluster.wait(20).await;
    silence(&cluster, 0..6);
    cluster.wait(200).await;
    assert_eq!(tainted_nodes(&cluster).await.len(), 0, "the zone is partially disrupted");
    cluster.label("nodes", "node-0", json!({"topology.kubernetes.io/zone": "other"})).await;
    cluster.wait(120).await;
    assert!(tainted_nodes(&cluster).await.contains(&"node-0".to_owned()));
}

/// NODE-43, NODE-44, NODE-85.
#[tokio::test(start_paused = true)]
async fn an_alarm_precedes_the_taint_that_makes_the_share_large_and_the_limit_is_not_exceeded() {
    let brakes =
        [("node-taint-alarm-share", TunableValue::Ratio(0.3)), ("node-taint-max-share", TunableValue::Ratio(0.2))];
    let cluster = world_of_one_zone(10, flags(&brakes)).await;
    cluster.wait(20).await;
    silence(&cluster, 0..4);
    cluster.wait(600).await;
    assert_eq!(tainted_nodes(&cluster).await.len(), 2);
    assert_eq!(alarms(&cluster).await, [ALARM]);
    // The monitoring alert compares the share with the value of the flag.
    let announced: f32 = metric(cluster.loops(), "nonet_node_taint_alarm_share").parse().unwrap();
    assert!((announced - 0.3).abs() < f32::EPSILON, "{announced}");
    let gauges = || ["nonet_node_taints_held", "nonet_node_tainted_share"].map(|name| metric(cluster.loops(), name));
    assert_eq!(gauges(), ["2", "0.4"]);
    // When all nodes have recovered, the alarm ends, and the next outage raises a new alarm.
    for node in 0..4 {
        cluster.nodes().restore(&format!("node-{node}")).unwrap();
    }
    cluster.wait(60).await;
    assert_eq!(tainted_nodes(&cluster).await, [""; 0]);
    assert_eq!(gauges(), ["0", "0"]);
    silence(&cluster, 4..9);
    cluster.wait(600).await;
    assert_eq!(tainted_nodes(&cluster).await.len(), 2);
    assert_eq!(alarms(&cluster).await.len(), 2, "{:?}", alarms(&cluster).await);
}

/// NODE-43.
#[tokio::test(start_paused = true)]
async fn the_alarm_is_written_before_the_first_taint() {
    let cluster = world_of_one_zone(10, flags(&[("node-taint-alarm-share", TunableValue::Ratio(0.05))])).await;
    cluster.wait(20).await;
    silence(&cluster, 0..1);
    until(&cluster, "node-0", 90, |node| !taints(node, "NoExecute").is_empty()).await;
    let writes = cluster.sandbox.writes().all();
    let alarm = writes.iter().position(|write| {
        write
            .after()
            .is_some_and(|object| write.resource.starts_with("events") && object["reason"] == "ManyNodesTainted")
    });
    let is_tainted = |node: &Value| !taints(node, "NoExecute").is_empty();
    let taint = writes
        .iter()
        .position(|write| write.resource == "nodes" && write.after().is_some_and(|node| is_tainted(&node)));
    assert!(alarm.is_some() && alarm < taint, "alarm {alarm:?}, taint {taint:?}");
}

/// NODE-41.
#[tokio::test(start_paused = true)]
async fn a_waiting_node_with_a_new_heartbeat_is_not_tainted() {
    let cluster = world_of_one_zone(10, OperatorSettings::new()).await;
    cluster.wait(20).await;
    let since = cluster.clock.now();
    silence(&cluster, 0..4);
    until(&cluster, "node-3", 90, |node| status(node, "Ready") == "Unknown").await;
    // The Lease of `node-3` is renewed, but its status is not reported.
    for second in 0..12 {
        let lease = json!({"spec": {"renewTime": format!("2026-11-22T00:00:{second:02}.000000Z")}});
        cluster
            .sandbox
            .merge("leases.coordination.k8s.io", Some("kube-node-lease"), "node-3", None, lease)
            .await
            .unwrap();
        cluster.wait(10).await;
    }
    assert_eq!(taint_times(&cluster, since).len(), 3);
    assert!(!tainted_nodes(&cluster).await.contains(&"node-3".to_owned()));
}

/// Requests take time, so the state of a zone may change between the choice of a node and the write of its taint.
/// NODE-41.
#[tokio::test(start_paused = true)]
async fn a_taint_is_not_written_if_its_zone_is_stopped_meanwhile() {
    for others_fail in [false, true] {
        let cluster = world_of_one_zone(10, OperatorSettings::new()).await;
        cluster.wait(20).await;
        let slow = rule(Action::Latency(Duration::from_secs(20)), "get", "");
        cluster.fault(slow.resource("nodes"));
        silence(&cluster, 0..2);
        until(&cluster, "node-1", 90, |node| status(node, "Ready") == "Unknown").await;
        until(&cluster, "node-0", 90, |node| status(node, "Ready") == "Unknown").await;
        cluster.wait(2).await;
        if others_fail {
            for node in 4..9 {
                cluster.nodes().set_condition(&format!("node-{node}"), "Ready", false).unwrap();
            }
        }
        cluster.wait(60).await;
        assert_eq!(tainted_nodes(&cluster).await.is_empty(), others_fail, "{:?}", tainted_nodes(&cluster).await);
    }
}

/// The loop applies the flags that set the rates and thresholds of zones.
/// NODE-32, NODE-33.
#[tokio::test(start_paused = true)]
async fn flags_set_the_rates_and_thresholds() {
    let settings = || {
        flags(&[
            ("unhealthy-zone-threshold", TunableValue::Ratio(0.8)),
            ("large-cluster-size-threshold", TunableValue::Integer(5)),
            ("secondary-node-eviction-rate", TunableValue::Ratio(0.05)),
            ("node-eviction-rate", TunableValue::Ratio(0.5)),
        ])
    };
    for (lost, pause) in [(7, 2), (8, 20)] {
        let cluster = world_of_one_zone(10, settings()).await;
        cluster.wait(20).await;
        let since = cluster.clock.now();
        silence(&cluster, 0..lost);
        cluster.wait(170).await;
        let times = taint_times(&cluster, since);
        let pauses: Vec<i64> = times.windows(2).skip(1).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses.len() >= 3 && pauses.iter().all(|p| (p - pause).abs() <= 1), "{lost} of 10: {times:?}");
    }
}
