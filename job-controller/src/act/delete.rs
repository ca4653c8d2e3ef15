//! Deleting Pods, and taking the finalizer off.

use common::{
    api::{self, Delete, Patch, Target, Written},
    batch::all,
    claim::WrittenVersions,
    events::EventType,
    pods::PODS,
    refs::at_version,
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

/// What became of a request to remove the finalizer of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Untracked {
    /// The finalizer is gone.
    Yes,
    /// The Pod is gone.
    Gone,
    /// The Pod has changed since the version that was judged, and keeps its finalizer.
    Changed,
}

/// What became of a request about one Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// The request took effect.
    Yes,
    /// The Pod was gone before.
    Gone,
    /// This process ends, and sent nothing.
    No,
    /// The Pod has changed since the version that was judged. The Job is synced again once the cache shows the newer version.
    Changed,
}

impl JobController {
    /// Deletes all of them; tells the first error once every one was tried.
    ///
    /// Each request names the version of the Pod that was judged: a Pod that has ended, or was released, since then is judged
    /// again and not deleted for what it was.
    pub(super) async fn delete_pods(
        &self,
        snapshot: &Snapshot,
        pods: &[&Claimed],
        finalizer: Finalizer,
        versions: &WrittenVersions,
    ) -> (Outcome, Option<Error>) {
        // Noted before the first request: an event may come before the answer.
        for Claimed { pod, .. } in pods {
            let meta = pod.meta();
            self.ledger.deleted(&snapshot.owner.uid, PODS, &meta.namespace, &meta.name, &meta.uid);
        }
        let results = all(pods.iter().map(|claimed| self.delete_pod(snapshot, claimed, finalizer, versions))).await;
        let (mut outcome, mut failed) = (Outcome::default(), None);
        for (Claimed { pod, .. }, result) in pods.iter().zip(results) {
            match result {
                Ok(Done::Yes | Done::Gone) => {
                    outcome.removed += 1;
                    outcome.removed_ready += usize::from(pod.is_ready());
                }
                Ok(Done::No) => {}
                Ok(Done::Changed) => outcome.changed += 1,
                Err(error) => failed = failed.or(Some(Error::Delete(error))),
            }
        }
        (outcome, failed)
    }

    async fn delete_pod(
        &self,
        snapshot: &Snapshot,
        Claimed { pod, tracked, .. }: &Claimed,
        finalizer: Finalizer,
        versions: &WrittenVersions,
    ) -> Result<Done, api::Error> {
        let untrack = *tracked && finalizer == Finalizer::GoesFirst;
        let result = self.try_to_delete(snapshot, pod, untrack, versions).await;
        if !matches!(result, Ok(Done::Yes)) {
            // The cache need not show a deletion that was not made here.
            self.ledger.undelete(&snapshot.owner.uid, &pod.meta().uid);
        }
        result
    }

    async fn try_to_delete(
        &self,
        snapshot: &Snapshot,
        pod: &PodRef,
        untrack: bool,
        versions: &WrittenVersions,
    ) -> Result<Done, api::Error> {
        let meta = pod.meta();
        if self.ends() {
            return Ok(Done::No);
        }
        let mut version = Some(versions.of(meta));
        if untrack {
            match self.untrack(snapshot, pod, versions).await? {
                // The decision has been carried out by half: whatever becomes of the Pod now, nothing counts it any more.
                Untracked::Yes => version = None,
                Untracked::Gone => return Ok(Done::Gone),
                Untracked::Changed => return Ok(Done::Changed),
            }
        }
        let options = Delete { uid: Some(meta.uid.clone()), version, ..Delete::default() };
        let target = Target::object(PODS, &meta.namespace, &meta.name);
        match self.context.api.delete(target, &options).await {
            Ok(answer) => {
                // A Pod that terminates, or keeps a finalizer, is there still. The answer about one that is gone says nothing.
                if let Ok(written) = serde_json::from_slice(&answer) {
                    versions.note(meta, &written);
                }
                let name = super::pod_name(pod);
                self.event(snapshot, EventType::Normal, "SuccessfulDelete", format!("Deleted pod: {name}"));
                Ok(Done::Yes)
            }
            Err(error) if error.is_not_found() => Ok(Done::Gone),
            Err(error) if error.is_conflict() => {
                self.ledger.conflicted(&snapshot.owner.uid, PODS, meta);
                Ok(Done::Changed)
            }
            Err(error) => {
                if !matches!(error, api::Error::NotLeader) {
                    self.event(snapshot, EventType::Warning, "FailedDelete", format!("Error deleting: {error}"));
                }
                Err(error)
            }
        }
    }

    /// Removes the tracking finalizer of a Pod that has not changed since it was judged. A Pod that is gone has none.
    pub(super) async fn untrack(
        &self,
        snapshot: &Snapshot,
        pod: &PodRef,
        versions: &WrittenVersions,
    ) -> Result<Untracked, api::Error> {
        let meta = pod.meta();
        let patch = json!({"metadata": {"uid": meta.uid, "$deleteFromPrimitiveList/finalizers": [JOB_TRACKING]}});
        let patch = at_version(patch, versions.of(meta));
        let target = Target::object(PODS, &meta.namespace, &meta.name);
        match self.context.api.patch(target, Patch::Strategic, &patch).await {
            Ok(answer) => {
                let written: Written = serde_json::from_slice(&answer)?;
                self.ledger.wrote(&snapshot.owner.uid, PODS, written.metadata.resource_version);
                versions.note(meta, &written);
                Ok(Untracked::Yes)
            }
            Err(error) if error.is_not_found() || error.is_another() => Ok(Untracked::Gone),
            Err(error) if error.is_conflict() => {
                self.ledger.conflicted(&snapshot.owner.uid, PODS, meta);
                Ok(Untracked::Changed)
            }
            Err(error) => Err(error),
        }
    }
}
