//! Decides which Pods lose the finalizer, because no Job counts them. Pure: no requests, no clock, no randomness.

use common::prelude::*;

use crate::{jobs::snapshot::SharedPod, objects::JOBS};

/// The input of one sync: the Pods of a key that may carry a leftover finalizer.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(super) possible_orphans: Vec<PossibleOrphan>,
    /// The UID of the Job in the key, if this Job has finished or was deleted; `None` if it counts Pods, or the key is a Pod.
    pub(super) finished_or_deleted_job_uid: Option<Uid>,
}

/// A Pod that may carry a leftover finalizer.
#[derive(Clone, Debug)]
pub(super) struct PossibleOrphan {
    pub(super) pod: SharedPod,
    /// Whether the Job in the owner reference counts the Pod.
    pub(super) is_counted_by_job: bool,
}

/// The Pods that carry the finalizer and that no Job counts.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(super) pods_to_remove_finalizer_from: Vec<SharedPod>,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        let count = self.pods_to_remove_finalizer_from.len();
        format!("{count} Pods carry the finalizer and have no Job that counts them")
    }
}

/// Selects the Pods that carry the finalizer and that no Job counts.
pub(super) fn decide(snapshot: &Snapshot) -> Plan {
    let orphans = snapshot.possible_orphans.iter().filter(|possible_orphan| is_orphan(possible_orphan));
    Plan { pods_to_remove_finalizer_from: orphans.map(|orphan| orphan.pod.clone()).collect() }
}

/// Whether a Pod carries the finalizer and no Job counts it any more.
///
/// Upstream: `pkg/controller/job`, `handleSingleOrphanPod`.
fn is_orphan(PossibleOrphan { pod, is_counted_by_job }: &PossibleOrphan) -> bool {
    pod.has_tracking_finalizer
        && pod.meta().controller().is_none_or(|owner| {
            let is_job = owner.kind == JOBS.kind() && owner.api_version.split('/').next() == Some(JOBS.group());
            is_job && !is_counted_by_job
        })
}
