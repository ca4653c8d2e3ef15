use serde_json::json;

use super::*;
use crate::world::{at, pod};

fn disruption(status: serde_json::Value) -> Option<Disruption> {
    pod("web", "", &json!({ "status": status })).disruption
}

/// DISRUPTION-47.
#[test]
fn only_a_condition_of_a_running_pod_that_no_kubelet_has_set_is_stale() {
    let condition =
        |status: &str, reason: &str| json!({"type": "DisruptionTarget", "status": status, "reason": reason});
    let is_stale = |phase: &str, conditions: &[serde_json::Value]| {
        disruption(json!({"phase": phase, "conditions": conditions})).is_some()
    };
    assert!(is_stale("Running", &[condition("True", "EvictionByEvictionAPI")]));
    assert!(is_stale("Pending", &[condition("True", "")]));
    assert!(!is_stale("Failed", &[condition("True", "")]) && !is_stale("Succeeded", &[condition("True", "")]));
    assert!(!is_stale("Running", &[condition("False", "")]));
    assert!(!is_stale("Running", &[condition("True", "TerminationByKubelet")]));
    assert!(!is_stale("Running", &[condition("False", ""), condition("True", "")]));
    let terminating = json!({"metadata": {"deletionTimestamp": at(0).to_string()}, "status": {"conditions": [condition("True", "")]}});
    assert_eq!(pod("web", "", &terminating).disruption, None);
}

/// DISRUPTION-48, DISRUPTION-49.
#[test]
fn a_condition_is_reset_two_minutes_after_its_transition() {
    let timeout = Duration::from_secs(120);
    for (since, expected) in [
        (Some(at(0)), Plan::Wait(timeout)),
        (Some(at(-119)), Plan::Wait(Duration::from_secs(1))),
        (Some(at(-120)), Plan::Reset),
        (Some(at(60)), Plan::Wait(Duration::from_secs(180))),
        (None, Plan::Reset),
    ] {
        let disruption = Disruption { since };
        let snapshot = Snapshot { pod: pod("web", "", &json!({})), disruption, timeout, now: at(0) };
        assert_eq!(decide(&snapshot), expected, "{since:?}");
    }
}
