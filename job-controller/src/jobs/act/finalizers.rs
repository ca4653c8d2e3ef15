//! Removes the tracking finalizer from Pods of a Job.

use common::{
    events::EventType,
    io::{GroupConcurrency, ObjectRole, Refusal, RefusalClass, SyncError},
    meta::Uid,
};

use super::note::{Io, Note};
use crate::{jobs::snapshot::SharedPod, untrack::finalizer_removal_request};

/// The result of removing finalizers: Pods that lost the finalizer, and Pods that may still carry it.
#[derive(Default)]
pub(super) struct FinalizerRemovalResult<'a> {
    /// Pods that have lost the finalizer or no longer exist.
    pub(super) pods_without_finalizer: Vec<&'a SharedPod>,
    /// Pods that may still have the finalizer, each with the server's refusal.
    refused: Vec<(&'a SharedPod, Refusal)>,
}

/// Removes the finalizer from all `pods`, in parallel. The next sync of the Job waits until the cache shows these writes.
pub(super) async fn remove_finalizers<'a>(
    pods: Vec<&'a SharedPod>,
    why: &'static str,
    io: Io<'_>,
) -> FinalizerRemovalResult<'a> {
    let mut untracked = FinalizerRemovalResult::default();
    if pods.is_empty() {
        return untracked;
    }
    io.apply_memory_note(Note::RemovingFinalizers(pods.iter().copied().map(uid).collect()));
    let send = |pod: &'a SharedPod| io.send(finalizer_removal_request(pod, why, io).with_role(ObjectRole::Child));
    let mut answers = io.run_group(GroupConcurrency::AllConcurrent, pods.iter().copied(), send).await.into_iter();
    let mut still_tracked = Vec::new();
    for pod in pods {
        // There are fewer answers than Pods if the process is shutting down.
        let answer = answers.next();
        if let Some(Ok(_) | Err(Refusal { class: RefusalClass::NotFound, .. })) = answer {
            untracked.pods_without_finalizer.push(pod);
            continue;
        }
        still_tracked.push(uid(pod));
        untracked.refused.extend(answer.and_then(Result::err).map(|refusal| (pod, refusal)));
    }
    if !still_tracked.is_empty() {
        io.apply_memory_note(Note::FinalizersNotRemoved(still_tracked));
    }
    untracked
}

impl FinalizerRemovalResult<'_> {
    /// Counts the requests that failed because the cached Pod was stale. The event with the newer Pod enqueues the Job again.
    pub(super) fn conflict_count(&self) -> usize {
        self.refused.len() - self.failures().count()
    }

    /// Returns an error for the first refusal that is not a version conflict; `doing` begins the error message.
    pub(super) fn first_error(&self, doing: &str) -> Option<SyncError> {
        let (pod, refusal) = self.failures().next()?;
        Some(SyncError::from_refusal(&format!("{doing} {}", pod.meta().key()), refusal))
    }

    /// Emits one `FailedUpdate` Event if the server denies the removal of a finalizer, for example for lack of permission.
    pub(super) fn record_denied_removal_event(&self, io: Io<'_>) {
        if let Some((pod, refusal)) = self.failures().find(|(_, refusal)| refusal.error.is_denied()) {
            let message = format!("Error: cannot remove the finalizer of Pod {}: {}", pod.meta().key(), refusal.error);
            io.record_event(EventType::Warning, "FailedUpdate", message);
        }
    }

    fn failures(&self) -> impl Iterator<Item = &(&SharedPod, Refusal)> {
        self.refused.iter().filter(|(_, refusal)| refusal.class != RefusalClass::VersionConflict)
    }
}

fn uid(pod: &SharedPod) -> Uid {
    pod.meta().uid.clone()
}
