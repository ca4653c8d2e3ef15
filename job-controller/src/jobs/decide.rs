//! Decides the plan of a Job from its snapshot. Pure: no requests, no clock, no randomness.
//!
//! A sync decides in several steps, because later writes depend on the results of earlier requests:
//!
//! 1. [`decide()`] counts the Pods ([`PodSummary`]). It decides whether the Job ends ([`end`]), how its Pods are scheduled
//!    ([`gang`]), and which Pods to create or delete ([`ScalingDecision`]). [`decide_with_adopted_pods`] decides again if the
//!    server refuses some adoptions, and [`gang::decide_pod_scheduling`] if the Workload or the `PodGroup` already exists.
//! 2. After Pods are created or deleted, [`first_status::decide_first_status`] decides the first status, and which Pods lose
//!    their finalizers after the status is written.
//! 3. After these finalizers are removed, [`second_status::decide_second_status`] decides the second status, and whether it
//!    contains the end.
//! 4. [`decide_requeue`] decides when the Job is synced again.

pub mod backoff;
mod conditions;
pub mod end;
pub mod failure;
pub mod first_status;
pub mod gang;
pub mod manage;
pub mod pod_summary;
pub mod second_status;

use std::{sync::Arc, time::Duration};

use common::prelude::Requeue;

use super::{
    plan::{FirstStatusWrite, JobSyncPlan, Plan, PodSummary, PodWrites, ScalingDecision, SkipReason},
    snapshot::{SharedPod, Snapshot},
};
use crate::objects::{CompletionMode, Job};

/// Decides the plan of one sync, in which every request succeeds. Upstream: `pkg/controller/job`, `syncJob`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let sync_plan = match reason_to_skip(&snapshot.job) {
        Some(skip_reason) => Err(skip_reason),
        None => Ok(decide_with_adopted_pods(snapshot, &snapshot.pod_claims.to_adopt)),
    };
    Plan {
        job: Arc::clone(&snapshot.job),
        uncounted_pods_to_remove_finalizer_from: uncounted_pods(snapshot, sync_plan.as_ref().err()),
        sync_plan,
    }
}

/// Decides how to sync a Job that adopts only the Pods in `adopted_pods`.
pub fn decide_with_adopted_pods(snapshot: &Snapshot, adopted_pods: &[SharedPod]) -> JobSyncPlan {
    let pod_summary = PodSummary::new(snapshot, pod_summary::controlled_pods(snapshot, adopted_pods));
    let scaling_decision = manage::decide_scaling(snapshot, &pod_summary);
    let pod_writes = scaling_decision.expected_pod_writes(&pod_summary);
    JobSyncPlan {
        pod_scheduling: gang::decide_pod_scheduling(snapshot, &pod_summary, snapshot.scheduling_objects.as_ref()),
        first_status_write: first_status::decide_first_status(
            snapshot,
            &pod_summary,
            &scaling_decision,
            &pod_writes,
            snapshot.now,
        ),
        requeue_after: requeue_after(snapshot, &pod_summary, &scaling_decision),
        pod_summary,
        scaling_decision,
    }
}

/// Returns the time until the earliest of active deadline, creation of a postponed Pod, end of a pause of creations, and end of
/// the wait for stale caches.
fn requeue_after(
    snapshot: &Snapshot,
    pod_summary: &PodSummary,
    scaling_decision: &ScalingDecision,
) -> Option<Duration> {
    let time_until_deadline = end::time_until_active_deadline(snapshot, pod_summary);
    let remaining_backoff_or_pause = match scaling_decision {
        ScalingDecision::PostponeCreate { remaining_backoff, .. } => Some(*remaining_backoff),
        ScalingDecision::Create { remaining_backoff, .. } => *remaining_backoff,
        ScalingDecision::CreationPaused(pause) => pause.requeue_after(),
        _ => None,
    };
    let max_wait = snapshot.pending_writes.as_ref().map(|pending_writes| pending_writes.max_wait);
    let time_until_deadline = time_until_deadline.filter(|_| pod_summary.decided_job_end.is_none());
    [time_until_deadline, remaining_backoff_or_pause, max_wait].into_iter().flatten().min()
}

/// Returns, for a terminating Job, the Pods that carry the finalizer and that no sync of the Job counts.
///
/// A terminating Job releases no Pod, so that the garbage collector finds its dependents by their owner references. Upstream
/// keeps the finalizer of a Pod that the selector does not match, and a foreground deletion then waits for this Pod forever.
fn uncounted_pods(snapshot: &Snapshot, skip_reason: Option<&SkipReason>) -> Vec<SharedPod> {
    if !snapshot.job.metadata.is_deleting() {
        return Vec::new();
    }
    let kept_pods = match skip_reason {
        // Another manager counts the Pods, or the Job has finished and the orphan loop removes the finalizers.
        Some(SkipReason::ManagedExternally(_) | SkipReason::Finished) => return Vec::new(),
        Some(SkipReason::UnknownCompletionMode | SkipReason::InvalidSelector(_)) => {
            snapshot.pod_claims.to_keep.as_slice()
        }
        None => &[],
    };
    let removed = &snapshot.pod_uids_with_removed_finalizer;
    let carries_finalizer = |pod: &&SharedPod| pod.has_tracking_finalizer && !removed.contains(&pod.meta().uid);
    snapshot.unselected_pods.iter().chain(kept_pods).filter(carries_finalizer).cloned().collect()
}

fn reason_to_skip(job: &Job) -> Option<SkipReason> {
    if let Some(managed_by) = &job.managed_by {
        return Some(SkipReason::ManagedExternally(managed_by.to_string()));
    }
    if job.is_finished() {
        return Some(SkipReason::Finished);
    }
    if job.completion_mode == CompletionMode::Unknown {
        return Some(SkipReason::UnknownCompletionMode);
    }
    job.selector.validation_error().map(|problem| SkipReason::InvalidSelector(problem.clone()))
}

/// Decides when the Job is synced again, after `pods_without_finalizer` were counted.
pub fn decide_requeue(
    snapshot: &Snapshot,
    sync_plan: &JobSyncPlan,
    first_status_write: &FirstStatusWrite,
    pod_writes: &PodWrites,
    pods_without_finalizer: &[&SharedPod],
) -> Requeue {
    // If this sync has reached its limit of UIDs or Pods, the next sync starts without delay.
    if first_status_write.is_uid_list_full || has_reached_pod_limit(snapshot, &sync_plan.scaling_decision, pod_writes) {
        return Requeue::After(Duration::ZERO);
    }
    if pod_writes.conflict_count > 0 {
        // After a conflict in a sync that changed a Pod, the next sync starts without delay, and waits until the cache shows
        // the changed Pods. If no Pod was changed, the same conflict may occur again, so the back-off applies.
        let has_progressed =
            pod_writes.created_pod_count + pod_writes.deleted_pod_count > 0 || !pods_without_finalizer.is_empty();
        return if has_progressed { Requeue::After(Duration::ZERO) } else { Requeue::Conflict };
    }
    // The loop knows only the delay of the first plan. After a refused adoption, `sync_plan` is newer, and its delay applies.
    sync_plan.requeue_after.map_or(Requeue::AfterPlannedDelay, Requeue::After)
}

/// Whether the sync has created or deleted `max_pods_per_sync` Pods, so that the next sync may have to continue.
fn has_reached_pod_limit(snapshot: &Snapshot, scaling_decision: &ScalingDecision, pod_writes: &PodWrites) -> bool {
    let max_pods_per_sync = snapshot.decision_settings.max_pods_per_sync;
    match scaling_decision {
        ScalingDecision::Create { pods, missing_pods, .. } => {
            pod_writes.created_pod_count == pods.len() && pods.len() == max_pods_per_sync && *missing_pods > pods.len()
        }
        ScalingDecision::ScaleDown(pods_to_delete) => {
            pod_writes.deleted_pod_count == pods_to_delete.len() && pods_to_delete.len() == max_pods_per_sync
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
