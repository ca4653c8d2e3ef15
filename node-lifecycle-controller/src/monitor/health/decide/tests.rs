use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::{
    disruption::{NodeCounts, ZoneState, ZoneStateChange},
    objects::Node,
    server_contact::ServerContact,
    silence::{KUBELET_STOPPED_REASON_AND_MESSAGE, StaleCondition},
    world::{self, GRACE_PERIODS, PASS_PERIOD, health_snapshot as snapshot},
};

fn node(ready: Option<(&str, &str)>, taints: &[&str]) -> Arc<Node> {
    let ready = ready.map(|(status, reason)| json!({"type": "Ready", "status": status, "reason": reason}));
    let others = [("DiskPressure", "False"), ("PIDPressure", "Unknown")];
    let others = others.map(|(kind, status)| json!({"type": kind, "status": status}));
    let conditions: Vec<Value> = ready.into_iter().chain(others).collect();
    let taint = |key: &&str| json!({"key": format!("node.kubernetes.io/{key}"), "effect": "NoExecute"});
    let taints: Vec<Value> = taints.iter().map(taint).collect();
    world::node("n", json!({"spec": {"taints": taints}, "status": {"conditions": conditions}}))
}

/// Returns the action on the first examined node, and the seconds until this node is examined again.
fn does(snapshot: &HealthSnapshot) -> (Option<Action>, Option<u64>) {
    let plan = decide(snapshot);
    assert_eq!(plan.outage_reason, None);
    let judged = &plan.node_decisions[0];
    (judged.action.clone(), judged.next_examination_at.map(|due| (due - snapshot.now).as_secs()))
}

fn lapse(kinds: &[(&'static str, bool)]) -> Action {
    Action::SetConditionsUnknown(
        kinds
            .iter()
            .map(|(kind, is_missing)| StaleCondition { condition_type: kind, is_missing: *is_missing })
            .collect(),
    )
}

/// NODE-6, NODE-8, NODE-9.
#[test]
fn a_node_is_silent_after_its_grace_period_and_not_before() {
    let ready = || node(Some(("True", "KubeletReady")), &[]);
    let all = [("Ready", false), ("MemoryPressure", true), ("DiskPressure", false)];
    assert_eq!(does(&snapshot(ready(), 0)), (None, Some(50)));
    assert_eq!(does(&snapshot(ready(), 50)), (None, Some(0)), "the grace period has not passed at its last second");
    assert_eq!(
        does(&snapshot(ready(), 51)),
        (Some(lapse(&all)), None),
        "a condition that is already Unknown is not changed"
    );
    let new = || node(None, &[]);
    let missing = [("Ready", true), ("MemoryPressure", true), ("DiskPressure", false)];
    assert_eq!(does(&snapshot(new(), 60)), (None, Some(0)));
    assert_eq!(does(&snapshot(new(), 61)), (Some(lapse(&missing)), None));
    let down = node(Some(("False", "KubeletNotReady")), &["not-ready"]);
    assert_eq!(does(&snapshot(down, 51)).0, Some(lapse(&all)));
}

/// NODE-23, NODE-24, NODE-25, NODE-26.
#[test]
fn taints_follow_from_the_condition() {
    use TaintCause::{NotReady, Unreachable};
    let (kubelet, lapsed) = ("KubeletNotReady", KUBELET_STOPPED_REASON_AND_MESSAGE.0);
    for (status, reason, taints, heard_ago, expected) in [
        ("False", kubelet, &["unreachable"][..], 0, Some(Action::ReplaceNoExecute(NotReady))),
        ("False", kubelet, &[], 0, Some(Action::WaitForTaint(NotReady))),
        ("False", kubelet, &["not-ready"], 0, None),
        ("Unknown", lapsed, &["not-ready"], 60, Some(Action::ReplaceNoExecute(Unreachable))),
        ("Unknown", lapsed, &[], 60, Some(Action::WaitForTaint(Unreachable))),
        ("Unknown", lapsed, &["unreachable"], 60, None),
        ("True", "KubeletReady", &["unreachable"], 0, Some(Action::RemoveNoExecute)),
        ("True", "KubeletReady", &["not-ready", "unreachable"], 0, Some(Action::RemoveNoExecute)),
        ("True", "KubeletReady", &[], 0, None),
        // Another process has set the condition, but the grace period in this process has not passed.
        ("Unknown", lapsed, &[], 40, None),
        // The kubelet itself reports `Unknown`, so the grace period does not matter.
        ("Unknown", "Kubelet", &[], 0, Some(Action::WaitForTaint(Unreachable))),
        ("Odd", "Kubelet", &[], 0, None),
    ] {
        let (action, _) = does(&snapshot(node(Some((status, reason)), taints), heard_ago));
        assert_eq!(action, expected, "{status} {reason} {taints:?} {heard_ago}");
    }
}

#[test]
fn a_waiting_node_is_not_made_to_wait_again() {
    let mut waits = snapshot(node(Some(("False", "r")), &[]), 0);
    waits.examined_nodes[0].is_waiting_for_taint = true;
    assert_eq!(does(&waits).0, None);
}

/// NODE-18, NODE-80.
#[test]
fn grace_periods_start_with_the_live_view() {
    let silent = || snapshot(node(Some(("True", "r")), &[]), 1000);
    let mut returned = silent();
    returned.server_contact = ServerContact::new(PASS_PERIOD, GRACE_PERIODS.node_monitor_grace_period);
    returned.server_contact.record_contact(returned.now - Duration::from_secs(10));
    assert_eq!(does(&returned), (None, Some(40)));
    let mut recovered = silent();
    recovered.grace_periods_restarted_at = Some(recovered.now - Duration::from_secs(20));
    assert_eq!(does(&recovered), (None, Some(30)));
}

/// NODE-16, NODE-17, NODE-80.
#[test]
fn a_blind_process_judges_no_node_and_requests_evidence_of_a_live_view() {
    let silent = || snapshot(node(Some(("True", "r")), &[]), 1000);
    let mut blind = silent();
    blind.server_contact = ServerContact::new(PASS_PERIOD, GRACE_PERIODS.node_monitor_grace_period);
    let plan = decide(&blind);
    assert!(
        plan.outage_reason.is_some()
            && plan.reads_leases
            && plan.node_decisions.is_empty()
            && plan.zone_changes.is_empty()
    );
    let mut stale = silent();
    stale.now += Duration::from_secs(13);
    let plan = decide(&stale);
    assert!(
        plan.reads_leases && plan.outage_reason.is_none() && plan.node_decisions.is_empty(),
        "the process is not blind yet"
    );
    let mut troubled = silent();
    troubled.watch_error = Some("nodes cannot be watched".to_owned());
    let plan = decide(&troubled);
    assert_eq!((plan.outage_reason.as_deref(), plan.reads_leases), (Some("nodes cannot be watched"), false));
    assert!(plan.node_decisions.is_empty());
}

/// NODE-37.
#[test]
fn silent_nodes_count_as_not_ready_before_their_conditions_are_written() {
    let mut last = snapshot(node(Some(("True", "r")), &[]), 51);
    let standing = ZoneStatus { state: ZoneState::Normal, node_counts: NodeCounts { ready: 1, not_ready: 4 } };
    last.zones = [(Text::default(), standing)].into();
    let plan = decide(&last);
    assert_eq!(plan.cluster_disruption, ClusterDisruption::TotalBegins);
    assert_eq!(
        plan.zone_changes[&Text::default()],
        ZoneStateChange { state: ZoneState::FullDisruption, tainting_rate: 0.0 }
    );
    last.examined_nodes[0].is_counted_as_ready = false;
    assert_eq!(decide(&last).cluster_disruption, ClusterDisruption::NotTotal, "an excluded node changes nothing");
}

/// NODE-38, NODE-39.
#[test]
fn a_total_disruption_removes_taints_and_its_end_restarts_grace_periods() {
    let mut down = snapshot(node(Some(("Unknown", KUBELET_STOPPED_REASON_AND_MESSAGE.0)), &["unreachable"]), 1000);
    let zone = |state, ready| {
        let standing = ZoneStatus { state, node_counts: NodeCounts { ready, not_ready: 4 } };
        BTreeMap::from([(Text::default(), standing)])
    };
    down.zones = zone(ZoneState::FullDisruption, 0);
    down.was_total_disruption = true;
    assert_eq!(does(&down).0, Some(Action::RemoveNoExecute));
    let mut over = snapshot(node(Some(("True", "r")), &[]), 30);
    over.zones = zone(ZoneState::FullDisruption, 1);
    over.was_total_disruption = true;
    assert_eq!(does(&over), (None, Some(50)));
    assert_eq!(decide(&over).cluster_disruption, ClusterDisruption::TotalEnds);
}
