//! Decides whether and when a Pod must leave its node.

use std::time::Duration;

use common::{
    conditions::{self, Condition},
    taints::Taint,
};

use super::{
    plan::{Plan, Then},
    snapshot::{Snapshot, Timer},
};
use crate::{
    objects::{CachedPod, DISRUPTION_TARGET},
    taints,
};

/// Upper limit of `tolerationSeconds`: 100 years, which can be added to any time without an overflow.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Maximum delay of a deletion that is put off because the node may be healthy. After the delay, the Pod is examined again. The
/// delay covers several passes of the node monitor, which removes a wrong taint.
const RECHECK: Duration = Duration::from_secs(15);
/// Minimum delay of a deletion that is put off because the node may be healthy.
const SOON: Duration = Duration::from_millis(10);

const DOUBTFUL: &str = "its node may be healthy, so its taint may be removed soon";
const LIMITED: &str = "it tolerates a taint of its node for a limited time";

/// How long a Pod may stay on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    /// At least one taint is not tolerated.
    No,
    /// Every taint is tolerated; the duration is the shortest `tolerationSeconds`.
    For(Duration),
    /// Every taint is tolerated without a time limit.
    Always,
}

/// Returns how long the tolerations of a Pod allow it to stay. For each taint, the first matching toleration counts. The
/// shortest `tolerationSeconds` of these tolerations decides.
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
    match (&plan.then, &snapshot.pod, &snapshot.taints) {
        (Then::Delete { .. }, Some(pod), Some(taints)) if taints::are_ours(taints) => put_off(snapshot, pod, plan),
        _ => plan,
    }
}

/// Replaces a deletion by a timer of at most `RECHECK` if the node of the Pod may be healthy.
fn put_off(snapshot: &Snapshot, pod: &CachedPod, plan: Plan) -> Plan {
    let known = snapshot.timer.as_ref().filter(|timer| timer.is_put_off && timer.pod == pod.meta.uid);
    let timer = match (known.filter(|timer| !timer.is_due(snapshot.now)), snapshot.doubt) {
        (Some(timer), _) => timer.clone(),
        (None, Some(doubt)) => {
            let due = snapshot.now + doubt.clamp(SOON, RECHECK);
            Timer { pod: pod.meta.uid.clone(), due, is_put_off: true }
        }
        (None, None) => return plan,
    };
    Plan {
        requeue_after: Some(timer.due.saturating_duration_since(snapshot.now)),
        cancels: plan.cancels && known.is_none(),
        then: Then::Wait(timer),
        why: DOUBTFUL,
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
    let Some(pod) = pod else { return plan(is_waiting, Then::Nothing, "the Pod does not exist") };
    if pod.meta.is_deleting() && pod.disrupted.is_some() {
        return plan(is_waiting, Then::Nothing, "it is terminating and has the condition with the reason");
    }
    // A timer of an earlier Pod with the same name does not count.
    let timer = timer.as_ref().filter(|timer| timer.pod == pod.meta.uid);
    let cancels_other = is_waiting && timer.is_none();
    let Some(taints) = taints else {
        // A timer outlives its node, because the taints of a missing node cannot be removed.
        return match timer {
            Some(timer) if timer.is_due(*now) => {
                plan(false, Then::Delete { since: timer.due }, "its time on its node has ended")
            }
            Some(timer) => plan(false, Then::Wait(timer.clone()), "its time on its node has not ended"),
            None => plan(cancels_other, Then::Nothing, "its node is unknown"),
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
        // An existing timer is kept, even if the current taints allow another duration.
        (Stay::For(_), Some(timer)) => {
            plan(false, Then::Wait(timer.clone()), if timer.is_put_off { DOUBTFUL } else { LIMITED })
        }
        (Stay::For(Duration::ZERO), None) => {
            plan(cancels_other, Then::Delete { since: *now }, "it tolerates a taint of its node for 0 seconds")
        }
        (Stay::For(limit), None) => {
            let due = now.checked_add(limit).unwrap_or(*now);
            plan(cancels_other, Then::Wait(Timer { pod: pod.meta.uid.clone(), due, is_put_off: false }), LIMITED)
        }
    }
}

/// Reason and message of the condition `DisruptionTarget`, as in upstream.
pub(crate) const DISRUPTION: (&str, &str) =
    ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");

/// True if the condition `DisruptionTarget` is missing, is not `True`, or differs from [`DISRUPTION`].
pub(crate) fn lacks_reason(known: &[Condition]) -> bool {
    let known = conditions::get(known, DISRUPTION_TARGET).filter(|known| known.is_true());
    known.is_none_or(|known| (&*known.reason, &*known.message) != DISRUPTION)
}

/// True if a node has `NoExecute` taints, all from the node monitor. Its Lease then decides whether its Pods must leave.
pub(crate) fn depends_on_lease(taints: Option<&[Taint]>) -> bool {
    taints.is_some_and(|taints| !taints.is_empty() && taints::are_ours(taints))
}

#[cfg(test)]
mod tests;
