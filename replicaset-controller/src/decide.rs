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
    let claimed_pods: Vec<&SharedPod> = claims.to_keep.iter().chain(&claims.to_adopt).collect();
    let pod_changes = manage::decide_pod_changes(snapshot, &claimed_pods);
    let is_allowed = pod_changes.is_pod_change_allowed();
    let expected_outcome = if is_allowed { PodChangesOutcome::Done } else { PodChangesOutcome::NotAllowed };
    let status = status::compute_status(snapshot, &claimed_pods, &expected_outcome);
    let time_until_next_available = timer::time_until_next_available(snapshot, &claimed_pods, &status, snapshot.now);
    Plan {
        set: Arc::clone(&snapshot.set),
        requeue_after: timer::requeue_after(snapshot, &pod_changes, time_until_next_available),
        pod_changes,
        first_unready_pods: claims.to_keep.iter().filter(|pod| !pod.is_ready()).take(MAX_NAMED_PODS).cloned().collect(),
        time_until_next_available,
        expected_outcome,
        status,
    }
}

#[cfg(test)]
mod tests;
