//! Decides when a Job is synced again after a successful sync.

use std::time::Duration;

use common::io::Requeue;

use crate::jobs::{
    plan::{FirstStatusWrite, PodWrites, ScalingDecision, SyncPlan},
    snapshot::Snapshot,
};

/// Decides when the Job is synced again. `untracked` is the number of counted Pods that lost their finalizer in this sync.
pub fn decide_requeue(
    snapshot: &Snapshot,
    plan: &SyncPlan,
    tracked: &FirstStatusWrite,
    writes: &PodWrites,
    untracked: usize,
) -> Requeue {
    // If this sync has reached its limit of UIDs or Pods, the next sync starts without delay.
    if tracked.is_uid_list_full || has_reached_pod_limit(snapshot, &plan.scaling_decision, writes) {
        return Requeue::After(Duration::ZERO);
    }
    if writes.conflict_count > 0 {
        // After a conflict in a sync that changed a Pod, the next sync starts without delay, and waits until the cache shows
        // the changed Pods. If no Pod was changed, the same conflict may occur again, so the back-off applies.
        let has_progressed = writes.created_pod_count + writes.deleted_pod_count + untracked > 0;
        return if has_progressed { Requeue::After(Duration::ZERO) } else { Requeue::Conflict };
    }
    // The loop knows only the delay of the first plan. After a refused adoption, `plan` is newer, and its delay applies.
    plan.requeue_after.map_or(Requeue::AfterPlannedDelay, Requeue::After)
}

/// Whether the sync has created or deleted `max_pods_per_sync` Pods, so that the next sync may have to continue.
fn has_reached_pod_limit(snapshot: &Snapshot, manage: &ScalingDecision, writes: &PodWrites) -> bool {
    let most = snapshot.decision_settings.max_pods_per_sync;
    match manage {
        ScalingDecision::Create { pods, missing_pods: missing, .. } => {
            writes.created_pod_count == pods.len() && pods.len() == most && *missing > pods.len()
        }
        ScalingDecision::ScaleDown(victims) => writes.deleted_pod_count == victims.len() && victims.len() == most,
        _ => false,
    }
}
