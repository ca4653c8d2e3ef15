//! Decides whether and when a Pod must leave its node.

use std::time::Duration;

use common::{
    conditions::{self, Condition},
    taints::Taint,
};

use super::{
    plan::{Plan, PodAction},
    snapshot::{DeletionTimer, Snapshot},
};
use crate::{
    objects::{CachedPod, DISRUPTION_TARGET_CONDITION},
    taints,
};

/// Upper limit of `tolerationSeconds`: 100 years, which can be added to any time without an overflow.
const MAX_TOLERATION_DURATION: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Maximum delay of a deletion that is put off because the node may be healthy. After the delay, the Pod is examined again. The
/// delay covers several passes of the node monitor, which removes a wrong taint.
const MAX_PUT_OFF_DELAY: Duration = Duration::from_secs(15);
/// Minimum delay of a deletion that is put off because the node may be healthy.
const MIN_PUT_OFF_DELAY: Duration = Duration::from_millis(10);

const NODE_MAY_BE_HEALTHY: &str = "its node may be healthy, so its taint may be removed soon";
const TOLERATES_FOR_LIMITED_TIME: &str = "it tolerates a taint of its node for a limited time";

/// Time for which the tolerations of a Pod allow it to run on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AllowedStay {
    /// At least one taint is not tolerated.
    MustLeave,
    /// Every taint is tolerated; the duration is the shortest `tolerationSeconds`.
    Limited(Duration),
    /// Every taint is tolerated without a time limit.
    Unlimited,
}

/// Compares the tolerations of a Pod with taints. For each taint, the first matching toleration counts. The shortest
/// `tolerationSeconds` of these tolerations decides.
fn allowed_stay(pod: &CachedPod, taints: &[Taint], compares: bool) -> AllowedStay {
    let mut least: Option<i64> = None;
    for taint in taints {
        let Some(toleration) = pod.tolerations.iter().find(|t| t.tolerates(taint, compares)) else {
            return AllowedStay::MustLeave;
        };
        if let Some(seconds) = toleration.toleration_seconds {
            let seconds = seconds.max(0);
            least = Some(least.map_or(seconds, |known| known.min(seconds)));
        }
    }
    match least {
        None => AllowedStay::Unlimited,
        Some(seconds) => AllowedStay::Limited(Duration::from_secs(seconds.unsigned_abs()).min(MAX_TOLERATION_DURATION)),
    }
}

/// Decides whether a Pod is deleted now, later or not at all. Upstream: `pkg/controller/tainteviction`, `processPodOnNode`.
pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    let plan = decide_by_taints(snapshot);
    match (&plan.pod_action, &snapshot.pod, &snapshot.no_execute_taints) {
        (PodAction::Delete { .. }, Some(pod), Some(taints)) if taints::are_all_monitor_taints(taints) => {
            put_off_deletion(snapshot, pod, plan)
        }
        _ => plan,
    }
}

/// Replaces a deletion by a timer of at most `MAX_PUT_OFF_DELAY` if the node of the Pod may be healthy.
fn put_off_deletion(snapshot: &Snapshot, pod: &CachedPod, plan: Plan) -> Plan {
    let known = snapshot.timer.as_ref().filter(|timer| timer.is_deletion_put_off && timer.pod_uid == pod.meta.uid);
    let timer = match (known.filter(|timer| !timer.is_due(snapshot.now)), snapshot.time_until_taint_confirmation) {
        (Some(timer), _) => timer.clone(),
        (None, Some(doubt)) => {
            let due = snapshot.now + doubt.clamp(MIN_PUT_OFF_DELAY, MAX_PUT_OFF_DELAY);
            DeletionTimer { pod_uid: pod.meta.uid.clone(), due_at: due, is_deletion_put_off: true }
        }
        (None, None) => return plan,
    };
    Plan {
        requeue_after: Some(timer.due_at.saturating_duration_since(snapshot.now)),
        cancels_timer: plan.cancels_timer && known.is_none(),
        pod_action: PodAction::StayUntilTimer(timer),
        reason: NODE_MAY_BE_HEALTHY,
    }
}

fn decide_by_taints(snapshot: &Snapshot) -> Plan {
    let Snapshot { pod, no_execute_taints: taints, timer, now, are_comparison_operators_enabled: compares, .. } =
        snapshot;
    let plan = |cancels, then, why| {
        let left = |timer: &DeletionTimer| timer.due_at.saturating_duration_since(*now);
        let requeue_after = if let PodAction::StayUntilTimer(timer) = &then { Some(left(timer)) } else { None };
        Plan { requeue_after, cancels_timer: cancels, pod_action: then, reason: why }
    };
    let is_waiting = timer.as_ref().is_some_and(|timer| !timer.is_due(*now));
    let Some(pod) = pod else { return plan(is_waiting, PodAction::StayWithoutTimer, "the Pod does not exist") };
    if pod.meta.is_deleting() && pod.disruption_time.is_some() {
        return plan(
            is_waiting,
            PodAction::StayWithoutTimer,
            "it is terminating and has the condition with the reason",
        );
    }
    // A timer of a deleted Pod with the same name does not count.
    let timer = timer.as_ref().filter(|timer| timer.pod_uid == pod.meta.uid);
    let cancels_other = is_waiting && timer.is_none();
    let Some(taints) = taints else {
        // A timer continues after its node was deleted, because the taints of a missing node cannot be removed.
        return match timer {
            Some(timer) if timer.is_due(*now) => {
                plan(false, PodAction::Delete { since: timer.due_at }, "its time on its node has ended")
            }
            Some(timer) => plan(false, PodAction::StayUntilTimer(timer.clone()), "its time on its node has not ended"),
            None => plan(cancels_other, PodAction::StayWithoutTimer, "its node is unknown"),
        };
    };
    let cancels_any = timer.is_some() || cancels_other;
    if taints.is_empty() {
        return plan(cancels_any, PodAction::StayWithoutTimer, "its node has no NoExecute taint");
    }
    match (allowed_stay(pod, taints, *compares), timer) {
        (AllowedStay::MustLeave, _) => {
            plan(is_waiting, PodAction::Delete { since: *now }, "it does not tolerate a taint of its node")
        }
        (AllowedStay::Unlimited, _) => {
            plan(cancels_any, PodAction::StayWithoutTimer, "it tolerates the taints of its node")
        }
        (AllowedStay::Limited(_), Some(timer)) if timer.is_due(*now) => {
            plan(false, PodAction::Delete { since: timer.due_at }, "it no longer tolerates a taint of its node")
        }
        // An existing timer is kept, even if the current taints allow another duration.
        (AllowedStay::Limited(_), Some(timer)) => plan(
            false,
            PodAction::StayUntilTimer(timer.clone()),
            if timer.is_deletion_put_off { NODE_MAY_BE_HEALTHY } else { TOLERATES_FOR_LIMITED_TIME },
        ),
        (AllowedStay::Limited(Duration::ZERO), None) => {
            plan(cancels_other, PodAction::Delete { since: *now }, "it tolerates a taint of its node for 0 seconds")
        }
        (AllowedStay::Limited(limit), None) => {
            let due = now.checked_add(limit).unwrap_or(*now);
            plan(
                cancels_other,
                PodAction::StayUntilTimer(DeletionTimer {
                    pod_uid: pod.meta.uid.clone(),
                    due_at: due,
                    is_deletion_put_off: false,
                }),
                TOLERATES_FOR_LIMITED_TIME,
            )
        }
    }
}

/// Reason and message of the condition `DisruptionTarget`, as in upstream.
pub(crate) const DISRUPTION_REASON_AND_MESSAGE: (&str, &str) =
    ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");

/// Whether the condition `DisruptionTarget` is missing, is not `True`, or differs from [`DISRUPTION_REASON_AND_MESSAGE`].
pub(crate) fn lacks_disruption_condition(known: &[Condition]) -> bool {
    let known = conditions::get(known, DISRUPTION_TARGET_CONDITION).filter(|known| known.is_true());
    known.is_none_or(|known| (&*known.reason, &*known.message) != DISRUPTION_REASON_AND_MESSAGE)
}

/// Whether a node has `NoExecute` taints, all from the node monitor. If so, heartbeats decide whether its Pods must leave.
pub(crate) fn has_only_monitor_taints(taints: Option<&[Taint]>) -> bool {
    taints.is_some_and(|taints| !taints.is_empty() && taints::are_all_monitor_taints(taints))
}

#[cfg(test)]
mod tests;
