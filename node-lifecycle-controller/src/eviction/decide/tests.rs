use serde_json::{Value, json};

use super::*;
use crate::world::{
    deletion_timer as timer_of, eviction_snapshot as snapshot, no_execute_taints, pod_with_tolerations as pod,
};

/// The specification's table. Columns: tolerations of the Pod, keys of the taints of its node, and how long the Pod may stay.
/// NODE-48, NODE-49.
#[test]
fn the_first_toleration_of_each_taint_counts_and_the_shortest_decides() {
    let t = |key: &str, seconds: Value| {
        let mut json = json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
        if !seconds.is_null() {
            json["tolerationSeconds"] = seconds;
        }
        json
    };
    let every = || json!({"operator": "Exists"});
    let seconds = |seconds| AllowedStay::Limited(Duration::from_secs(seconds));
    for (tolerations, keys, expected) in [
        (json!([]), "unreachable", AllowedStay::MustLeave),
        (json!([t("unreachable", json!(300))]), "unreachable", seconds(300)),
        (json!([every()]), "k", AllowedStay::Unlimited),
        (json!([t("k", json!(10)), every()]), "k", seconds(10)),
        (json!([every(), t("k", json!(10))]), "k", AllowedStay::Unlimited),
        (json!([t("k", json!(-5))]), "k", seconds(0)),
        (json!([t("a", json!(60)), t("b", json!(null))]), "a b", seconds(60)),
        (json!([t("a", json!(60))]), "a b", AllowedStay::MustLeave),
        (json!([t("a", json!(60)), t("b", json!(20))]), "a b", seconds(20)),
        (json!([t("a", json!(i64::MAX))]), "a", AllowedStay::Limited(MAX_TOLERATION_DURATION)),
    ] {
        assert_eq!(allowed_stay(&pod(&tolerations), &no_execute_taints(keys), false), expected, "{tolerations} {keys}");
    }
}

/// Decides, and formats the action: `nothing`, `wait 10` or `delete`, with the prefix `cancel, ` for a cancelled timer.
fn decided_action(snapshot: &Snapshot) -> String {
    let plan = decide(snapshot);
    let then = match plan.pod_action {
        PodAction::StayWithoutTimer => "nothing".to_owned(),
        PodAction::StayUntilTimer(timer) => {
            format!("wait {}", timer.due_at.saturating_duration_since(snapshot.now).as_secs())
        }
        PodAction::Delete { .. } => "delete".to_owned(),
    };
    if plan.cancels_timer { format!("cancel, {then}") } else { then }
}

/// NODE-48, NODE-50, NODE-51, NODE-52, NODE-53.
#[test]
fn timers_are_started_kept_cancelled_and_due() {
    let (none, always) = (json!([]), json!([{"operator": "Exists"}]));
    let for_seconds = |seconds: i64| json!([{"operator": "Exists", "tolerationSeconds": seconds}]);
    let for_300 = for_seconds(300);
    for (tolerations, keys, timer, expected) in [
        // A toleration of 0 or fewer seconds does not count, and starts no timer that could be cancelled.
        (&for_seconds(0), Some("k"), None, "delete"),
        (&for_seconds(-7), Some("k"), None, "delete"),
        (&none, Some("k"), None, "delete"),
        (&none, Some("k"), Some(("u", 10)), "cancel, delete"),
        (&none, Some(""), None, "nothing"),
        (&for_300, Some("k"), None, "wait 300"),
        (&for_300, Some("k"), Some(("u", 200)), "wait 200"),
        (&for_300, Some("k"), Some(("u", 0)), "delete"),
        (&for_300, Some("k"), Some(("u", -5)), "delete"),
        (&for_300, Some(""), Some(("u", 200)), "cancel, nothing"),
        (&always, Some("k"), Some(("u", 200)), "cancel, nothing"),
        (&for_300, None, Some(("u", 200)), "wait 200"),
        (&for_300, None, Some(("u", -1)), "delete"),
        (&for_300, None, None, "nothing"),
        // The timer has the UID `v`, so it belongs to an earlier Pod with the same name.
        (&for_300, Some("k"), Some(("v", 5)), "cancel, wait 300"),
        (&always, Some("k"), Some(("v", 5)), "cancel, nothing"),
        // The timer of the earlier Pod was due: that Pod was deleted, so no timer is cancelled.
        (&always, Some("k"), Some(("v", -5)), "nothing"),
        (&none, Some("k"), Some(("v", -5)), "delete"),
        (&none, Some("k"), Some(("u", -5)), "delete"),
        (&always, Some("k"), Some(("u", -5)), "cancel, nothing"),
        (&for_300, Some(""), Some(("u", -5)), "cancel, nothing"),
        (&for_300, None, Some(("v", 5)), "cancel, nothing"),
    ] {
        assert_eq!(decided_action(&snapshot(tolerations, keys, timer)), expected, "{tolerations} {keys:?} {timer:?}");
    }
    let mut gone = snapshot(&none, Some("k"), Some(("u", 5)));
    gone.pod = None;
    assert_eq!(decided_action(&gone), "cancel, nothing");
    gone.timer = snapshot(&none, None, Some(("u", -5))).timer.map(|timer| DeletionTimer { due_at: gone.now, ..timer });
    assert_eq!(decided_action(&gone), "nothing", "its Pod was deleted");
}

/// Returns the snapshot with a node whose taints may be wrong for so many seconds.
fn in_doubt(seconds: u64, snapshot: Snapshot) -> Snapshot {
    Snapshot { time_until_taint_confirmation: Some(Duration::from_secs(seconds)), ..snapshot }
}

/// Returns the snapshot with a timer of the Pod with this UID that is due in so many seconds and puts off a deletion.
fn put_off_for(uid: &str, seconds: u64, snapshot: Snapshot) -> Snapshot {
    let timer = timer_of(uid, snapshot.now + Duration::from_secs(seconds));
    Snapshot { timer: Some(DeletionTimer { is_deletion_put_off: true, ..timer }), ..snapshot }
}

/// NODE-59.
#[test]
fn a_pod_whose_node_may_be_healthy_is_not_deleted_for_taints_of_the_monitor() {
    let (none, for_300) = (json!([]), json!([{"operator": "Exists", "tolerationSeconds": 300}]));
    let ours = taints::NOT_READY_TAINT;
    let both = format!("{ours} {}", taints::UNREACHABLE_TAINT);
    let mixed = format!("{} k", taints::UNREACHABLE_TAINT);
    let intolerant = |taints: &str| snapshot(&none, Some(taints), None);
    let tolerant = |taints: &str| snapshot(&for_300, Some(taints), None);
    let scheduled = |seconds: i64, taints: &str| snapshot(&none, Some(taints), Some(("u", seconds)));
    let timed = |seconds: i64, taints: &str| snapshot(&for_300, Some(taints), Some(("u", seconds)));
    for (snapshot, expected) in [
        (in_doubt(3600, intolerant(ours)), "wait 15"),
        (in_doubt(3600, intolerant(&both)), "wait 15"),
        (in_doubt(1, intolerant(ours)), "wait 1"),
        (intolerant(ours), "delete"),
        (in_doubt(3600, intolerant("k")), "delete"),
        (in_doubt(3600, intolerant(&mixed)), "delete"),
        (in_doubt(3600, put_off_for("u", 10, intolerant(ours))), "wait 10"),
        // The taint is confirmed, but it is not checked again before the timer is due.
        (put_off_for("u", 10, intolerant(ours)), "wait 10"),
        // Another writer has added a taint, so heartbeats of the node no longer prevent the deletion.
        (in_doubt(3600, put_off_for("u", 10, intolerant(&mixed))), "cancel, delete"),
        (in_doubt(3600, put_off_for("u", 0, intolerant(ours))), "wait 15"),
        (put_off_for("u", 0, intolerant(ours)), "delete"),
        (in_doubt(3600, put_off_for("v", 0, intolerant(ours))), "wait 15"),
        (in_doubt(3600, scheduled(200, ours)), "cancel, wait 15"),
        (in_doubt(3600, tolerant(ours)), "wait 300"),
        (in_doubt(3600, timed(200, ours)), "wait 200"),
        (in_doubt(3600, timed(0, ours)), "wait 15"),
        (in_doubt(3600, timed(-600, ours)), "wait 15"),
        (timed(0, ours), "delete"),
        (in_doubt(3600, put_off_for("u", 0, tolerant(ours))), "wait 15"),
        (in_doubt(2, put_off_for("u", 0, tolerant(ours))), "wait 2"),
        (in_doubt(3600, timed(0, "k")), "delete"),
    ] {
        assert_eq!(decided_action(&snapshot), expected, "{snapshot:?}");
    }
}

#[test]
fn a_deletion_is_due_since_the_time_of_its_timer() {
    let for_300 = json!([{"operator": "Exists", "tolerationSeconds": 300}]);
    for (keys, timer, ago) in [(Some("k"), Some(("u", -7)), 7), (None, Some(("u", -7)), 7), (Some("j k"), None, 0)] {
        let tolerations = if timer.is_some() { for_300.clone() } else { json!([]) };
        let snapshot = snapshot(&tolerations, keys, timer);
        let PodAction::Delete { since } = decide(&snapshot).pod_action else { panic!("{keys:?} is no deletion") };
        assert_eq!((snapshot.now - since).as_secs(), ago, "{keys:?}");
    }
}

/// NODE-62.
#[test]
fn a_terminating_pod_with_the_condition_is_not_deleted_again() {
    let mut going = snapshot(&json!([]), Some("k"), None);
    let mut pod = pod(&json!([]));
    pod.meta.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH);
    going.pod = Some(Arc::new(pod.clone()));
    assert_eq!(decided_action(&going), "delete", "the condition with the reason is missing");
    pod.disruption_time = crate::objects::DisruptionTime::new(jiff::Timestamp::UNIX_EPOCH);
    going.pod = Some(Arc::new(pod));
    assert_eq!(decided_action(&going), "nothing");
    going.timer = Some(timer_of("u", going.now));
    assert_eq!(decided_action(&going), "nothing", "a due timer is not cancelled");
    going.timer = Some(timer_of("u", going.now + Duration::from_secs(1)));
    assert_eq!(decided_action(&going), "cancel, nothing");
    going.no_execute_taints = None;
    going.timer = Some(timer_of("u", going.now));
    assert_eq!(decided_action(&going), "nothing", "the node does not exist, and the Pod is already terminating");
}
