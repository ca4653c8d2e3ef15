//! Decides when a Job is synced again after a successful sync.

use std::time::Duration;

use common::io::Requeue;

use crate::jobs::{
    plan::{Manage, PodWrites, SyncPlan, Tracked},
    snapshot::Snapshot,
};

/// Decides when the Job is synced again. `untracked` is the number of counted Pods that lost their finalizer.
pub fn requeue(
    snapshot: &Snapshot,
    plan: &SyncPlan,
    tracked: &Tracked,
    writes: &PodWrites,
    untracked: usize,
) -> Requeue {
    // A sync that has reached a limit is continued at once.
    if tracked.capped || is_unfinished(snapshot, &plan.manage, writes) {
        return Requeue::After(Duration::ZERO);
    }
    if writes.changed > 0 {
        // After a conflict in a sync that made progress, the next sync starts at once and waits until the cache shows the changed
        // Pods. Without progress, the next sync may meet the same conflict again, so the back-off applies.
        let has_progressed = writes.created + writes.removed + untracked > 0;
        return if has_progressed { Requeue::After(Duration::ZERO) } else { Requeue::Conflict };
    }
    // The loop knows only the due time of its first plan. This `plan` may be a repeated decision that is due earlier.
    plan.requeue_after.map_or(Requeue::AsPlanned, Requeue::After)
}

/// Whether all requests have succeeded, and the sync has stopped at the limit of Pods for one sync.
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
