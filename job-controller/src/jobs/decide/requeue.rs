//! When a Job comes back after a sync that succeeded.

use std::time::Duration;

use common::io::Requeue;

use crate::jobs::{
    plan::{Manage, PodWrites, SyncPlan, Tracked},
    snapshot::Snapshot,
};

/// Decides when the Job comes back. `untracked` is how many Pods lost their finalizer once they were counted.
pub fn requeue(
    snapshot: &Snapshot,
    plan: &SyncPlan,
    tracked: &Tracked,
    writes: &PodWrites,
    untracked: usize,
) -> Requeue {
    // What one sync leaves follows at once.
    if tracked.capped || is_unfinished(snapshot, &plan.manage, writes) {
        return Requeue::After(Duration::ZERO);
    }
    if writes.changed > 0 {
        // A sync that made progress has not failed: after a conflict, the next one waits until the cache shows the Pods that have
        // changed. One without progress may meet the same conflict again and again.
        let has_progressed = writes.created + writes.removed + untracked > 0;
        return if has_progressed { Requeue::After(Duration::ZERO) } else { Requeue::Conflict };
    }
    // The loop knows when the first plan is due; one that was decided again may be due earlier.
    plan.requeue_after.map_or(Requeue::AsPlanned, Requeue::After)
}

/// Whether every request was granted and Pods are left for another sync, because one sync writes a limited number of them.
fn is_unfinished(snapshot: &Snapshot, manage: &Manage, writes: &PodWrites) -> bool {
    let most = snapshot.limits.pods;
    match manage {
        Manage::Create { pods, missing, .. } => {
            writes.created == pods.len() && pods.len() == most && *missing > pods.len()
        }
        Manage::Remove(victims) => writes.removed == victims.len() && victims.len() == most,
        _ => false,
    }
}
