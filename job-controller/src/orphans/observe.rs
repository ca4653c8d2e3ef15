//! Builds the snapshot of possible orphans from the caches of the Job loop.

use common::{
    controller::Observed,
    meta::Uid,
    store::{ByController, IndexValue},
};

use super::{
    OrphanController,
    key::Orphan,
    snapshot::{Candidate, Snapshot},
};
use crate::jobs::snapshot::PodRef;

impl OrphanController {
    pub(super) fn observe(&self, key: &Orphan) -> Observed<Snapshot> {
        let store = self.0.pods.store();
        let pods: Vec<PodRef> = match key {
            Orphan::Pod { namespace, name } => store.get_readable(namespace, name).into_iter().collect(),
            Orphan::Job { namespace, uid, .. } => {
                // The sync waits until the cache shows the last removals of finalizers, so that no finalizer is removed twice.
                if let Some(behind) = self.0.behind(namespace, uid) {
                    return Observed::behind(behind);
                }
                let owner = IndexValue::Controller { namespace: namespace.clone(), uid: uid.clone() };
                store.readable_by_index(ByController, &owner)
            }
        };
        let ended_job = match key {
            Orphan::Job { namespace, name, uid } if !self.counts(namespace, name, uid) => Some(uid.clone()),
            _ => None,
        };
        if pods.is_empty() && ended_job.is_none() {
            return Observed::Gone;
        }
        let candidate = |pod: PodRef| {
            let meta = pod.meta();
            let is_counted =
                meta.controller().is_some_and(|owner| self.counts(&meta.namespace, &owner.name, &owner.uid));
            Candidate { pod, is_counted }
        };
        Observed::Ready(Snapshot { pods: pods.into_iter().map(candidate).collect(), ended_job })
    }

    /// Whether the Job with this UID exists, and this controller or another manager counts its Pods. An unreadable Job is
    /// assumed to count them.
    fn counts(&self, namespace: &str, name: &str, uid: &Uid) -> bool {
        let jobs = self.0.jobs.store();
        match jobs.get(namespace, name) {
            Ok(Some(job)) => job.metadata.uid == *uid && (job.managed_by.is_some() || !job.is_finished()),
            Ok(None) => false,
            Err(_) => jobs.peek(namespace, name, |meta| meta.uid == *uid).unwrap_or(false),
        }
    }
}
