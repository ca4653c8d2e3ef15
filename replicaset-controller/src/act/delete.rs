//! Deleting Pods.

use common::{
    api::{self, Delete, Target},
    batch::all,
    events::EventType,
    pods::PODS,
};

use crate::{
    ReplicaController,
    decide::{Snapshot, Victim},
    error::Error,
    kind::Kind,
};

impl<K: Kind> ReplicaController<K> {
    /// Deletes all of them; tells the first error once every one was tried.
    pub(super) async fn delete_pods(&self, snapshot: &Snapshot, victims: &[Victim]) -> Result<(), Error> {
        // Noted before the first request: an event may come before the answer.
        for Victim { pod, .. } in victims {
            let meta = pod.meta();
            self.ledger.deleted(&snapshot.owner.uid, PODS, &meta.namespace, &meta.name, &meta.uid);
            if let Some(backoff) = &self.backoff {
                backoff.gone(&snapshot.owner.uid, &meta.uid);
            }
        }
        let calls = victims.iter().map(|victim| self.delete_pod(snapshot, victim));
        all(calls).await.into_iter().collect::<Result<(), _>>().map_err(Error::Delete)
    }

    async fn delete_pod(&self, snapshot: &Snapshot, Victim { pod, .. }: &Victim) -> Result<(), api::Error> {
        let meta = pod.meta();
        if self.queue.is_closed() {
            // This process ends: whoever comes next goes on.
            self.ledger.undelete(&snapshot.owner.uid, &meta.uid);
            return Ok(());
        }
        let options = Delete { uid: Some(meta.uid.clone()), ..Delete::default() };
        let target = Target::object(PODS, &meta.namespace, &meta.name);
        let Err(error) = self.context.api.delete(target, &options).await else {
            self.event(snapshot, EventType::Normal, "SuccessfulDelete", format!("Deleted pod: {}", meta.name));
            return Ok(());
        };
        self.ledger.undelete(&snapshot.owner.uid, &meta.uid);
        // Gone, or another one of that name: what was to be deleted is.
        if error.is_not_found() || error.is_conflict() {
            return Ok(());
        }
        if !matches!(error, api::Error::NotLeader) {
            self.event(snapshot, EventType::Warning, "FailedDelete", format!("Error deleting: {error}"));
        }
        Err(error)
    }
}
