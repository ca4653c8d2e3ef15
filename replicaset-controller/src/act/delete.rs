//! Deleting Pods.

use common::{
    api::{self, Delete, Target},
    batch::all,
    claim::WrittenVersions,
    events::EventType,
    pods::PODS,
};

use crate::{
    ReplicaController,
    decide::{Snapshot, Victim},
    error::Error,
    kind::Kind,
};

/// What became of the request to delete one Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deleted {
    /// The Pod is gone or terminating.
    Yes,
    /// This process ends, and sent nothing.
    No,
    /// The Pod has changed since the version that was judged.
    Changed,
}

impl<K: Kind> ReplicaController<K> {
    /// Deletes all of them; tells the first error once every one was tried, and else how many have changed since they were
    /// ranked and were left alone.
    ///
    /// Each request names the version of the Pod that was ranked: one that has become ready, or was released, since then is
    /// ranked again and not deleted for what it was.
    pub(super) async fn delete_pods(
        &self,
        snapshot: &Snapshot,
        victims: &[Victim],
        versions: &WrittenVersions,
    ) -> Result<usize, Error> {
        // Noted before the first request: an event may come before the answer.
        for Victim { pod, .. } in victims {
            let meta = pod.meta();
            self.ledger.deleted(&snapshot.owner.uid, PODS, &meta.namespace, &meta.name, &meta.uid);
            if let Some(backoff) = &self.backoff {
                backoff.gone(&snapshot.owner.uid, &meta.uid);
            }
        }
        let results = all(victims.iter().map(|victim| self.delete_pod(snapshot, victim, versions))).await;
        let mut changed = 0;
        for result in results {
            changed += usize::from(result.map_err(Error::Delete)? == Deleted::Changed);
        }
        Ok(changed)
    }

    async fn delete_pod(
        &self,
        snapshot: &Snapshot,
        Victim { pod, .. }: &Victim,
        versions: &WrittenVersions,
    ) -> Result<Deleted, api::Error> {
        let (meta, owner) = (pod.meta(), &snapshot.owner.uid);
        if self.queue.is_closed() {
            self.ledger.undelete(owner, &meta.uid);
            return Ok(Deleted::No);
        }
        let version = Some(versions.of(meta));
        let options = Delete { uid: Some(meta.uid.clone()), version, ..Delete::default() };
        let target = Target::object(PODS, &meta.namespace, &meta.name);
        let Err(error) = self.context.api.delete(target, &options).await else {
            self.event(snapshot, EventType::Normal, "SuccessfulDelete", format!("Deleted pod: {}", meta.name));
            return Ok(Deleted::Yes);
        };
        self.ledger.undelete(owner, &meta.uid);
        if error.is_not_found() {
            return Ok(Deleted::Yes);
        }
        if error.is_conflict() {
            self.ledger.conflicted(owner, PODS, meta);
            return Ok(Deleted::Changed);
        }
        if !matches!(error, api::Error::NotLeader) {
            self.event(snapshot, EventType::Warning, "FailedDelete", format!("Error deleting: {error}"));
        }
        Err(error)
    }
}
