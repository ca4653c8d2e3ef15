//! Rolling updates: outdated Pods are deleted, and the next sync creates them from the update revision.

use common::{intstr::Rounding, io::GroupConcurrency};

use super::ordinals::PodsByOrdinal;
use crate::{
    objects::{StatefulSet, UpdateStrategy},
    plan::{DeletionReason, PodPlan, PodWork, UnavailablePods, WorkPhase},
    snapshot::SharedPod,
};

/// Returns how many Pods may be unavailable during a rolling update, at least 1. A percentage is rounded down.
pub fn max_unavailable(set: &StatefulSet) -> i32 {
    let UpdateStrategy::RollingUpdate(Some(rolling)) = &set.update_strategy else { return 1 };
    let limit = rolling.max_unavailable.as_ref().and_then(|limit| limit.resolve(set.replicas, Rounding::Down).ok());
    limit.unwrap_or(1).max(1)
}

/// Deletes outdated Pods by descending ordinal, and none below the partition. Upstream:
/// `updateStatefulSetAfterInvariantEstablished`.
pub fn plan_rolling_update(ordinals: &PodsByOrdinal<'_>, plan: &mut PodPlan) {
    if ordinals.set().update_strategy == UpdateStrategy::OnDelete {
        return;
    }
    let pods_to_delete = if ordinals.snapshot.features.is_max_unavailable_enabled {
        within_limit(ordinals, plan)
    } else {
        highest(ordinals, plan).into_iter().collect()
    };
    let delete = |pod| {
        let why = DeletionReason::Outdated { is_current: ordinals.has_current_revision(&pod) };
        PodWork::Delete { pod, why }
    };
    let work: Vec<PodWork> = pods_to_delete.into_iter().map(delete).collect();
    if !work.is_empty() {
        plan.phases.push(WorkPhase { concurrency: GroupConcurrency::Sequential, work });
    }
}

/// Returns the outdated Pod with the highest ordinal; `None` if a Pod with a higher ordinal is unavailable.
fn highest(ordinals: &PodsByOrdinal<'_>, plan: &mut PodPlan) -> Option<SharedPod> {
    for (ordinal, pod) in ordinals.descending_ordinals(ordinals.lowest_updatable_ordinal()) {
        match pod {
            Some(pod) if ordinals.is_outdated(pod) => return Some(pod.clone()),
            Some(pod) if !ordinals.is_unavailable(pod) => {}
            _ => {
                let name = ordinals.set().pod_name(ordinal);
                plan.waiting_reasons.push(|| format!("the rollout waits for Pod {name} to be available"));
                return None;
            }
        }
    }
    None
}

/// Returns the outdated Pods that may be deleted within the limit, by descending ordinal.
///
/// As in upstream, a ready Pod is deleted only while fewer Pods than the limit are unavailable. Outdated Pods that are not
/// ready serve no requests, so they do not hold up their own replacement (kubernetes/kubernetes#137409). Such a Pod is deleted
/// while fewer Pods than the limit are being replaced. A sync never deletes more Pods than the limit still allows.
fn within_limit(ordinals: &PodsByOrdinal<'_>, plan: &mut PodPlan) -> Vec<SharedPod> {
    let limit = i64::from(max_unavailable(ordinals.set()));
    let is_broken = |pod: &&SharedPod| ordinals.is_outdated(pod) && !pod.is_ready();
    let unavailable =
        ordinals.missing_pod_count + ordinals.pods_in_range().filter(|pod| ordinals.is_unavailable(pod)).count() as i64;
    let broken = ordinals.pods_in_range().filter(is_broken).count() as i64;
    let now = i32::try_from(unavailable).unwrap_or(i32::MAX);
    plan.unavailable_pods =
        Some(UnavailablePods { max_unavailable: max_unavailable(ordinals.set()), count: Some(now) });
    // Number of further deletions that the limit allows: of ready Pods, and of all Pods together.
    let mut for_ready = limit - unavailable;
    let mut for_all = limit - (unavailable - broken);
    let lowest = ordinals.lowest_updatable_ordinal();
    let candidates = ordinals.slots_in_range.iter().rev().take_while(|slot| i64::from(slot.ordinal) >= lowest);
    let (mut pods_to_delete, mut waiting) = (Vec::new(), 0);
    for pod in candidates.filter_map(|slot| slot.pod.as_ref()).filter(|pod| ordinals.is_outdated(pod)) {
        let ready = pod.is_ready();
        if for_all > 0 && (!ready || for_ready > 0) {
            for_all -= 1;
            for_ready -= i64::from(ready);
            pods_to_delete.push(pod.clone());
        } else {
            waiting += 1;
        }
    }
    if waiting > 0 {
        plan.waiting_reasons
            .push(|| format!("{waiting} outdated Pods wait: {now} Pods are unavailable, and the limit is {limit}"));
    }
    pods_to_delete
}
