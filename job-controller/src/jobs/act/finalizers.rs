//! Removes the tracking finalizer from Pods of a Job.

use common::{api::PatchFormat, pods::PODS, prelude::*};
use serde_json::json;

use crate::{
    jobs::{JobController, snapshot::SharedPod},
    objects::{CachedPod, JOB_TRACKING_FINALIZER},
};

/// Builds the request that removes the tracking finalizer from a Pod, with a precondition on its cached version.
///
/// If the Pod has been deleted, the server refuses the request with [`RefusalClass::NotFound`].
pub(crate) fn finalizer_removal_request<C: Sync>(pod: &CachedPod, why: &'static str, io: Io<'_, C>) -> Request {
    let body =
        io.encode_body(|| json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [JOB_TRACKING_FINALIZER]}}));
    Request::patch(PODS, pod.meta(), PatchFormat::Strategic, body)
        .with_verb_text("remove the finalizer of")
        .with_reason(why)
}

/// The result of removing finalizers: Pods that lost the finalizer, and Pods that may still carry it.
#[derive(Default)]
pub(crate) struct FinalizerRemoval<'a> {
    /// Pods that have lost the finalizer or no longer exist.
    pub(crate) pods_without_finalizer: Vec<&'a SharedPod>,
    /// Pods that may still have the finalizer, each with the server's refusal.
    refused: Vec<(&'a SharedPod, Refusal)>,
}

/// Removes the finalizer from all `pods` of a Job, in parallel. The next sync of the Job waits until the cache shows these
/// writes.
pub(crate) async fn remove_finalizers<'a>(
    job: &Uid,
    pods: Vec<&'a SharedPod>,
    why: &'static str,
    io: Io<'_, JobController>,
) -> FinalizerRemoval<'a> {
    let mut finalizer_removal = FinalizerRemoval::default();
    if pods.is_empty() {
        return finalizer_removal;
    }
    let uids = pods.iter().map(|pod| pod.meta().uid.clone());
    io.update_memory(|controller| controller.memory.record_finalizer_removal(job, uids));
    let send = |pod: &'a SharedPod| io.send(finalizer_removal_request(pod, why, io).with_role(ObjectRole::Child));
    let mut answers = io.run_group(GroupConcurrency::AllConcurrent, pods.iter().copied(), send).await.into_iter();
    let mut not_removed = Vec::new();
    for pod in pods {
        // There are fewer answers than Pods if the process is shutting down.
        let answer = answers.next();
        if let Some(Ok(_) | Err(Refusal { class: RefusalClass::NotFound, .. })) = answer {
            finalizer_removal.pods_without_finalizer.push(pod);
            continue;
        }
        not_removed.push(pod.meta().uid.clone());
        finalizer_removal.refused.extend(answer.and_then(Result::err).map(|refusal| (pod, refusal)));
    }
    if !not_removed.is_empty() {
        io.update_memory(|controller| controller.memory.revert_finalizer_removal(job, &not_removed));
    }
    finalizer_removal
}

impl FinalizerRemoval<'_> {
    /// Counts the requests that failed because the cached Pod was stale. The event with the newer Pod enqueues the Job again.
    pub(crate) fn conflict_count(&self) -> usize {
        self.refused.len() - self.failures().count()
    }

    /// Returns an error for the first refusal that is not a version conflict; `doing` begins the error message.
    pub(crate) fn first_error(&self, doing: &str) -> Option<SyncError> {
        let (pod, refusal) = self.failures().next()?;
        Some(SyncError::from_refusal(&format!("{doing} {}", pod.meta().key()), refusal))
    }

    /// Emits one `FailedUpdate` Event if the server denies the removal of a finalizer, for example for lack of permission.
    pub(crate) fn record_denied_removal_event(&self, io: Io<'_, JobController>) {
        if let Some((pod, refusal)) = self.failures().find(|(_, refusal)| refusal.error.is_denied()) {
            let message = format!("Error: cannot remove the finalizer of Pod {}: {}", pod.meta().key(), refusal.error);
            io.record_event(EventType::Warning, "FailedUpdate", message);
        }
    }

    fn failures(&self) -> impl Iterator<Item = &(&SharedPod, Refusal)> {
        self.refused.iter().filter(|(_, refusal)| refusal.class != RefusalClass::VersionConflict)
    }
}
