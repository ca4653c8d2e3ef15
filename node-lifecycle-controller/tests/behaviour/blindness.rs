//! A process that may have missed heartbeats makes no decisions about nodes. Afterwards, each node gets a whole grace period.

use std::ops::RangeInclusive;

use crate::world::*;

/// Starts six nodes with all loops and a Pod, and waits until nothing changes. Returns the time, too.
async fn steady_world() -> (World, Timestamp) {
    let world = live_world(live_cluster(6), 20).await;
    create_pod(&world, "p", "node-1", json!(null)).await;
    world.wait(10).await;
    let now = world.clock.now();
    (world, now)
}

/// Asserts that no node is changed until ten minutes have passed, and that the process is not blind then.
async fn assert_changes_nothing(world: &World, since: Timestamp) {
    world.wait(610).await;
    assert_no_node_writes(world, since);
    assert_eq!(blind_seconds(world), 0);
}

/// NODE-19, NODE-21, NODE-80.
#[tokio::test(start_paused = true)]
async fn an_outage_of_the_api_server_changes_nothing() {
    let (world, since) = steady_world().await;
    world.sandbox.faults().go_down_for(Duration::from_secs(600));
    world.wait(590).await;
    assert!(explain(&world, "health").contains("this process is blind"), "{}", explain(&world, "health"));
    assert!((500..600).contains(&blind_seconds(&world)), "{}", blind_seconds(&world));
    assert_changes_nothing(&world, since).await;
}

/// NODE-10, NODE-82.
#[tokio::test(start_paused = true)]
async fn renewals_that_the_watch_does_not_deliver_are_read_from_the_server() {
    let (world, since) = steady_world().await;
    world.hold("leases");
    assert_changes_nothing(&world, since).await;
    assert!(world.count("get", LEASES) > 0);
}

/// NODE-19.
#[tokio::test(start_paused = true)]
async fn slow_answers_for_minutes_change_no_condition_of_a_healthy_node() {
    let (world, since) = steady_world().await;
    // The latency affects the requests of nodes and of controllers.
    world.fault(Rule::new(Action::Latency(Duration::from_secs(45))));
    world.wait(600).await;
    world.clear_faults();
    assert_changes_nothing(&world, since).await;
}

/// NODE-4.
#[tokio::test(start_paused = true)]
async fn jumps_of_the_clock_change_nothing() {
    let (world, since) = steady_world().await;
    for hours in [5, -10, 100] {
        world.clock.shift_wall_clock(SignedDuration::from_hours(hours));
        world.wait(100).await;
    }
    assert_changes_nothing(&world, since).await;
}

/// Asserts that `node-1` becomes silent after so many seconds, and that it alone is tainted.
async fn assert_becomes_silent(world: &World, seconds: RangeInclusive<u64>) {
    let silent = until_unknown(world, "node-1", 150).await;
    assert!(seconds.contains(&silent), "{silent}");
    world.wait(1).await;
    assert_eq!(unknown_and_tainted(world).await, (1, 1));
}

/// NODE-19.
#[tokio::test(start_paused = true)]
async fn a_node_that_died_with_the_api_server_is_judged_a_grace_period_after_the_server_returns() {
    let (world, _) = steady_world().await;
    world.nodes().kill("node-1").unwrap();
    world.sandbox.faults().go_down_for(Duration::from_secs(600));
    world.wait(601).await;
    // The longest pause between two attempts to connect, the grace period and the period of the passes.
    assert_becomes_silent(&world, 45..=60 + 50 + 5).await;
}

/// NODE-18.
#[tokio::test(start_paused = true)]
async fn a_new_process_gives_every_node_its_whole_grace_period() {
    let (mut world, _) = steady_world().await;
    silence(&world, [1]);
    world.wait(40).await;
    world.crash();
    world.wait(300).await;
    world.start();
    assert_becomes_silent(&world, 48..=57).await;
}

/// NODE-18.
#[tokio::test(start_paused = true)]
async fn a_suspended_machine_gives_every_node_its_whole_grace_period() {
    let (world, _) = steady_world().await;
    silence(&world, [1]);
    world.wait(45).await;
    world.clock.simulate_suspension(Duration::from_secs(600));
    assert_becomes_silent(&world, 48..=62).await;
}

/// NODE-7.
#[tokio::test(start_paused = true)]
async fn a_node_re_created_under_its_name_has_its_own_grace_period() {
    let (world, _) = steady_world().await;
    silence(&world, [1]);
    world.wait(45).await;
    world.delete("nodes", "node-1").await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}});
    world.create(merged(node, json!({ "status": ready_condition("True") }))).await;
    assert_becomes_silent(&world, 41..=70).await;
}

/// NODE-28, NODE-78.
#[tokio::test(start_paused = true)]
async fn a_new_process_leaves_the_taints_of_silent_nodes_in_place() {
    let mut world = live_world(live_cluster(6), 0).await;
    silence(&world, [1]);
    until_tainted(&world, "node-1").await;
    world.crash();
    let since = world.clock.now();
    world.start();
    world.wait(200).await;
    assert_eq!(node_writes(&world, "node-1", since), []);
    assert_eq!(tainted_nodes(&world).await, ["node-1"]);
}

/// NODE-16.
#[tokio::test(start_paused = true)]
async fn nothing_is_judged_while_leases_cannot_be_read() {
    let world = live_world(live_cluster(6), 20).await;
    let since = world.clock.now();
    world.hold("leases");
    world.fault(rule(Action::InternalError, "", "leases"));
    silence(&world, [1]);
    world.wait(600).await;
    assert_eq!(node_writes(&world, "node-1", since), []);
    world.clear_faults();
    until_unknown(&world, "node-1", 120).await;
    assert_eq!(unknown_and_tainted(&world).await.0, 1);
}

/// NODE-4, NODE-79.
#[tokio::test(start_paused = true)]
async fn a_lease_whose_time_goes_back_is_a_heartbeat() {
    let world = live_world(live_cluster(6), 0).await;
    silence(&world, [1]);
    let day: Timestamp = "2026-11-20T00:00:00Z".parse().unwrap();
    for hour in 0..30 {
        renew(&world.sandbox, "node-1", day + SignedDuration::from_hours(23 - hour % 24)).await;
        world.wait(10).await;
    }
    assert_eq!(status(&world.get("nodes", "node-1").await, "Ready"), "True");
}

/// NODE-26.
#[tokio::test(start_paused = true)]
async fn an_unknown_node_that_renews_its_lease_gets_no_no_execute_taint() {
    let world = live_world(live_cluster(6), 0).await;
    // Another controller has set the condition `Ready` of the node to `Unknown`.
    let unknown = json!({"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]});
    world.patch_status("nodes", "node-1", unknown).await;
    world.wait(120).await;
    let node = world.get("nodes", "node-1").await;
    assert_eq!((taints(&node, "NoSchedule"), taints(&node, "NoExecute")), (vec![UNREACHABLE.into()], vec![]));
}

/// NODE-12.
#[tokio::test(start_paused = true)]
async fn no_node_lapses_after_the_server_rejected_all_writes() {
    let world = live_world(live_cluster(6), 20).await;
    create_pod(&world, "p", "node-1", json!(null)).await;
    for verb in ["create", "update", "patch", "delete"] {
        world.fault(Rule::new(Action::InternalError).verb(verb));
    }
    world.wait(300).await;
    let since = world.clock.now();
    world.clear_faults();
    world.wait(300).await;
    for node in world.nodes().names() {
        let lapsed = |(_, node): &(i64, Value)| status(node, "Ready") == "Unknown";
        assert!(!node_writes(&world, &node, since).iter().any(lapsed), "{node}");
    }
}

/// Gauge of the seconds for which passes have made no decisions about nodes, because heartbeats may have been missed.
const BLIND: &str = "nonet_node_monitor_blind_seconds";

fn blind_seconds(world: &World) -> u64 {
    metric(world.loops(), BLIND).parse::<f64>().unwrap() as u64
}

/// Changes a label of `node-0` every five seconds, so that the watch of Nodes delivers events.
async fn relabel_for(world: &World, seconds: u64) {
    for tick in 0..seconds / 5 {
        world.label("nodes", "node-0", json!({"tick": tick.to_string()})).await;
        world.wait(5).await;
    }
}

/// NODE-16, NODE-21.
#[tokio::test(start_paused = true)]
async fn a_process_that_watches_nodes_but_cannot_watch_leases_reports_how_long_it_has_been_blind() {
    let world = live_world(live_cluster(6), 20).await;
    assert_eq!(world.metric(BLIND), 0);
    world.fault(rule(Action::CutWatch, "", "leases").times(1));
    world.fault(rule(Action::InternalError, "", "leases"));
    relabel_for(&world, 400).await;
    assert!((370..410).contains(&blind_seconds(&world)), "{}", blind_seconds(&world));
    for key in [None, Some("node-1")] {
        let explained = world.loops().explain(key).to_string();
        assert!(explained.contains("blind for 6m"), "{key:?}: {explained}");
    }
    let troubles = world.loops().troubles().join(" ");
    assert!(troubles.contains("blind for 6m") && troubles.contains("cannot be watched"), "{troubles}");
    world.clear_faults();
    relabel_for(&world, 60).await;
    assert_eq!((world.metric(BLIND), world.loops().troubles()), (0, vec![]));
}

/// NODE-21.
#[tokio::test(start_paused = true)]
async fn a_process_that_never_read_leases_is_blind_since_it_started_to_lead() {
    let mut world = without_loops(live_cluster(6)).await;
    world.fault(rule(Action::InternalError, "", "leases"));
    world.start();
    relabel_for(&world, 400).await;
    assert!((390..410).contains(&blind_seconds(&world)), "{}", blind_seconds(&world));
}

/// NODE-21.
#[tokio::test(start_paused = true)]
async fn a_standby_is_not_blind_although_it_judges_no_node() {
    let world = without_loops(live_cluster(6)).await;
    let standby = world.stand_by(CONTROLLER);
    world.wait(3600).await;
    assert_eq!((metric(&standby, BLIND).as_str(), standby.troubles()), ("0", vec![]));
    standby.lead();
    world.wait(30).await;
    assert_eq!(metric(&standby, BLIND), "0");
}

/// NODE-20.
#[tokio::test(start_paused = true)]
async fn a_replay_of_the_cache_is_no_evidence_of_a_live_view() {
    let world = live_world(live_cluster(6).tunable("min-resync-period", in_seconds(4)), 20).await;
    world.hold("leases");
    world.hold("nodes");
    world.fault(rule(Action::InternalError, "list", "leases"));
    world.wait(200).await;
    assert!(blind_seconds(&world) > 150, "{}", blind_seconds(&world));
}

/// No heartbeat arrives during an outage of the API server. If the toleration of a Pod ends in that time, the Pod is deleted
/// only after its node had time to report that it is healthy.
/// NODE-60.
#[tokio::test(start_paused = true)]
async fn tolerations_that_ended_during_an_outage_are_checked_against_a_new_live_view() {
    for reports in [false, true] {
        let world = live_world(live_cluster(6), 20).await;
        for (pod, node) in [("back", "node-1"), ("lost", "node-2")] {
            create_pod(&world, pod, node, json!(null)).await;
            if reports {
                world.nodes().set_condition(node, "Ready", false).unwrap();
            } else {
                world.nodes().silence(node).unwrap();
            }
        }
        for node in ["node-1", "node-2"] {
            until_tainted(&world, node).await;
        }
        // The tolerations of five minutes end shortly before the API server returns.
        world.wait(200).await;
        world.sandbox.faults().go_down_for(Duration::from_secs(103));
        silence(&world, [1, 2]);
        world.wait(123).await;
        assert!(!has_left(&world, "back").await && !has_left(&world, "lost").await, "reports: {reports}");
        if reports {
            world.nodes().set_condition("node-1", "Ready", true).unwrap();
        }
        world.nodes().restore("node-1").unwrap();
        world.wait(150).await;
        assert!(!has_left(&world, "back").await && has_left(&world, "lost").await, "reports: {reports}");
        world.wait(900).await;
        assert!(!has_left(&world, "back").await, "reports: {reports}");
    }
}
