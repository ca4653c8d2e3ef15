//! A process that may have missed heartbeats makes no decisions about nodes. Afterwards, each node gets a whole grace period.

use crate::world::*;

/// NODE-19, NODE-21, NODE-80.
#[tokio::test(start_paused = true)]
async fn an_outage_of_the_api_server_changes_nothing() {
    let cluster = live_world(live_cluster(6)).await;
    create_pod(&cluster, "p", "node-1", json!(null)).await;
    cluster.wait(30).await;
    cluster.sandbox.faults().go_down_for(Duration::from_secs(600));
    cluster.wait(590).await;
    let explained = cluster.loops().explain(Some("health")).to_string();
    assert!(explained.contains("this process is blind"), "{explained}");
    assert!(cluster.metrics().contains("\nnonet_node_monitor_blind_seconds 5"), "the metric shows the duration");
    cluster.wait(610).await;
    let since = cluster.clock.now() - jiff::SignedDuration::from_secs(1200);
    assert_no_node_writes(&cluster, since);
    assert!(cluster.metrics().contains("\nnonet_node_monitor_blind_seconds 0\n"));
}

/// NODE-19.
#[tokio::test(start_paused = true)]
async fn a_node_that_died_with_the_api_server_is_judged_a_grace_period_after_its_return() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.nodes().kill("node-1").unwrap();
    cluster.sandbox.faults().go_down_for(Duration::from_secs(600));
    cluster.wait(601).await;
    let silent = until(&cluster, "node-1", 150, |node| status(node, "Ready") == "Unknown").await;
    // The longest pause between two attempts to connect, the grace period and the period of the passes.
    assert!((45..=60 + 50 + 5).contains(&silent), "{silent}");
    cluster.wait(1).await;
    assert_eq!(tainted_nodes(&cluster).await, ["node-1"]);
}

/// NODE-18.
#[tokio::test(start_paused = true)]
async fn a_new_process_gives_every_node_its_whole_grace_period() {
    let mut cluster = live_world(live_cluster(6)).await;
    cluster.nodes().silence("node-1").unwrap();
    cluster.wait(40).await;
    cluster.crash();
    cluster.wait(300).await;
    cluster.start();
    let silent = until(&cluster, "node-1", 90, |node| status(node, "Ready") == "Unknown").await;
    assert!((48..=57).contains(&silent), "{silent}");
}

/// NODE-28, NODE-78.
#[tokio::test(start_paused = true)]
async fn a_new_process_leaves_the_taints_of_silent_nodes_in_place() {
    let mut cluster = live_world(live_cluster(6)).await;
    cluster.nodes().silence("node-1").unwrap();
    until(&cluster, "node-1", 90, |node| taints(node, "NoExecute") == [UNREACHABLE]).await;
    cluster.crash();
    let since = cluster.clock.now();
    cluster.start();
    cluster.wait(200).await;
    assert_eq!(node_writes(&cluster, "node-1", since), []);
    assert_eq!(tainted_nodes(&cluster).await, ["node-1"]);
}

/// NODE-18.
#[tokio::test(start_paused = true)]
async fn a_suspended_machine_gives_every_node_its_whole_grace_period() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.nodes().silence("node-1").unwrap();
    cluster.wait(45).await;
    cluster.clock.simulate_suspension(Duration::from_secs(600));
    let silent = until(&cluster, "node-1", 90, |node| status(node, "Ready") == "Unknown").await;
    assert!((48..=62).contains(&silent), "{silent}");
    assert_eq!(unknown_count(&cluster).await, 1);
}

/// NODE-10, NODE-82.
#[tokio::test(start_paused = true)]
async fn renewals_that_the_watch_does_not_deliver_are_read_from_the_server() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.wait(20).await;
    let since = cluster.clock.now();
    cluster.hold("leases");
    cluster.wait(600).await;
    assert_no_node_writes(&cluster, since);
    assert!(cluster.count("get", "leases.coordination.k8s.io") > 0);
}

/// NODE-16.
#[tokio::test(start_paused = true)]
async fn nothing_is_judged_while_leases_cannot_be_read() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.wait(20).await;
    let since = cluster.clock.now();
    let faults = cluster.sandbox.faults();
    faults.hold_watch(CONTROLLER, "leases");
    faults.add(rule(Action::InternalError, "", "leases"));
    cluster.nodes().silence("node-1").unwrap();
    cluster.wait(600).await;
    assert_eq!(node_writes(&cluster, "node-1", since), []);
    faults.clear();
    until(&cluster, "node-1", 120, |node| status(node, "Ready") == "Unknown").await;
    assert_eq!(unknown_count(&cluster).await, 1);
}

/// NODE-19.
#[tokio::test(start_paused = true)]
async fn slow_answers_for_minutes_change_no_condition_of_a_healthy_node() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.wait(20).await;
    let since = cluster.clock.now();
    // The latency affects the requests of nodes and of controllers.
    cluster.fault(Rule::new(Action::Latency(Duration::from_secs(45))));
    cluster.wait(600).await;
    cluster.clear_faults();
    cluster.wait(200).await;
    assert_no_node_writes(&cluster, since);
}

/// NODE-4, NODE-79.
#[tokio::test(start_paused = true)]
async fn a_lease_whose_time_goes_back_is_a_heartbeat() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.nodes().silence("node-1").unwrap();
    for hour in 0..30 {
        let renewed = format!("2026-11-20T{:02}:00:00.000000Z", 23 - hour % 24);
        let lease = json!({"spec": {"renewTime": renewed}});
        cluster
            .sandbox
            .merge("leases.coordination.k8s.io", Some("kube-node-lease"), "node-1", None, lease)
            .await
            .unwrap();
        cluster.wait(10).await;
    }
    assert_eq!(status(&cluster.get("nodes", "node-1").await, "Ready"), "True");
}

/// NODE-4.
#[tokio::test(start_paused = true)]
async fn jumps_of_the_clock_change_nothing() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.wait(30).await;
    let since = cluster.clock.now();
    for hours in [5, -10, 100] {
        cluster.clock.shift_wall_clock(jiff::SignedDuration::from_hours(hours));
        cluster.wait(100).await;
    }
    assert_no_node_writes(&cluster, since);
}

/// NODE-26.
#[tokio::test(start_paused = true)]
async fn an_unknown_node_that_renews_its_lease_gets_no_no_execute_taint() {
    let cluster = live_world(live_cluster(6)).await;
    // Another controller has set the condition `Ready` of the node to `Unknown`.
    cluster
        .patch_status(
            "nodes",
            "node-1",
            json!({"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}),
        )
        .await;
    cluster.wait(120).await;
    let node = cluster.get("nodes", "node-1").await;
    assert_eq!((taints(&node, "NoSchedule"), taints(&node, "NoExecute")), (vec![UNREACHABLE.into()], vec![]));
}

/// NODE-12.
#[tokio::test(start_paused = true)]
async fn no_node_lapses_after_the_server_rejected_all_writes() {
    let cluster = live_world(live_cluster(6)).await;
    create_pod(&cluster, "p", "node-1", json!(null)).await;
    cluster.wait(20).await;
    for verb in ["create", "update", "patch", "delete"] {
        cluster.fault(Rule::new(Action::InternalError).verb(verb));
    }
    cluster.wait(300).await;
    let since = cluster.clock.now();
    cluster.clear_faults();
    cluster.wait(300).await;
    for node in cluster.nodes().names() {
        let lapsed = |(_, node): &(i64, Value)| status(node, "Ready") == "Unknown";
        assert!(!node_writes(&cluster, &node, since).iter().any(lapsed), "{node}");
    }
}

/// Gauge of the seconds for which passes have made no decisions about nodes, because heartbeats may have been missed.
const BLIND: &str = "nonet_node_monitor_blind_seconds";

fn seconds(cluster: &World) -> u64 {
    metric(cluster.loops(), BLIND).parse::<f64>().unwrap() as u64
}

/// Changes a label of `node-0` every five seconds, so that the watch of Nodes delivers events.
async fn relabel_for(cluster: &World, seconds: u64) {
    for tick in 0..seconds / 5 {
        cluster.label("nodes", "node-0", json!({"tick": tick.to_string()})).await;
        cluster.wait(5).await;
    }
}

/// NODE-16, NODE-21.
#[tokio::test(start_paused = true)]
async fn a_process_that_watches_nodes_but_cannot_watch_leases_reports_how_long_it_has_been_blind() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.wait(20).await;
    assert_eq!(cluster.metric(BLIND), 0);
    let faults = cluster.sandbox.faults();
    let of_leases = |action| rule(action, "", "leases");
    faults.add(of_leases(Action::CutWatch).times(1));
    faults.add(of_leases(Action::InternalError));
    relabel_for(&cluster, 400).await;
    assert!((370..410).contains(&seconds(&cluster)), "{}", seconds(&cluster));
    for key in [None, Some("node-1")] {
        let explained = cluster.loops().explain(key).to_string();
        assert!(explained.contains("blind for 6m"), "{key:?}: {explained}");
    }
    let troubles = cluster.loops().troubles().join(" ");
    assert!(troubles.contains("blind for 6m") && troubles.contains("cannot be watched"), "{troubles}");
    faults.clear();
    relabel_for(&cluster, 60).await;
    assert_eq!((cluster.metric(BLIND), cluster.loops().troubles()), (0, vec![]));
}

/// NODE-21.
#[tokio::test(start_paused = true)]
async fn a_process_that_never_read_leases_is_blind_since_it_started_to_lead() {
    let mut cluster = without_loops(live_cluster(6)).await;
    cluster.fault(rule(Action::InternalError, "", "leases"));
    cluster.start();
    relabel_for(&cluster, 400).await;
    assert!((390..410).contains(&seconds(&cluster)), "{}", seconds(&cluster));
}

/// NODE-21.
#[tokio::test(start_paused = true)]
async fn a_standby_is_not_blind_although_it_judges_no_node() {
    let cluster = without_loops(live_cluster(6)).await;
    let standby = cluster.stand_by(CONTROLLER);
    cluster.wait(3600).await;
    assert_eq!((metric(&standby, BLIND).as_str(), standby.troubles()), ("0", vec![]));
    standby.lead();
    cluster.wait(30).await;
    assert_eq!(metric(&standby, BLIND), "0");
}

/// NODE-20.
#[tokio::test(start_paused = true)]
async fn a_replay_of_the_cache_is_no_evidence_of_a_live_view() {
    let often = [("min-resync-period", TunableValue::Duration(Duration::from_secs(4)))];
    let cluster = live_world(live_cluster(6).settings(flags(&often))).await;
    cluster.wait(20).await;
    let faults = cluster.sandbox.faults();
    faults.hold_watch(CONTROLLER, "leases");
    faults.hold_watch(CONTROLLER, "nodes");
    faults.add(rule(Action::InternalError, "list", "leases"));
    cluster.wait(200).await;
    assert!(seconds(&cluster) > 150, "{}", seconds(&cluster));
}

/// Whether a Pod is terminating or does not exist.
async fn is_going(cluster: &World, pod: &str) -> bool {
    cluster.find("pods", pod).await.is_none_or(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
}

/// No heartbeat arrives during an outage of the API server. If the toleration of a Pod ends in that time, the Pod is deleted
/// only after its node had time to report that it is healthy.
/// NODE-60.
#[tokio::test(start_paused = true)]
async fn tolerations_that_ended_during_an_outage_are_checked_against_a_new_live_view() {
    for reports in [false, true] {
        let cluster = live_world(live_cluster(6)).await;
        cluster.wait(20).await;
        for (pod, node) in [("back", "node-1"), ("lost", "node-2")] {
            create_pod(&cluster, pod, node, json!(null)).await;
            if reports {
                cluster.nodes().set_condition(node, "Ready", false).unwrap();
            } else {
                cluster.nodes().silence(node).unwrap();
            }
        }
        for node in ["node-1", "node-2"] {
            until(&cluster, node, 90, |node| !taints(node, "NoExecute").is_empty()).await;
        }
        // The tolerations of five minutes end shortly before the API server returns.
        cluster.wait(200).await;
        cluster.sandbox.faults().go_down_for(Duration::from_secs(103));
        for node in ["node-1", "node-2"] {
            cluster.nodes().silence(node).unwrap();
        }
        cluster.wait(123).await;
        assert!(!is_going(&cluster, "back").await && !is_going(&cluster, "lost").await, "reports: {reports}");
        if reports {
            cluster.nodes().set_condition("node-1", "Ready", true).unwrap();
        }
        cluster.nodes().restore("node-1").unwrap();
        cluster.wait(150).await;
        assert!(!is_going(&cluster, "back").await, "reports: {reports}");
        assert!(is_going(&cluster, "lost").await, "reports: {reports}");
        cluster.wait(900).await;
        assert!(!is_going(&cluster, "back").await, "reports: {reports}");
    }
}
