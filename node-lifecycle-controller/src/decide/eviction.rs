//! Whether a Pod has to leave, and when.

use std::{sync::Arc, time::Duration};

use common::{
    clock::Instant,
    controller::{Explain, Explanation},
    meta::{Key, Uid},
    taints::Taint,
};

use crate::objects::CachedPod;

/// The longest wait: longer than any cluster lives, and short enough to be added to any time.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// What one sync looks at.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Namespace and name of the Pod.
    pub key: Key,
    /// The Pod, if it is there.
    pub pod: Option<Arc<CachedPod>>,
    /// The taints of its node that Pods leave for; nothing if the node is not there.
    pub taints: Option<Vec<Taint>>,
    /// When a Pod of that name has to leave.
    pub timer: Option<Timer>,
    /// The time of the sync.
    pub now: Instant,
    /// Whether tolerations may compare numbers.
    pub compares: bool,
}

/// When a Pod has to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    /// Which Pod.
    pub pod: Uid,
    /// When.
    pub due: Instant,
}

/// What one sync does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How long until the Pod has to leave, if it may stay for now.
    pub requeue_after: Option<Duration>,
    /// Whether a timer is stopped before its time.
    pub cancels: bool,
    /// What is done then.
    pub then: Then,
    /// Why.
    pub why: &'static str,
}

/// What is done about a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Nothing,
    /// It may stay until then.
    Wait(Timer),
    /// It goes.
    Delete {
        /// Since when it was to go.
        since: Instant,
    },
}

/// How long a Pod may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    /// Not at all.
    No,
    /// That long.
    For(Duration),
    /// For ever.
    Always,
}

/// Of each taint the first toleration counts that is of it; the shortest of them all decides.
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

/// Decides what becomes of a Pod. Upstream: `pkg/controller/tainteviction`, `processPodOnNode`.
pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    let Snapshot { pod, taints, timer, now, compares, .. } = snapshot;
    let plan = |cancels, then, why| {
        let left = |timer: &Timer| timer.due.saturating_duration_since(*now);
        let requeue_after = if let Then::Wait(timer) = &then { Some(left(timer)) } else { None };
        Plan { requeue_after, cancels, then, why }
    };
    let Some(pod) = pod else { return plan(timer.is_some(), Then::Nothing, "the Pod is gone") };
    // The timer of another Pod of that name went with that Pod.
    let cancels_other = timer.as_ref().is_some_and(|timer| timer.pod != pod.meta.uid);
    let timer = timer.as_ref().filter(|_| !cancels_other);
    let is_due = |timer: &Timer| timer.due <= *now;
    let Some(taints) = taints else {
        // A node that is gone has no taints that could go; who was to leave leaves.
        return match timer {
            Some(timer) if is_due(timer) => {
                plan(false, Then::Delete { since: timer.due }, "its time on its node is over")
            }
            Some(timer) => plan(false, Then::Wait(timer.clone()), "its time on its node is not over"),
            None => plan(cancels_other, Then::Nothing, "its node is not known"),
        };
    };
    if taints.is_empty() {
        return plan(timer.is_some() || cancels_other, Then::Nothing, "its node has no taint to leave for");
    }
    if pod.meta.is_deleting() && pod.disrupted.is_some() {
        return plan(timer.is_some() || cancels_other, Then::Nothing, "it is going, and says why");
    }
    match (stay(pod, taints, *compares), timer) {
        (Stay::No, timer) => {
            let waits = timer.is_some_and(|timer| !is_due(timer));
            plan(waits || cancels_other, Then::Delete { since: *now }, "it does not tolerate a taint of its node")
        }
        (Stay::Always, timer) => {
            plan(timer.is_some() || cancels_other, Then::Nothing, "it tolerates the taints of its node")
        }
        (Stay::For(_), Some(timer)) if is_due(timer) => {
            plan(false, Then::Delete { since: timer.due }, "it tolerates a taint of its node no longer")
        }
        // A timer stays as it is, whatever would be armed now.
        (Stay::For(_), Some(timer)) => plan(false, Then::Wait(timer.clone()), WHILE),
        (Stay::For(Duration::ZERO), None) => {
            plan(cancels_other, Then::Delete { since: *now }, "it tolerates a taint of its node for no time")
        }
        (Stay::For(left), None) => {
            let due = now.checked_add(left).unwrap_or(*now);
            plan(cancels_other, Then::Wait(Timer { pod: pod.meta.uid.clone(), due }), WHILE)
        }
    }
}

const WHILE: &str = "it tolerates a taint of its node for a while";

impl Explain for Plan {
    fn explain(&self) -> Explanation {
        let mut out = Explanation { situation: self.why.to_owned(), ..Explanation::default() };
        if self.cancels {
            out.actions.push("do not delete the Pod after all".to_owned());
        }
        match &self.then {
            Then::Nothing => {}
            Then::Wait(_) => out.waiting.push("the Pod is deleted when its time is over".to_owned()),
            Then::Delete { .. } => out.actions.push(format!("delete the Pod: {}", self.why)),
        }
        out
    }

    fn acts(&self) -> bool {
        self.cancels || matches!(self.then, Then::Delete { .. })
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
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
            timer: timer.map(|(uid, seconds)| Timer { pod: Uid::new(uid), due: due(seconds) }),
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
            (&always, Some("k"), Some(("v", -5)), "cancel, nothing"),
        ] {
            assert_eq!(does(&snapshot(tolerations, keys, timer)), expected, "{tolerations} {keys:?} {timer:?}");
        }
        let mut gone = snapshot(&none, Some("k"), Some(("u", 5)));
        gone.pod = None;
        assert_eq!(does(&gone), "cancel, nothing");
    }

    #[test]
    fn a_pod_that_goes_and_says_why_is_left_alone() {
        let mut going = snapshot(&json!([]), Some("k"), None);
        let mut pod = pod(&json!([]));
        pod.meta.deleted = Some(jiff::Timestamp::UNIX_EPOCH);
        going.pod = Some(Arc::new(pod.clone()));
        assert_eq!(does(&going), "delete", "it does not say why");
        pod.disrupted = Some(jiff::Timestamp::UNIX_EPOCH);
        going.pod = Some(Arc::new(pod));
        assert_eq!(does(&going), "nothing");
    }
}
