//! Whether a Pod has to leave its node, and when.

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

/// The longest wait: longer than any cluster lives, and short enough to be added to any time.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How long a Pod stays at most before its node is looked at again, if its taint seems to be wrong: several passes of the monitor,
/// which is about to remove the taint.
const RECHECK: Duration = Duration::from_secs(15);
/// How long a Pod stays at least then.
const SOON: Duration = Duration::from_millis(10);

const DOUBTFUL: &str = "its node may be well, so its taint may be removed soon";
const LIMITED: &str = "it tolerates a taint of its node for a limited time";

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
    match (&plan.then, &snapshot.pod, &snapshot.taints) {
        (Then::Delete { .. }, Some(pod), Some(taints)) if taints::are_ours(taints) => put_off(snapshot, pod, plan),
        _ => plan,
    }
}

/// Lets a Pod stay a little longer if its node may be well.
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
            plan(false, Then::Wait(timer.clone()), if timer.is_put_off { DOUBTFUL } else { LIMITED })
        }
        (Stay::For(Duration::ZERO), None) => {
            plan(cancels_other, Then::Delete { since: *now }, "it tolerates a taint of its node for no time")
        }
        (Stay::For(limit), None) => {
            let due = now.checked_add(limit).unwrap_or(*now);
            plan(cancels_other, Then::Wait(Timer { pod: pod.meta.uid.clone(), due, is_put_off: false }), LIMITED)
        }
    }
}

/// The condition that gives the reason of the deletion: reason and message.
pub(crate) const DISRUPTION: (&str, &str) =
    ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");

/// Whether no condition of a Pod gives the reason of its deletion.
pub(crate) fn lacks_reason(known: &[Condition]) -> bool {
    let known = conditions::get(known, DISRUPTION_TARGET).filter(|known| known.is_true());
    known.is_none_or(|known| (&*known.reason, &*known.message) != DISRUPTION)
}

/// Whether it depends on the Lease of the node whether its Pods have to leave.
pub(crate) fn depends_on_lease(taints: Option<&[Taint]>) -> bool {
    taints.is_some_and(|taints| !taints.is_empty() && taints::are_ours(taints))
}

#[cfg(test)]
mod tests;
