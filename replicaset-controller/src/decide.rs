//! Turns a snapshot into a plan. Pure code: no requests, no clock, no randomness.

pub mod failure;
pub mod manage;
mod rank;
pub mod status;
pub mod timer;

use std::sync::Arc;

use crate::{
    plan::{Managed, Plan},
    snapshot::{PodRef, Snapshot},
};

/// Maximum number of unready Pods that a plan names.
const NAMED: usize = 3;

/// Decides what one sync of a set does.
///
/// Pods are claimed first, then created or deleted, but never both. The status counts the Pods before these creations or
/// deletions. Upstream: `pkg/controller/replicaset`, `syncReplicaSet`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let claims = &snapshot.claims;
    let claimed: Vec<&PodRef> = claims.keep.iter().chain(&claims.adopt).collect();
    let manage = manage::manage(snapshot, &claimed);
    let expected = if manage.is_allowed() { Managed::Done } else { Managed::NotAllowed };
    let status = status::status(snapshot, &claimed, &expected, snapshot.now);
    let available_in = timer::next_check(snapshot, &claimed, &status, snapshot.now, snapshot.now);
    Plan {
        set: Arc::clone(&snapshot.set),
        adopt: claims.adopt.clone(),
        release: claims.release.clone(),
        requeue_after: timer::requeue_after(snapshot, &manage, available_in),
        manage,
        unready: claims.keep.iter().filter(|pod| !pod.is_ready()).take(NAMED).cloned().collect(),
        available_in,
        expected,
        status,
    }
}

#[cfg(test)]
mod tests;
