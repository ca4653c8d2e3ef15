//! Deleting Pods, and taking the finalizer off.

use common::{
    api::{self, Delete, Patch, Target, Written},
    batch::all,
    events::EventType,
    pods::PODS,
};
use serde_json::json;

use crate::{
    JobController,
    decide::{Claimed, Outcome, PodRef, Snapshot},
    error::Error,
    objects::JOB_TRACKING,
};

/// What becomes of the finalizer of a Pod that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finalizer {
    /// It goes before the Pod does: the Pod is not counted.
    GoesFirst,
    /// It stays until the Pod has been counted.
    Stays,
}

impl JobController {
    /// Deletes all of them; tells the first error once every one was tried.
    pub(super) async fn delete_pods(
        &self,
        snapshot: &Snapshot,
        pods: &[&Claimed],
        finalizer: Finalizer,
    ) -> (Outcome, Option<Error>) {
        // Noted before the first request: an event may come before the answer.
        for Claimed { pod, .. } in pods {
            let meta = pod.meta();
            self.ledger.deleted(&snapshot.owner.uid, PODS, &meta.namespace, &meta.name, &meta.uid);
        }
        let results = all(pods.iter().map(|claimed| self.delete_pod(snapshot, claimed, finalizer))).await;
        let (mut outcome, mut failed) = (Outcome::default(), None);
        for (Claimed { pod, .. }, result) in pods.iter().zip(results) {
            match result {
                Ok(true) => {
                    outcome.removed += 1;
                    outcome.removed_ready += usize::from(pod.is_ready());
                }
                Ok(false) => {}
                Err(error) => failed = failed.or(Some(Error::Delete(error))),
            }
        }
        (outcome, failed)
    }

    /// Whether the Pod is gone or going.
    async fn delete_pod(
        &self,
        snapshot: &Snapshot,
        Claimed { pod, tracked, .. }: &Claimed,
        finalizer: Finalizer,
    ) -> Result<bool, api::Error> {
        let (meta, owner) = (pod.meta(), &snapshot.owner.uid);
        if self.ends() {
            self.ledger.undelete(owner, &meta.uid);
            return Ok(false);
        }
        if finalizer == Finalizer::GoesFirst
            && *tracked
            && let Err(error) = self.remove_finalizer(snapshot, pod).await
        {
            self.ledger.undelete(owner, &meta.uid);
            return Err(error);
        }
        let options = Delete { uid: Some(meta.uid.clone()), ..Delete::default() };
        let target = Target::object(PODS, &meta.namespace, &meta.name);
        let Err(error) = self.context.api.delete(target, &options).await else {
            self.event(
                snapshot,
                EventType::Normal,
                "SuccessfulDelete",
                format!("Deleted pod: {}", super::pod_name(pod)),
            );
            return Ok(true);
        };
        self.ledger.undelete(owner, &meta.uid);
        // Gone, or another one of that name: what was to be deleted is.
        if error.is_not_found() || error.is_conflict() {
            return Ok(true);
        }
        if !matches!(error, api::Error::NotLeader) {
            self.event(snapshot, EventType::Warning, "FailedDelete", format!("Error deleting: {error}"));
        }
        Err(error)
    }

    /// Takes the tracking finalizer off a Pod; one that is gone has none.
    pub(super) async fn remove_finalizer(&self, snapshot: &Snapshot, pod: &PodRef) -> Result<(), api::Error> {
        let meta = pod.meta();
        let patch = json!({"metadata": {"uid": meta.uid, "$deleteFromPrimitiveList/finalizers": [JOB_TRACKING]}});
        let target = Target::object(PODS, &meta.namespace, &meta.name);
        match self.context.api.patch(target, Patch::Strategic, &patch).await {
            Ok(answer) => {
                let written: Written = serde_json::from_slice(&answer)?;
                self.ledger.wrote(&snapshot.owner.uid, PODS, written.metadata.resource_version);
                Ok(())
            }
            Err(error) if error.is_not_found() || error.is_another() => Ok(()),
            Err(error) => Err(error),
        }
    }
}
