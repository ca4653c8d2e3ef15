//! Decides which Pods lose the finalizer, because no Job counts them.

use super::{
    plan::Plan,
    snapshot::{PossibleOrphan, Snapshot},
};
use crate::objects::JOBS;

/// Selects the Pods that carry the finalizer and that no Job counts.
pub(super) fn decide(snapshot: &Snapshot) -> Plan {
    let orphans = snapshot.possible_orphans.iter().filter(|candidate| is_orphan(candidate));
    Plan { pods_to_remove_finalizer_from: orphans.map(|candidate| candidate.pod.clone()).collect() }
}

/// Whether a Pod carries the finalizer and no Job counts it any more.
///
/// Upstream: `pkg/controller/job`, `handleSingleOrphanPod`.
fn is_orphan(PossibleOrphan { pod, is_counted_by_job: is_counted }: &PossibleOrphan) -> bool {
    pod.has_tracking_finalizer
        && pod.meta().controller().is_none_or(|owner| {
            let is_job = owner.kind == JOBS.kind() && owner.api_version.split('/').next() == Some(JOBS.group());
            is_job && !is_counted
        })
}
