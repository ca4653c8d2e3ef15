use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::{
    disruption::{Count, ZoneChange, ZoneState},
    objects::Node,
    sight::Sight,
    silence::{Lapsed, STOPPED},
    world::{self, GRACE, PERIOD, pass as snapshot},
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
    assert_eq!(plan.blind, None);
    let judged = &plan.judged[0];
    (judged.action.clone(), judged.due.map(|due| (due - snapshot.now).as_secs()))
}

fn lapse(kinds: &[(&'static str, bool)]) -> Action {
    Action::Lapse(kinds.iter().map(|(kind, is_missing)| Lapsed { kind, is_missing: *is_missing }).collect())
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
    use Cause::{NotReady, Unreachable};
    let (kubelet, lapsed) = ("KubeletNotReady", STOPPED.0);
    for (status, reason, taints, heard_ago, expected) in [
        ("False", kubelet, &["unreachable"][..], 0, Some(Action::Swap(NotReady))),
        ("False", kubelet, &[], 0, Some(Action::Wait(NotReady))),
        ("False", kubelet, &["not-ready"], 0, None),
        ("Unknown", lapsed, &["not-ready"], 60, Some(Action::Swap(Unreachable))),
        ("Unknown", lapsed, &[], 60, Some(Action::Wait(Unreachable))),
        ("Unknown", lapsed, &["unreachable"], 60, None),
        ("True", "KubeletReady", &["unreachable"], 0, Some(Action::Relieve)),
        ("True", "KubeletReady", &["not-ready", "unreachable"], 0, Some(Action::Relieve)),
        ("True", "KubeletReady", &[], 0, None),
        // Another process found the node silent, but its grace period in this process has not passed.
        ("Unknown", lapsed, &[], 40, None),
        // The kubelet itself reports `Unknown`, so the grace period does not matter.
        ("Unknown", "Kubelet", &[], 0, Some(Action::Wait(Unreachable))),
        ("Odd", "Kubelet", &[], 0, None),
    ] {
        let (action, _) = does(&snapshot(node(Some((status, reason)), taints), heard_ago));
        assert_eq!(action, expected, "{status} {reason} {taints:?} {heard_ago}");
    }
}

#[test]
fn a_waiting_node_is_not_made_to_wait_again() {
    let mut waits = snapshot(node(Some(("False", "r")), &[]), 0);
    waits.examined[0].waits = true;
    assert_eq!(does(&waits).0, None);
}

/// NODE-18, NODE-80.
#[test]
fn grace_periods_start_with_the_live_view() {
    let silent = || snapshot(node(Some(("True", "r")), &[]), 1000);
    let mut returned = silent();
    returned.sight = Sight::new(PERIOD, GRACE.monitor);
    returned.sight.note(returned.now - Duration::from_secs(10));
    assert_eq!(does(&returned), (None, Some(40)));
    let mut recovered = silent();
    recovered.grace_from = Some(recovered.now - Duration::from_secs(20));
    assert_eq!(does(&recovered), (None, Some(30)));
}

/// NODE-16, NODE-17, NODE-80.
#[test]
fn a_blind_process_judges_no_node_and_requests_evidence_of_a_live_view() {
    let silent = || snapshot(node(Some(("True", "r")), &[]), 1000);
    let mut blind = silent();
    blind.sight = Sight::new(PERIOD, GRACE.monitor);
    let plan = decide(&blind);
    assert!(plan.blind.is_some() && plan.checks && plan.judged.is_empty() && plan.zones.is_empty());
    let mut stale = silent();
    stale.now += Duration::from_secs(13);
    let plan = decide(&stale);
    assert!(plan.checks && plan.blind.is_none() && plan.judged.is_empty(), "the process is not blind yet");
    let mut troubled = silent();
    troubled.trouble = Some("nodes cannot be watched".to_owned());
    let plan = decide(&troubled);
    assert_eq!((plan.blind.as_deref(), plan.checks), (Some("nodes cannot be watched"), false));
    assert!(plan.judged.is_empty());
}

/// NODE-37.
#[test]
fn silent_nodes_count_as_not_ready_before_their_conditions_are_written() {
    let mut last = snapshot(node(Some(("True", "r")), &[]), 51);
    let standing = ZoneStanding { state: ZoneState::Normal, count: Count { ready: 1, not_ready: 4 } };
    last.zones = [(Text::default(), standing)].into();
    let plan = decide(&last);
    assert_eq!(plan.disruption, Disruption::Begins);
    assert_eq!(plan.zones[&Text::default()], ZoneChange { state: ZoneState::FullDisruption, rate: 0.0 });
    last.examined[0].counts = false;
    assert_eq!(decide(&last).disruption, Disruption::None, "an excluded node changes nothing");
}

/// NODE-38, NODE-39.
#[test]
fn a_total_disruption_removes_taints_and_its_end_restarts_grace_periods() {
    let mut down = snapshot(node(Some(("Unknown", STOPPED.0)), &["unreachable"]), 1000);
    let zone = |state, ready| {
        let standing = ZoneStanding { state, count: Count { ready, not_ready: 4 } };
        BTreeMap::from([(Text::default(), standing)])
    };
    down.zones = zone(ZoneState::FullDisruption, 0);
    down.was_total = true;
    assert_eq!(does(&down).0, Some(Action::Relieve));
    let mut over = snapshot(node(Some(("True", "r")), &[]), 30);
    over.zones = zone(ZoneState::FullDisruption, 1);
    over.was_total = true;
    assert_eq!(does(&over), (None, Some(50)));
    assert_eq!(decide(&over).disruption, Disruption::Ends);
}
