//! Turns a snapshot into a plan. Pure code: no requests, no clock, no randomness.

pub mod failure;
pub mod manage;
mod rank;
pub mod status;
pub mod timer;

use std::sync::Arc;

use crate::{
    plan::{Plan, PodChangesOutcome},
    snapshot::{SharedPod, Snapshot},
};

/// Maximum count of unready Pods that a plan names.
const MAX_NAMED_PODS: usize = 3;

/// Decides what one sync of a set does.
///
/// A sync first adopts and releases Pods, and then either creates or deletes Pods. The status counts the Pods before these
/// creations or deletions. Upstream: `pkg/controller/replicaset`, `syncReplicaSet`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let claims = &snapshot.claims;
    let claimed: Vec<&SharedPod> = claims.to_keep.iter().chain(&claims.to_adopt).collect();
    let manage = manage::decide_pod_changes(snapshot, &claimed);
    let expected = if manage.is_pod_change_allowed() { PodChangesOutcome::Done } else { PodChangesOutcome::NotAllowed };
    let status = status::compute_status(snapshot, &claimed, &expected, snapshot.now);
    let available_in = timer::time_until_next_available(snapshot, &claimed, &status, snapshot.now, snapshot.now);
    Plan {
        set: Arc::clone(&snapshot.set),
        orphans_to_adopt: claims.to_adopt.clone(),
        pods_to_release: claims.to_release.clone(),
        requeue_after: timer::requeue_after(snapshot, &manage, available_in),
        pod_changes: manage,
        first_unready_pods: claims.to_keep.iter().filter(|pod| !pod.is_ready()).take(MAX_NAMED_PODS).cloned().collect(),
        time_until_next_available: available_in,
        expected_outcome: expected,
        status,
    }
}

#[cfg(test)]
mod tests;
