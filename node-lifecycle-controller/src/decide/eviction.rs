//! Whether a Pod has to leave its node, and when.

use std::{sync::Arc, time::Duration};

use common::{
    clock::Instant,
    controller::Describe,
    meta::{Key, Uid},
    taints::Taint,
};
use jiff::Timestamp;

use crate::objects::CachedPod;

/// The longest wait: longer than any cluster lives, and short enough to be added to any time.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How long a Pod may stay on a node that is ready and has a taint of the node monitor, which is about to be removed, before
/// the node is looked at again: several passes of the monitor.
const CONTRADICTION: Duration = Duration::from_secs(15);

/// Everything one sync of a Pod may look at.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Namespace and name of the Pod.
    pub key: Key,
    /// The Pod, if it exists.
    pub pod: Option<Arc<CachedPod>>,
    /// The `NoExecute` taints of its node; `None` if the node does not exist.
    pub taints: Option<Vec<Taint>>,
    /// Whether the node reports that it is ready and all these taints say that it is not.
    pub is_contradicted: bool,
    /// When the Lease of such a node was renewed last, as the server has it; `None` if there is no Lease, or if it was not read.
    pub renewal: Option<Timestamp>,
    /// How long a node may be silent.
    pub grace: Duration,
    /// The timer of the Pod, or of an earlier Pod of the same name.
    pub timer: Option<Timer>,
    /// The time of the sync.
    pub now: Instant,
    /// Whether the toleration operators `Lt` and `Gt` are enabled.
    pub compares: bool,
}

/// A deletion that is due later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    /// The Pod to delete.
    pub pod: Uid,
    /// The time of the deletion.
    pub due: Instant,
    /// Whether the deletion was due before and the taint was expected to be removed.
    pub is_last: bool,
    /// The last renewal of the Lease of the node, once the taint has been expected in vain.
    pub heard: Option<Heard>,
}

/// A renewal of a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The time of the renewal, which is only compared with others.
    pub renewal: Timestamp,
    /// When it was first seen.
    pub at: Instant,
}

impl Timer {
    fn is_due(&self, now: Instant) -> bool {
        self.due <= now
    }
}

/// What one sync of a Pod does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The time until the timer is due, if the Pod waits for one.
    pub requeue_after: Option<Duration>,
    /// Whether a timer is removed although its Pod was not deleted; this is reported as an Event.
    pub cancels: bool,
    /// The action.
    pub then: Then,
    /// The reason of the action.
    pub why: &'static str,
}

/// What happens to a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// The Pod stays, and has no timer afterwards.
    Nothing,
    /// The Pod stays until this timer is due.
    Wait(Timer),
    /// The Pod is deleted now.
    Delete {
        /// When the deletion became due.
        since: Instant,
    },
}

/// How long a Pod may stay on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    /// A taint is not tolerated.
    No,
    /// Every taint is tolerated; this is the shortest `tolerationSeconds`.
    For(Duration),
    /// Every taint is tolerated without a limit.
    Always,
}

/// The stay that the tolerations of a Pod allow: for each taint the first toleration that matches it counts, and the shortest
/// of these limits decides.
fn stay(pod: &CachedPod, taints: &[Taint], compares: bool) -> Stay {
    let mut least: Option<i64> = None;
    for taint in taints {
        let Some(toleration) = pod.tolerations.iter().find(|t| t.tolerates(taint, compares)) else { return Stay::No };
        if let Some(seconds) = toleration.seconds {
            let seconds = seconds.max(0);
            least = Some(least.map_or(seconds, |known| known.min(seconds)));
        }
    }
    match least {
        None => Stay::Always,
        Some(seconds) => Stay::For(Duration::from_secs(seconds.unsigned_abs()).min(FOR_EVER)),
    }
}

/// Decides whether a Pod stays, waits or is deleted. Upstream: `pkg/controller/tainteviction`, `processPodOnNode`.
pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    let plan = decide_by_taints(snapshot);
    match (&plan.then, &snapshot.pod) {
        (Then::Delete { .. }, Some(pod)) if snapshot.is_contradicted => wait_for_the_monitor(snapshot, pod, plan),
        _ => plan,
    }
}

/// Waits for the taint to be removed instead of deleting the Pod: a little, and for as long as the node renews its Lease.
fn wait_for_the_monitor(snapshot: &Snapshot, pod: &CachedPod, plan: Plan) -> Plan {
    let last = snapshot.timer.as_ref().filter(|timer| timer.is_last && timer.pod == pod.meta.uid);
    let timer = match last {
        Some(timer) if !timer.is_due(snapshot.now) => timer.clone(),
        Some(timer) => {
            let Some(heard) = sign_of_life(snapshot, timer) else { return plan };
            Timer { due: snapshot.now + CONTRADICTION, heard: Some(heard), ..timer.clone() }
        }
        None => Timer { pod: pod.meta.uid.clone(), due: snapshot.now + CONTRADICTION, is_last: true, heard: None },
    };
    Plan {
        requeue_after: Some(timer.due.saturating_duration_since(snapshot.now)),
        cancels: plan.cancels && last.is_none(),
        then: Then::Wait(timer),
        why: CONTRADICTED,
    }
}

/// The last renewal of the Lease of the node, if there is one and the node has not been silent for its grace period since.
///
/// Who looks much later than the timer said was paused or could not read; the node may not have been able to renew then.
fn sign_of_life(snapshot: &Snapshot, timer: &Timer) -> Option<Heard> {
    let Snapshot { renewal, grace, now, .. } = snapshot;
    let renewal = (*renewal)?;
    let is_late = *now > timer.due + CONTRADICTION;
    match timer.heard {
        Some(heard) if heard.renewal == renewal && !is_late => {
            (now.saturating_duration_since(heard.at) < *grace).then_some(heard)
        }
        _ => Some(Heard { renewal, at: *now }),
    }
}

fn decide_by_taints(snapshot: &Snapshot) -> Plan {
    let Snapshot { pod, taints, timer, now, compares, .. } = snapshot;
    let plan = |cancels, then, why| {
        let left = |timer: &Timer| timer.due.saturating_duration_since(*now);
        let requeue_after = if let Then::Wait(timer) = &then { Some(left(timer)) } else { None };
        Plan { requeue_after, cancels, then, why }
    };
    let is_waiting = timer.as_ref().is_some_and(|timer| !timer.is_due(*now));
    let Some(pod) = pod else { return plan(is_waiting, Then::Nothing, "the Pod is gone") };
    if pod.meta.is_deleting() && pod.disrupted.is_some() {
        return plan(is_waiting, Then::Nothing, "it is terminating and has the condition with the reason");
    }
    // The timer of an earlier Pod of the same name ended with that Pod.
    let timer = timer.as_ref().filter(|timer| timer.pod == pod.meta.uid);
    let cancels_other = is_waiting && timer.is_none();
    let Some(taints) = taints else {
        // A timer outlives its node, whose taints can no longer be removed.
        return match timer {
            Some(timer) if timer.is_due(*now) => {
                plan(false, Then::Delete { since: timer.due }, "its time on its node is over")
            }
            Some(timer) => plan(false, Then::Wait(timer.clone()), "its time on its node is not over"),
            None => plan(cancels_other, Then::Nothing, "its node is not known"),
        };
    };
    let cancels_any = timer.is_some() || cancels_other;
    if taints.is_empty() {
        return plan(cancels_any, Then::Nothing, "its node has no NoExecute taint");
    }
    match (stay(pod, taints, *compares), timer) {
        (Stay::No, _) => plan(is_waiting, Then::Delete { since: *now }, "it does not tolerate a taint of its node"),
        (Stay::Always, _) => plan(cancels_any, Then::Nothing, "it tolerates the taints of its node"),
        (Stay::For(_), Some(timer)) if timer.is_due(*now) => {
            plan(false, Then::Delete { since: timer.due }, "it no longer tolerates a taint of its node")
        }
        // A timer is kept as it is, even if the present taints would give another time.
        (Stay::For(_), Some(timer)) => {
            plan(false, Then::Wait(timer.clone()), if timer.is_last { CONTRADICTED } else { LIMITED })
        }
        (Stay::For(Duration::ZERO), None) => {
            plan(cancels_other, Then::Delete { since: *now }, "it tolerates a taint of its node for no time")
        }
        (Stay::For(limit), None) => {
            let due = now.checked_add(limit).unwrap_or(*now);
            plan(
                cancels_other,
                Then::Wait(Timer { pod: pod.meta.uid.clone(), due, is_last: false, heard: None }),
                LIMITED,
            )
        }
    }
}

const CONTRADICTED: &str = "its node is ready, so the taint should be removed soon";
const LIMITED: &str = "it tolerates a taint of its node for a limited time";

impl Describe for Plan {
    fn situation(&self) -> String {
        format!("{}{}", self.why, if self.cancels { "; its timer is cancelled" } else { "" })
    }

    fn waiting(&self) -> Vec<String> {
        let Then::Wait(_) = &self.then else { return Vec::new() };
        vec!["the Pod is deleted when its timer is due".to_owned()]
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
    }

    fn is_notable(&self) -> bool {
        self.cancels
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(tolerations: &Value) -> CachedPod {
        let json = json!({"metadata": {"name": "p", "namespace": "shop", "uid": "u"},
            "spec": {"nodeName": "n", "tolerations": tolerations}});
        serde_json::from_str(&json.to_string()).unwrap()
    }

    fn taints(keys: &str) -> Vec<Taint> {
        let one = |key: &str| Taint { key: key.into(), effect: "NoExecute".into(), ..Taint::default() };
        keys.split_whitespace().map(one).collect()
    }

    /// The table of the specification: how long a Pod with these tolerations stays with taints of these keys.
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
        let seconds = |seconds| Stay::For(Duration::from_secs(seconds));
        for (tolerations, keys, expected) in [
            (json!([]), "unreachable", Stay::No),
            (json!([t("unreachable", json!(300))]), "unreachable", seconds(300)),
            (json!([every()]), "k", Stay::Always),
            (json!([t("k", json!(10)), every()]), "k", seconds(10)),
            (json!([every(), t("k", json!(10))]), "k", Stay::Always),
            (json!([t("k", json!(-5))]), "k", seconds(0)),
            (json!([t("a", json!(60)), t("b", json!(null))]), "a b", seconds(60)),
            (json!([t("a", json!(60))]), "a b", Stay::No),
            (json!([t("a", json!(60)), t("b", json!(20))]), "a b", seconds(20)),
            (json!([t("a", json!(i64::MAX))]), "a", Stay::For(FOR_EVER)),
        ] {
            assert_eq!(stay(&pod(&tolerations), &taints(keys), false), expected, "{tolerations} {keys}");
        }
    }

    fn timer_of(uid: &str, due: Instant) -> Timer {
        Timer { pod: Uid::new(uid), due, is_last: false, heard: None }
    }

    fn snapshot(tolerations: &Value, keys: Option<&str>, timer: Option<(&str, i64)>) -> Snapshot {
        let now = common::clock::Clock::system().instant() + Duration::from_secs(1000);
        let due = |seconds: i64| {
            let by = Duration::from_secs(seconds.unsigned_abs());
            if seconds < 0 { now - by } else { now + by }
        };
        Snapshot {
            key: Key::new("shop", "p"),
            pod: Some(Arc::new(pod(tolerations))),
            taints: keys.map(taints),
            is_contradicted: false,
            renewal: None,
            grace: Duration::from_secs(50),
            timer: timer.map(|(uid, seconds)| timer_of(uid, due(seconds))),
            now,
            compares: false,
        }
    }

    /// What is done, in words.
    fn does(snapshot: &Snapshot) -> String {
        let plan = decide(snapshot);
        let then = match plan.then {
            Then::Nothing => "nothing".to_owned(),
            Then::Wait(timer) => format!("wait {}", timer.due.saturating_duration_since(snapshot.now).as_secs()),
            Then::Delete { .. } => "delete".to_owned(),
        };
        if plan.cancels { format!("cancel, {then}") } else { then }
    }

    #[test]
    fn timers_are_armed_kept_stopped_and_over() {
        let (none, always) = (json!([]), json!([{"operator": "Exists"}]));
        let for_300 = json!([{"operator": "Exists", "tolerationSeconds": 300}]);
        for (tolerations, keys, timer, expected) in [
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
            // Another Pod of that name had it.
            (&for_300, Some("k"), Some(("v", 5)), "cancel, wait 300"),
            (&always, Some("k"), Some(("v", 5)), "cancel, nothing"),
            // It was due: its Pod was deleted, and nothing is cancelled.
            (&always, Some("k"), Some(("v", -5)), "nothing"),
            (&none, Some("k"), Some(("v", -5)), "delete"),
            (&none, Some("k"), Some(("u", -5)), "delete"),
            (&always, Some("k"), Some(("u", -5)), "cancel, nothing"),
            (&for_300, Some(""), Some(("u", -5)), "cancel, nothing"),
            (&for_300, None, Some(("v", 5)), "cancel, nothing"),
        ] {
            assert_eq!(does(&snapshot(tolerations, keys, timer)), expected, "{tolerations} {keys:?} {timer:?}");
        }
        let mut gone = snapshot(&none, Some("k"), Some(("u", 5)));
        gone.pod = None;
        assert_eq!(does(&gone), "cancel, nothing");
        gone.timer = snapshot(&none, None, Some(("u", -5))).timer.map(|timer| Timer { due: gone.now, ..timer });
        assert_eq!(does(&gone), "nothing", "its Pod was deleted");
    }

    #[test]
    fn a_pod_on_a_ready_node_waits_once_for_the_taint_to_be_removed() {
        let (none, for_300) = (json!([]), json!([{"operator": "Exists", "tolerationSeconds": 300}]));
        let contradicted = |tolerations, timer, is_last| {
            let mut snapshot = snapshot(tolerations, Some("k"), timer);
            snapshot.is_contradicted = true;
            if let Some(timer) = &mut snapshot.timer {
                timer.is_last = is_last;
            }
            does(&snapshot)
        };
        for (tolerations, timer, is_last, expected) in [
            (&none, None, false, "wait 15"),
            (&none, Some(("u", 10)), true, "wait 10"),
            (&none, Some(("u", 0)), true, "delete"),
            (&none, Some(("v", 0)), true, "wait 15"),
            (&none, Some(("u", 200)), false, "cancel, wait 15"),
            (&for_300, None, false, "wait 300"),
            (&for_300, Some(("u", 200)), false, "wait 200"),
            (&for_300, Some(("u", 0)), false, "wait 15"),
            (&for_300, Some(("u", 10)), true, "wait 10"),
            (&for_300, Some(("u", 0)), true, "delete"),
        ] {
            assert_eq!(contradicted(tolerations, timer, is_last), expected, "{tolerations} {timer:?} {is_last}");
        }
    }

    #[test]
    fn a_pod_stays_on_a_ready_node_while_its_lease_is_renewed() {
        let (first, second) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH + Duration::from_secs(10));
        // The renewal that is read; the one known and for how long; how late the sync is. What is done, and since when what
        // is read is known then.
        for (renewal, known, late, expected, heard) in [
            (None, None, 0, "delete", None),
            (None, Some((first, 15)), 0, "delete", None),
            (Some(first), None, 0, "wait 15", Some(0)),
            (Some(first), Some((first, 45)), 0, "wait 15", Some(45)),
            (Some(first), Some((first, 50)), 0, "delete", None),
            (Some(first), Some((first, 60)), 15, "delete", None),
            (Some(first), Some((first, 61)), 16, "wait 15", Some(0)),
            (Some(second), Some((first, 60)), 0, "wait 15", Some(0)),
            // The clock of the node went back.
            (Some(first), Some((second, 60)), 0, "wait 15", Some(0)),
        ] {
            let mut snapshot = snapshot(&json!([]), Some("k"), Some(("u", -late)));
            (snapshot.is_contradicted, snapshot.renewal) = (true, renewal);
            let timer = snapshot.timer.as_mut().unwrap();
            timer.is_last = true;
            let at = |ago| snapshot.now - Duration::from_secs(ago);
            timer.heard = known.map(|(renewal, ago)| Heard { renewal, at: at(ago) });
            let about = format!("{renewal:?} {known:?} {late}");
            assert_eq!(does(&snapshot), expected, "{about}");
            let Then::Wait(timer) = decide(&snapshot).then else { continue };
            let since = timer.heard.map(|heard| (Some(heard.renewal), (snapshot.now - heard.at).as_secs()));
            assert_eq!(since, heard.map(|ago| (renewal, ago)), "{about}");
        }
    }

    #[test]
    fn the_time_since_which_a_deletion_is_due_is_that_of_its_timer() {
        let for_300 = json!([{"operator": "Exists", "tolerationSeconds": 300}]);
        for (keys, timer, ago) in [(Some("k"), Some(("u", -7)), 7), (None, Some(("u", -7)), 7), (Some("j k"), None, 0)]
        {
            let tolerations = if timer.is_some() { for_300.clone() } else { json!([]) };
            let snapshot = snapshot(&tolerations, keys, timer);
            let Then::Delete { since } = decide(&snapshot).then else { panic!("{keys:?} is no deletion") };
            assert_eq!((snapshot.now - since).as_secs(), ago, "{keys:?}");
        }
    }

    #[test]
    fn a_terminating_pod_with_the_condition_is_left_alone() {
        let mut going = snapshot(&json!([]), Some("k"), None);
        let mut pod = pod(&json!([]));
        pod.meta.deleted = Some(jiff::Timestamp::UNIX_EPOCH);
        going.pod = Some(Arc::new(pod.clone()));
        assert_eq!(does(&going), "delete", "it does not say why");
        pod.disrupted = crate::objects::DisruptedSince::new(jiff::Timestamp::UNIX_EPOCH);
        going.pod = Some(Arc::new(pod));
        assert_eq!(does(&going), "nothing");
        going.timer = Some(timer_of("u", going.now));
        assert_eq!(does(&going), "nothing", "the timer has done its work");
        going.timer = Some(timer_of("u", going.now + Duration::from_secs(1)));
        assert_eq!(does(&going), "cancel, nothing");
        going.taints = None;
        going.timer = Some(timer_of("u", going.now));
        assert_eq!(does(&going), "nothing", "its node is gone, and it is deleted already");
    }
}
