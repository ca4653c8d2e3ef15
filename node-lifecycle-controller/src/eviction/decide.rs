//! Decides whether and when a Pod must leave its node. Pure code: no requests, no clock, no randomness.

use std::{sync::Arc, time::Duration};

use common::{
    conditions::{self, Condition},
    prelude::*,
    taints::Taint,
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

/// Everything that one sync of a Pod reads.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) key: NamespacedName,
    /// The cached Pod; `None` if it does not exist.
    pub(crate) pod: Option<Arc<CachedPod>>,
    /// The `NoExecute` taints of the Pod's node; `None` if the node does not exist or cannot be decoded.
    pub(crate) no_execute_taints: Option<Arc<[Taint]>>,
    /// Minimum time until heartbeats can confirm the taints of the node, which may be healthy until then. `None` if the taints
    /// are confirmed, and in the first snapshot of a sync, which uses only the cache.
    pub(crate) time_until_taint_confirmation: Option<Duration>,
    /// The timer of the Pod, or of a Pod that was deleted and had the same name.
    pub(crate) timer: Option<DeletionTimer>,
    pub(crate) now: Instant,
    /// Whether the toleration operators `Lt` and `Gt` are enabled.
    pub(crate) are_comparison_operators_enabled: bool,
}

/// A Pod to delete, and the time of the deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeletionTimer {
    pub(crate) pod_uid: Uid,
    pub(crate) due_at: Instant,
    /// Whether the deletion was due earlier, and is put off because the node may be healthy.
    pub(crate) is_deletion_put_off: bool,
}

impl DeletionTimer {
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.due_at <= now
    }
}

/// Decision of one sync about a Pod and its timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Time until the deletion timer of the Pod ends; `None` if the Pod has no timer.
    pub(crate) requeue_after: Option<Duration>,
    /// Whether a timer is removed although its Pod was not deleted; an Event reports the cancellation.
    pub(crate) cancels_timer: bool,
    pub(crate) pod_action: PodAction,
    /// Reason of the action, shown by `/debug/explain`.
    pub(crate) reason: &'static str,
}

/// Action of a sync on its Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodAction {
    /// The Pod is not deleted; a timer of the Pod is removed.
    StayWithoutTimer,
    /// The Pod is deleted when this timer ends, unless a later sync decides otherwise.
    StayUntilTimer(DeletionTimer),
    /// The Pod is deleted now.
    Delete {
        /// Time at which the deletion became due.
        since: Instant,
    },
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        let cancellation = if self.cancels_timer { "; its timer is cancelled" } else { "" };
        format!("{}{cancellation}", self.reason)
    }

    fn wait_reasons(&self) -> Vec<String> {
        let PodAction::StayUntilTimer(_) = &self.pod_action else { return Vec::new() };
        vec!["the Pod is deleted when its timer is due".to_owned()]
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
    }

    fn is_notable(&self) -> bool {
        self.cancels_timer
    }
}

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
fn allowed_stay(pod: &CachedPod, taints: &[Taint], are_comparison_operators_enabled: bool) -> AllowedStay {
    let mut least: Option<i64> = None;
    for taint in taints {
        let Some(toleration) = pod.tolerations.iter().find(|t| t.tolerates(taint, are_comparison_operators_enabled))
        else {
            return AllowedStay::MustLeave;
        };
        least = least.into_iter().chain(toleration.toleration_seconds.map(|seconds| seconds.max(0))).min();
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
    let put_off_timer =
        snapshot.timer.as_ref().filter(|timer| timer.is_deletion_put_off && timer.pod_uid == pod.meta.uid);
    let new_timer = || {
        let delay = snapshot.time_until_taint_confirmation?.clamp(MIN_PUT_OFF_DELAY, MAX_PUT_OFF_DELAY);
        let (pod_uid, due_at) = (pod.meta.uid.clone(), snapshot.now + delay);
        Some(DeletionTimer { pod_uid, due_at, is_deletion_put_off: true })
    };
    let pending_timer = put_off_timer.filter(|timer| !timer.is_due(snapshot.now)).cloned();
    let Some(timer) = pending_timer.or_else(new_timer) else { return plan };
    Plan {
        requeue_after: Some(timer.due_at.saturating_duration_since(snapshot.now)),
        cancels_timer: plan.cancels_timer && put_off_timer.is_none(),
        pod_action: PodAction::StayUntilTimer(timer),
        reason: NODE_MAY_BE_HEALTHY,
    }
}

fn decide_by_taints(snapshot: &Snapshot) -> Plan {
    let Snapshot { pod, no_execute_taints, timer, now, are_comparison_operators_enabled, .. } = snapshot;
    let plan = |cancels_timer, pod_action, reason| {
        let requeue_after = match &pod_action {
            PodAction::StayUntilTimer(timer) => Some(timer.due_at.saturating_duration_since(*now)),
            PodAction::StayWithoutTimer | PodAction::Delete { .. } => None,
        };
        Plan { requeue_after, cancels_timer, pod_action, reason }
    };
    let is_waiting = timer.as_ref().is_some_and(|timer| !timer.is_due(*now));
    let Some(pod) = pod else { return plan(is_waiting, PodAction::StayWithoutTimer, "the Pod does not exist") };
    if pod.meta.is_deleting() && pod.disruption_time.is_some() {
        let reason = "it is terminating and has the condition with the reason";
        return plan(is_waiting, PodAction::StayWithoutTimer, reason);
    }
    // A timer of a deleted Pod with the same name does not count.
    let timer = timer.as_ref().filter(|timer| timer.pod_uid == pod.meta.uid);
    let cancels_other = is_waiting && timer.is_none();
    let Some(taints) = no_execute_taints else {
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
    match (allowed_stay(pod, taints, *are_comparison_operators_enabled), timer) {
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
            let (pod_uid, due_at) = (pod.meta.uid.clone(), now.checked_add(limit).unwrap_or(*now));
            let timer = DeletionTimer { pod_uid, due_at, is_deletion_put_off: false };
            plan(cancels_other, PodAction::StayUntilTimer(timer), TOLERATES_FOR_LIMITED_TIME)
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
