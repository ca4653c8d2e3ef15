//! Whether a Pod is an orphan, and what becomes of it.

use common::meta::OwnerRef;

use super::{plan::Plan, snapshot::Snapshot};
use crate::objects::{CachedPod, JOBS};

/// Takes the finalizer off every Pod.
pub(super) fn decide(snapshot: &Snapshot) -> Plan {
    Plan { pods: snapshot.pods.clone() }
}

/// Whether a Pod carries the finalizer and no Job counts it any more. `counts` tells whether the Job with that reference does.
///
/// Upstream: `pkg/controller/job`, `handleSingleOrphanPod`.
pub(super) fn is_orphan(pod: &CachedPod, counts: impl FnOnce(&OwnerRef) -> bool) -> bool {
    pod.tracked
        && pod.meta().controller().is_none_or(|owner| {
            let is_job = owner.kind == JOBS.kind && owner.api_version.split('/').next() == Some(JOBS.group);
            is_job && !counts(owner)
        })
}
