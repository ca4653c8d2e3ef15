//! From a key to a snapshot: reads of the caches of the loop of Jobs.

use common::{
    controller::Observed,
    meta::Uid,
    store::{ByController, IndexValue},
};

use super::{OrphanController, decide::is_orphan, key::Orphan, snapshot::Snapshot};

impl OrphanController {
    pub(super) fn observe(&self, key: &Orphan) -> Observed<Snapshot> {
        let store = self.0.pods.store();
        let mut pods = match key {
            Orphan::Pod { namespace, name } => store.get_readable(namespace, name).into_iter().collect(),
            Orphan::Job { namespace, uid, .. } => {
                // Finalizers that were removed just now are not removed again.
                if let Some(behind) = self.0.behind(namespace, uid) {
                    return Observed::behind(behind);
                }
                let owner = IndexValue::Controller { namespace: namespace.clone(), uid: uid.clone() };
                store.readable_by_index(ByController, &owner)
            }
        };
        pods.retain(|pod| is_orphan(pod, |owner| self.counts(&pod.meta().namespace, &owner.name, &owner.uid)));
        if let Orphan::Job { namespace, name, uid } = key
            && !self.counts(namespace, name, uid)
        {
            self.0.memory.forget(uid);
            self.0.ledger.forget(uid);
        }
        if pods.is_empty() { Observed::Gone } else { Observed::Ready(Snapshot { pods }) }
    }

    /// Whether there is a Job with this uid whose Pods are counted, by this controller or by the one that manages the Job. A Job that cannot
    /// be read may be one.
    fn counts(&self, namespace: &str, name: &str, uid: &Uid) -> bool {
        let jobs = self.0.jobs.store();
        match jobs.get(namespace, name) {
            Ok(Some(job)) => job.metadata.uid == *uid && (job.managed_by.is_some() || !job.is_finished()),
            Ok(None) => false,
            Err(_) => jobs.peek(namespace, name, |meta| meta.uid == *uid).unwrap_or(false),
        }
    }
}
