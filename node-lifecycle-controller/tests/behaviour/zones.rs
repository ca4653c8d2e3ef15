//! The rate at which nodes are tainted when many fail, and the limits of tainting.

use crate::world::*;

/// Starts a cluster whose nodes are in the zone `z`, and waits for 20 seconds.
async fn world_of_one_zone(cluster: Cluster) -> World {
    let mut world = without_loops(cluster).await;
    for node in world.nodes().names() {
        world.label("nodes", &node, json!({"topology.kubernetes.io/zone": "z"})).await;
    }
    world.start();
    world.wait(22).await;
    world
}

/// Returns the seconds from `since` until each tainted node got its first `NoExecute` taint, sorted.
fn taint_times(world: &World, since: Timestamp) -> Vec<i64> {
    let first = |node: String| {
        let writes = node_writes(world, &node, since);
        writes.into_iter().find(|(_, node)| !taints(node, "NoExecute").is_empty()).map(|(at, _)| at)
    };
    let mut times: Vec<i64> = world.nodes().names().into_iter().filter_map(first).collect();
    times.sort_unstable();
    times
}

/// Columns: what the row holds; the number of nodes; whether one zone has all of them, and not three; how many nodes fail;
/// how many are tainted after so many seconds; and the pauses between two taints, with flags from the second pause on.
/// NODE-32, NODE-33, NODE-35.
#[tokio::test(start_paused = true)]
async fn nodes_of_a_zone_are_tainted_one_after_the_other_at_the_rate_of_the_zone() {
    let large = ("large-cluster-size-threshold", TunableValue::Integer(10));
    let flags = [
        ("unhealthy-zone-threshold", TunableValue::Ratio(0.8)),
        ("large-cluster-size-threshold", TunableValue::Integer(5)),
        ("secondary-node-eviction-rate", TunableValue::Ratio(0.05)),
        ("node-eviction-rate", TunableValue::Ratio(0.5)),
    ];
    for (row, nodes, settings, in_one_zone, failing, seconds, tainted, pauses) in [
        ("a zone", 10, &[][..], true, 4, 120, 4..=4, 9..=11),
        ("three zones", 12, &[], false, 3, 70, 3..=3, 0..=6),
        ("a large zone that is partially disrupted", 12, &[large], true, 8, 400, 3..=4, 99..=101),
        ("flags of a zone that is not disrupted", 10, &flags, true, 7, 170, 7..=7, 1..=3),
        ("flags of a zone that is partially disrupted", 10, &flags, true, 8, 170, 5..=8, 19..=21),
    ] {
        let cluster = settings.iter().fold(live_cluster(nodes), |cluster, (name, value)| cluster.tunable(name, *value));
        let world = if in_one_zone { world_of_one_zone(cluster).await } else { live_world(cluster, 20).await };
        let since = world.clock.now();
        silence(&world, 0..failing);
        world.wait(seconds).await;
        let times = taint_times(&world, since);
        assert!(tainted.contains(&times.len()), "{row}: {times:?}");
        assert_eq!(unknown_and_tainted(&world).await, (failing as usize, times.len()), "{row}");
        let mut between = times.windows(2).skip(usize::from(!settings.is_empty()));
        assert!(between.all(|pair| pauses.contains(&(pair[1] - pair[0]))), "{row}: {times:?}");
    }
}

/// NODE-33, NODE-42, NODE-84.
#[tokio::test(start_paused = true)]
async fn a_small_zone_that_is_partially_disrupted_is_left_alone_even_if_a_write_fails() {
    for write_fails in [false, true] {
        let world = world_of_one_zone(live_cluster(10)).await;
        world.fault(rule(Action::InternalError, "patch", "nodes/status").times(u64::from(write_fails)));
        silence(&world, 0..6);
        world.wait(600).await;
        assert_eq!(unknown_and_tainted(&world).await, (6, 0), "a write fails: {write_fails}");
        // One node recovers: 5 of 10 nodes are not ready, which is below the threshold of 55 %.
        world.nodes().restore("node-0").unwrap();
        world.wait(120).await;
        assert_eq!(tainted_nodes(&world).await.len(), 5, "a write fails: {write_fails}");
    }
}

/// NODE-37, NODE-38, NODE-39.
#[tokio::test(start_paused = true)]
async fn when_every_node_is_silent_no_node_is_tainted_and_taints_are_removed() {
    let world = live_world(live_cluster(9), 20).await;
    silence(&world, [0]);
    until_tainted(&world, "node-0").await;
    silence(&world, 1..9);
    world.wait(90).await;
    assert_eq!(unknown_and_tainted(&world).await, (9, 0));
    world.wait(600).await;
    assert_eq!(unknown_and_tainted(&world).await, (9, 0), "no node is tainted during a total disruption");
    // One node recovers: all other nodes get a whole grace period before they are tainted, at the rate of their zone.
    let since = world.clock.now();
    world.nodes().restore("node-4").unwrap();
    world.wait(400).await;
    let times = taint_times(&world, since);
    assert!(times.len() == 8 && times[0] >= 50, "{times:?}");
}

/// NODE-35, NODE-74.
#[tokio::test(start_paused = true)]
async fn a_lost_zone_is_tainted_and_others_are_not() {
    let world = live_world(live_cluster(9), 20).await;
    silence(&world, [0, 3, 6]);
    world.wait(120).await;
    assert_eq!(tainted_nodes(&world).await, ["node-0", "node-3", "node-6"]);
    for (name, zone, value) in
        [("evictions_total", 0, 3), ("zone_health", 0, 0), ("zone_size", 1, 3), ("unhealthy_nodes_in_zone", 0, 3)]
    {
        assert_eq!(world.metric(&format!("node_collector_{name}{{zone=\"r:\0:z{zone}\"}}")), value, "{name}");
    }
}

/// NODE-40.
#[tokio::test(start_paused = true)]
async fn a_node_that_changes_its_zone_while_it_waits_is_tainted_in_its_new_zone() {
    let world = world_of_one_zone(live_cluster(10)).await;
    silence(&world, 0..6);
    world.wait(200).await;
    assert_eq!(tainted_nodes(&world).await.len(), 0, "the zone is partially disrupted");
    world.label("nodes", "node-0", json!({"topology.kubernetes.io/zone": "other"})).await;
    world.wait(120).await;
    assert!(tainted_nodes(&world).await.contains(&"node-0".to_owned()));
}

/// NODE-25, NODE-43, NODE-44, NODE-85.
#[tokio::test(start_paused = true)]
async fn an_alarm_precedes_the_taint_that_makes_the_share_large_and_the_limit_is_not_exceeded() {
    let cluster = live_cluster(10).tunable("node-taint-alarm-share", TunableValue::Ratio(0.3));
    let world = world_of_one_zone(cluster.tunable("node-taint-max-share", TunableValue::Ratio(0.2))).await;
    let alarms = async || {
        let events = world.events_in("default").await;
        events.into_iter().filter(|event| event.contains("ManyNodesTainted")).collect::<Vec<_>>()
    };
    silence(&world, 0..4);
    world.wait(600).await;
    assert_eq!(tainted_nodes(&world).await.len(), 2);
    assert_eq!(alarms().await, ["Warning ManyNodesTainted 4 of 10 nodes have a NoExecute taint or wait for it"]);
    // The monitoring alert compares the share with the value of the flag.
    let announced: f32 = metric(world.loops(), "nonet_node_taint_alarm_ratio").parse().unwrap();
    assert!((announced - 0.3).abs() < f32::EPSILON, "{announced}");
    let gauges = || ["nonet_node_taints_held", "nonet_node_tainted_ratio"].map(|name| metric(world.loops(), name));
    assert_eq!(gauges(), ["2", "0.4"]);
    // When all nodes have recovered, the alarm ends, and the next outage raises a new alarm.
    for node in 0..4 {
        world.nodes().restore(&format!("node-{node}")).unwrap();
    }
    world.wait(7).await;
    assert_eq!(tainted_nodes(&world).await, [""; 0], "the next pass removes the taints");
    world.wait(53).await;
    assert_eq!(gauges(), ["0", "0"]);
    silence(&world, 4..9);
    world.wait(600).await;
    assert_eq!((tainted_nodes(&world).await.len(), alarms().await.len()), (2, 2), "{:?}", alarms().await);
}

/// NODE-43.
#[tokio::test(start_paused = true)]
async fn the_alarm_is_written_before_the_first_taint() {
    let world = world_of_one_zone(live_cluster(10).tunable("node-taint-alarm-share", TunableValue::Ratio(0.05))).await;
    silence(&world, [0]);
    until_tainted(&world, "node-0").await;
    let writes = world.sandbox.writes().all();
    let first = |resource: &str, is_it: &dyn Fn(&Value) -> bool| {
        let of_resource = |write: &Arc<Write>| write.resource.starts_with(resource);
        writes.iter().position(|write| of_resource(write) && write.after().is_some_and(|object| is_it(&object)))
    };
    let alarm = first("events", &|event| event["reason"] == "ManyNodesTainted");
    let taint = first("nodes", &|node| !taints(node, "NoExecute").is_empty());
    assert!(alarm.is_some() && alarm < taint, "alarm {alarm:?}, taint {taint:?}");
}

/// NODE-41.
#[tokio::test(start_paused = true)]
async fn a_waiting_node_with_a_new_heartbeat_is_not_tainted() {
    let world = world_of_one_zone(live_cluster(10)).await;
    let since = world.clock.now();
    silence(&world, 0..4);
    until_unknown(&world, "node-3", 90).await;
    // The Lease of `node-3` is renewed, but its status is not reported.
    for _ in 0..12 {
        renew(&world.sandbox, "node-3", world.clock.now()).await;
        world.wait(10).await;
    }
    assert_eq!(taint_times(&world, since).len(), 3);
    assert!(!tainted_nodes(&world).await.contains(&"node-3".to_owned()));
}

/// Requests take time, so the state of a zone may change between the choice of a node and the write of its taint.
/// NODE-41.
#[tokio::test(start_paused = true)]
async fn a_taint_is_not_written_if_its_zone_is_stopped_meanwhile() {
    for others_fail in [false, true] {
        let world = world_of_one_zone(live_cluster(10)).await;
        world.fault(rule(Action::Latency(Duration::from_secs(20)), "get", "nodes"));
        silence(&world, 0..2);
        until_unknown(&world, "node-1", 90).await;
        until_unknown(&world, "node-0", 90).await;
        world.wait(2).await;
        if others_fail {
            for node in 4..9 {
                world.nodes().set_condition(&format!("node-{node}"), "Ready", false).unwrap();
            }
        }
        world.wait(60).await;
        assert_eq!(tainted_nodes(&world).await.is_empty(), others_fail, "{:?}", tainted_nodes(&world).await);
    }
}
