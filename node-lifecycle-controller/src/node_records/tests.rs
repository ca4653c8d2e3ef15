use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{
    disruption::NodeCounts,
    world::{NodeRecordsFixture, ready_node},
};

/// NODE-2.
#[test]
fn a_pass_examines_only_nodes_that_changed() {
    let mut world = NodeRecordsFixture::new(5000);
    assert_eq!(world.run_pass().len(), 5000);
    assert_eq!(world.run_pass().len(), 0);
    world.set_ready_condition("n7", "False", "r");
    assert_eq!(world.run_pass(), ["n7 wait"]);
    assert_eq!(world.run_pass().len(), 0);
}

/// NODE-2.
#[test]
fn each_node_that_renews_its_lease_is_examined_once_in_a_grace_period() {
    let mut world = NodeRecordsFixture::new(5000);
    world.run_pass();
    let mut examined = 0;
    // 500 renewals per second and a pass every 5 seconds, for ten minutes.
    for second in 0..600_usize {
        world.advance(1);
        for number in 0..500 {
            world.renew_lease(&format!("n{}", (second % 10) * 500 + number));
        }
        if second % 5 == 4 {
            let pass = world.run_pass();
            assert!(pass.iter().all(|line| line.ends_with("nothing")), "{pass:?}");
            examined += pass.len();
        }
    }
    // Examinations of a node are at least 40 seconds apart: the grace period of 50 seconds, minus the age of its last renewal.
    assert!((5000..=5000 * 15).contains(&examined), "{examined}");
}

/// NODE-23.
#[test]
fn a_silent_node_is_examined_until_its_conditions_are_written_and_then_waits() {
    let mut world = NodeRecordsFixture::new(5);
    world.run_pass();
    world.advance(51);
    for name in ["n1", "n2", "n3", "n4"] {
        world.renew_lease(name);
    }
    let lapse = |pass: Vec<String>| pass.into_iter().filter(|line| line.ends_with("lapse")).collect::<Vec<_>>();
    assert_eq!(lapse(world.run_pass()), ["n0 lapse"]);
    assert_eq!(lapse(world.run_pass()), ["n0 lapse"], "the conditions were not written yet");
    world.set_ready_condition("n0", "Unknown", "NodeStatusUnknown");
    assert_eq!(world.run_pass(), ["n0 wait"]);
    assert_eq!(world.longest_waiting_nodes(), ["::a n0 of 1"]);
    assert_eq!(world.run_pass().len(), 0);
}

/// NODE-41.
#[test]
fn a_heartbeat_ends_the_wait_of_a_silent_node() {
    let mut world = NodeRecordsFixture::new(5);
    world.run_pass();
    world.advance(51);
    world.set_ready_condition("n0", "Unknown", "NodeStatusUnknown");
    for name in ["n1", "n2", "n3", "n4"] {
        world.renew_lease(name);
    }
    world.run_pass();
    world.renew_lease("n0");
    assert_eq!(world.longest_waiting_nodes(), ["::a n0 of 1 over"]);
    world.node_records.stop_waiting_for_taint(&Arc::from("n0"));
    assert!(world.longest_waiting_nodes().is_empty());
    assert_eq!(world.run_pass(), ["n0 nothing"]);
    world.advance(51);
    assert!(world.run_pass().contains(&"n0 wait".to_owned()), "the node is silent again");
}

/// NODE-40.
#[test]
fn a_node_keeps_its_place_when_its_cause_changes_and_loses_it_with_its_zone() {
    let mut world = NodeRecordsFixture::new(5);
    world.run_pass();
    world.set_ready_condition("n3", "False", "r");
    world.run_pass();
    world.advance(1);
    world.set_ready_condition("n1", "False", "r");
    world.run_pass();
    assert_eq!(world.longest_waiting_nodes(), ["::a n3 of 2"], "the node that came first");
    world.set_ready_condition("n3", "Unknown", "r");
    world.run_pass();
    assert_eq!(world.longest_waiting_nodes(), ["::a n3 of 2"]);
    world.update_node("n3", |node| {
        node["status"]["conditions"][0]["status"] = json!("False");
        node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("b");
    });
    assert_eq!(world.longest_waiting_nodes(), ["::a n1 of 1"]);
    world.run_pass();
    assert_eq!(world.longest_waiting_nodes(), ["::a n1 of 1", "::b n3 of 1"]);
    world.node_records.move_to_end_of_taint_queue(&Arc::from("n1"), world.now);
    assert_eq!(world.longest_waiting_nodes()[0], "::a n1 of 1");
}

#[test]
fn a_node_that_recovered_during_the_write_of_its_taint_does_not_wait_again() {
    let mut world = NodeRecordsFixture::new(2);
    world.set_ready_condition("n0", "Unknown", "r");
    world.run_pass();
    assert_eq!(world.longest_waiting_nodes(), ["::a n0 of 1"]);
    world.set_ready_condition("n0", "True", "r");
    world.run_pass();
    assert!(world.longest_waiting_nodes().is_empty());
    world.node_records.move_to_end_of_taint_queue(&Arc::from("n0"), world.now);
    assert!(world.longest_waiting_nodes().is_empty());
}

#[test]
fn zones_are_counted_and_removed_with_their_last_node() {
    let mut world = NodeRecordsFixture::new(3);
    world.set_ready_condition("n0", "False", "r");
    world.update_node("n1", |node| node["metadata"]["labels"]["node.kubernetes.io/exclude-disruption"] = json!(""));
    let zone = Text::new(":\0:a");
    assert_eq!(world.node_records.zones.zone_statuses()[&zone].node_counts, NodeCounts { ready: 1, not_ready: 1 });
    world.run_pass();
    for name in ["n0", "n1", "n2"] {
        world.node_records.remove_node(&Arc::from(name));
    }
    assert!(world.node_records.zones.zone_statuses().is_empty());
    assert_eq!(world.node_records.zones.take_vanished_zones(), [zone].into());
    assert_eq!(
        (
            world.node_records.len(),
            world.node_records.zones.waiting_node_count(),
            world.node_records.schedule.deadlines.len()
        ),
        (0, 0, 0)
    );
}

#[test]
fn zones_that_appear_and_vanish_without_a_pass_leave_nothing() {
    let mut world = NodeRecordsFixture::new(1);
    for number in 0..100 {
        world.update_node("n0", |node| {
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(format!("zone-{number}"));
        });
    }
    assert!(world.node_records.zones.take_vanished_zones().is_empty());
    assert_eq!(world.node_records.zones.zone_statuses().len(), 1);
}

#[test]
fn changes_during_a_pass_are_left_to_the_next_pass() {
    let mut world = NodeRecordsFixture::new(3);
    world.run_pass();
    world.set_ready_condition("n0", "False", "r");
    let plan = world.next_plan();
    world.set_ready_condition("n0", "True", "r");
    world.update_node("n3", |_| {});
    world.node_records.remove_node(&Arc::from("n1"));
    world.node_records.apply_health_plan(&plan, world.now);
    assert!(world.longest_waiting_nodes().is_empty(), "the node is ready by now");
    let due = world.next_nodes_to_report();
    assert_eq!((due.added_nodes.len(), due.removed_nodes.len()), (1, 1));
    assert_eq!(world.run_pass(), ["n0 nothing", "n3 nothing"]);
    // A node that is re-created during the pass that reports its addition is reported a second time.
    world.update_node("n4", |_| {});
    let plan = world.next_plan();
    world.node_records.record_node(&ready_node("n4", "other", 1000, |_| {}), None, false, world.now);
    world.node_records.apply_health_plan(&plan, world.now);
    assert_eq!(world.next_nodes_to_report().added_nodes.len(), 1);
}

/// NODE-14.
#[test]
fn an_unanswered_write_is_reported_once() {
    let lapsed = |world: &mut NodeRecordsFixture| {
        world.set_ready_condition("n0", "Unknown", silence::KUBELET_STOPPED_REASON_AND_MESSAGE.0);
        world.next_nodes_to_report().nodes_set_unknown.len()
    };
    let mut world = NodeRecordsFixture::new(1);
    world.node_records.restart_grace_period("n0", true, world.now);
    assert_eq!(lapsed(&mut world), 1, "the write took effect");
    let mut world = NodeRecordsFixture::new(1);
    world.node_records.restart_grace_period("n0", true, world.now);
    world.node_records.record_successful_condition_write("n0");
    assert_eq!(lapsed(&mut world), 0, "a later write took effect and was reported");
    let mut world = NodeRecordsFixture::new(1);
    world.node_records.restart_grace_period("n0", true, world.now);
    world.set_ready_condition("n0", "False", "KubeletNotReady");
    world
        .update_node("n0", |node| node["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-11-21T09:05:00Z"));
    assert_eq!(lapsed(&mut world), 0, "the node has reported since");
}

/// NODE-42, NODE-84.
#[test]
fn a_silent_node_whose_conditions_could_not_be_written_counts_as_not_ready_until_its_next_heartbeat() {
    let mut world = NodeRecordsFixture::new(3);
    let ready =
        |world: &NodeRecordsFixture| world.node_records.zones.zone_statuses()[&Text::new(":\0:a")].node_counts.ready;
    world.node_records.restart_grace_period("n0", false, world.now);
    assert_eq!(ready(&world), 2);
    world.update_node("n0", |node| node["spec"]["unschedulable"] = json!(true));
    assert_eq!(ready(&world), 2, "a write of another client");
    world.renew_lease("n0");
    assert_eq!(ready(&world), 3);
    world.node_records.restart_grace_period("n0", false, world.now);
    world
        .update_node("n0", |node| node["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-11-21T09:05:00Z"));
    assert_eq!(ready(&world), 3);
    world.node_records.restart_grace_period("n0", false, world.now);
    world.node_records.remove_node(&Arc::from("n0"));
    assert_eq!(ready(&world), 2);
}

/// NODE-7.
#[test]
fn a_re_created_node_has_a_new_grace_period_and_an_older_state_is_ignored() {
    let mut world = NodeRecordsFixture::new(1);
    world.run_pass();
    world.advance(45);
    let again = ready_node("n0", "other", 100, |_| {});
    world.node_records.record_node(&again, None, false, world.now);
    world.advance(45);
    assert_eq!(world.run_pass(), ["n0 nothing"]);
    let older = ready_node("n0", "other", 99, |node| node["spec"]["unschedulable"] = json!(true));
    world.node_records.record_node(&older, None, false, world.now);
    assert!(!world.node_records.node("n0").unwrap().is_unschedulable());
    world.node_records.record_node(&older, None, true, world.now);
    assert!(world.node_records.node("n0").unwrap().is_unschedulable(), "the data of the server was restored");
}

/// The specification's table of changes of a node that count as heartbeats.
/// NODE-3, NODE-4, NODE-5.
#[test]
fn new_reports_are_heartbeats_and_writes_of_others_are_not() {
    let silent = |change: fn(&mut Value)| {
        let mut world = NodeRecordsFixture::new(1);
        world.run_pass();
        world.advance(40);
        world.update_node("n0", change);
        world.advance(11);
        world.node_records.has_exceeded_grace_period("n0", world.now)
    };
    assert!(silent(|_| {}), "the same report");
    assert!(silent(|node| node["spec"]["unschedulable"] = json!(true)), "a write of a user");
    assert!(!silent(|node| node["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-11-21T09:05:00Z")));
    assert!(
        !silent(|node| node["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2020-01-01T00:00:00Z")),
        "a clock that was set back"
    );
    assert!(
        !silent(|node| node["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2036-01-01T00:00:00Z")),
        "a clock in the future"
    );
    assert!(silent(|node| node["status"]["conditions"][0]["status"] = json!("Unknown")), "a write of this program");
}

/// NODE-3, NODE-4, NODE-79.
#[test]
fn a_lease_is_a_heartbeat_when_its_time_changes() {
    let mut world = NodeRecordsFixture::new(1);
    world.run_pass();
    let at = |second| Some(Timestamp::from_second(second).unwrap());
    let heard = |world: &NodeRecordsFixture| {
        world.node_records.node_snapshot("n0", world.now, None).unwrap().time_since_last_heartbeat.as_secs()
    };
    let mut renew = |renewal| {
        world.advance(10);
        world.node_records.record_lease_renewal("n0", renewal, world.now);
        heard(&world)
    };
    assert_eq!(renew(None), 0, "the first Lease counts, even without a time");
    assert_eq!(renew(None), 10);
    assert_eq!(renew(at(100)), 0);
    assert_eq!(renew(at(100)), 10);
    assert_eq!(renew(at(50)), 0, "also when the clock of the node is set back");
}

/// NODE-73.
#[test]
fn only_nodes_whose_arrival_was_reported_are_reported_as_removed() {
    let mut world = NodeRecordsFixture::new(2);
    world.node_records.remove_node(&Arc::from("n0"));
    let due = world.next_nodes_to_report();
    assert_eq!((due.added_nodes.len(), due.removed_nodes.len()), (1, 0));
    world.run_pass();
    world.node_records.remove_node(&Arc::from("n1"));
    let due = world.next_nodes_to_report();
    assert_eq!((due.added_nodes.len(), due.removed_nodes.len()), (0, 1));
    world.run_pass();
    assert_eq!(world.next_nodes_to_report().removed_nodes.len(), 0);
}

/// NODE-7, NODE-81.
#[test]
fn a_node_is_not_silent_in_the_first_pass_that_examines_it() {
    let mut world = NodeRecordsFixture::new(1);
    world.advance(60);
    assert_eq!(world.run_pass(), ["n0 nothing"]);
    world.advance(50);
    assert!(!world.node_records.has_exceeded_grace_period("n0", world.now));
    world.advance(1);
    assert_eq!(world.run_pass(), ["n0 lapse"]);
}

/// The specification's table of health records. Columns: row, conditions before, conditions 40 seconds later, seconds since the
/// last heartbeat. In row a, upstream counts from the creation of the node.
/// NODE-3, NODE-5.
#[test]
fn each_row_of_the_table_of_records() {
    let report = |status: &str, reason: &str, at: &str| json!([{"type": "Ready", "status": status, "reason": reason, "lastHeartbeatTime": at}]);
    let ready = |at: &str| report("True", "KubeletReady", at);
    let never = report("Unknown", silence::KUBELET_NEVER_REPORTED_REASON_AND_MESSAGE.0, "2026-11-21T08:00:00Z");
    let (none, nine, ten) = (json!([]), "2026-11-21T09:00:00Z", "2026-11-21T10:00:00Z");
    for (row, before, after, heard_ago) in [
        ("a", None, none.clone(), 0),
        ("b", Some(ready(nine)), none.clone(), 40),
        ("b", Some(none.clone()), none.clone(), 40),
        ("c", None, ready(nine), 0),
        ("d", Some(none.clone()), ready(nine), 0),
        ("d, written by this program", Some(none.clone()), never, 40),
        ("e", Some(ready(nine)), ready(nine), 40),
        ("e, with another status", Some(ready(nine)), report("False", "KubeletNotReady", nine), 40),
        ("f", Some(ready(nine)), ready(ten), 0),
        ("f, back in time", Some(ready(ten)), ready(nine), 0),
    ] {
        let mut world = NodeRecordsFixture::new(0);
        if let Some(conditions) = before {
            world.update_node("n", |node| node["status"]["conditions"] = conditions);
            world.renew_lease("n");
        }
        world.advance(40);
        world.update_node("n", |node| node["status"]["conditions"] = after);
        let heard = |world: &NodeRecordsFixture| {
            world.node_records.node_snapshot("n", world.now, None).unwrap().time_since_last_heartbeat.as_secs()
        };
        assert_eq!(heard(&world), heard_ago, "{row}");
        // A second arrival of the same renewal time is no heartbeat in any row.
        let seen = Timestamp::from_second(1_700_000_000 + 3).unwrap();
        if world.node_records.records["n"].lease_renewal == Some(Some(seen)) {
            world.node_records.record_lease_renewal("n", Some(seen), world.now);
            assert_eq!(heard(&world), heard_ago, "{row}, with the same Lease");
        }
    }
}
