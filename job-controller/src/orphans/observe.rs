//! Builds the snapshot of possible orphans from the caches of the Job loop.

use common::{
    controller::Observation,
    meta::Uid,
    store::{ByController, IndexValue},
};

use super::{
    OrphanController,
    key::OrphanKey,
    snapshot::{PossibleOrphan, Snapshot},
};
use crate::jobs::snapshot::SharedPod;

impl OrphanController {
    pub(super) fn observe(&self, key: &OrphanKey) -> Observation<Snapshot> {
        let store = self.0.pod_informer.store();
        let pods: Vec<SharedPod> = match key {
            OrphanKey::Pod { namespace, name } => store.get_decoded(namespace, name).into_iter().collect(),
            OrphanKey::Job { namespace, uid, .. } => {
                // The sync waits until the cache shows the last removals of finalizers, so that no finalizer is removed twice.
                if let Some(behind) = self.0.unseen_write(namespace, uid) {
                    return Observation::waiting_for_own_writes(behind);
                }
                let owner = IndexValue::Controller { namespace: namespace.clone(), uid: uid.clone() };
                store.list_decoded_by_index(ByController, &owner)
            }
        };
        let ended_job = match key {
            OrphanKey::Job { namespace, name, uid } if !self.job_counts_pods(namespace, name, uid) => Some(uid.clone()),
            _ => None,
        };
        if pods.is_empty() && ended_job.is_none() {
            return Observation::Gone;
        }
        let candidate = |pod: SharedPod| {
            let meta = pod.meta();
            let is_counted =
                meta.controller().is_some_and(|owner| self.job_counts_pods(&meta.namespace, &owner.name, &owner.uid));
            PossibleOrphan { pod, is_counted_by_job: is_counted }
        };
        Observation::Ready(Snapshot {
            possible_orphans: pods.into_iter().map(candidate).collect(),
            finished_or_deleted_job_uid: ended_job,
        })
    }

    /// Whether the Job with this UID exists, and has not finished or is managed by another controller. True if the Job cannot
    /// be decoded.
    fn job_counts_pods(&self, namespace: &str, name: &str, uid: &Uid) -> bool {
        let jobs = self.0.job_informer.store();
        match jobs.get(namespace, name) {
            Ok(Some(job)) => job.metadata.uid == *uid && (job.managed_by.is_some() || !job.is_finished()),
            Ok(None) => false,
            Err(_) => jobs.with_metadata(namespace, name, |meta| meta.uid == *uid).unwrap_or(false),
        }
    }
}
