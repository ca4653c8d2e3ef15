//! Creating and deleting Pods, with the Events on their owner.
//!
//! Upstream: `pkg/controller`, `RealPodControl`.

use std::sync::Arc;

use super::{
    effect::MemoryNote,
    request::{AnswerMetadata, Refusal, RefusalClass, Request},
    run::{Answer, Io},
};
use crate::events::EventType;

/// Creates a Pod and records an Event on the owner.
pub async fn create_pod<N: MemoryNote>(io: Io<'_, N>, request: Request) -> Result<AnswerMetadata, Refusal> {
    create_pod_with_answer(io, request).await.map(|answer| answer.metadata)
}

/// Creates a Pod, records an Event, and returns the whole answer, which shows the changes that webhooks made to the Pod.
pub async fn create_pod_with_answer<N: MemoryNote>(io: Io<'_, N>, request: Request) -> Result<Answer, Refusal> {
    let created = io.send(request).await;
    match &created {
        Ok(pod) => {
            io.record_event(EventType::Normal, "SuccessfulCreate", format!("Created pod: {}", pod.metadata.name));
        }
        Err(refusal) if refusal.class == RefusalClass::NamespaceTerminating => {}
        Err(refusal) => {
            io.record_event(EventType::Warning, "FailedCreate", format!("Error creating: {}", refusal.error));
        }
    }
    created
}

/// Deletes a Pod and records an Event on the owner. A Pod that does not exist counts as deleted.
///
/// A request with a version does not delete a Pod that has changed since the snapshot, for example a Pod that has become ready
/// or was released. The server refuses such a request as [`RefusalClass::VersionConflict`], and no Event is recorded.
pub async fn delete_pod<N: MemoryNote>(io: Io<'_, N>, request: Request) -> Result<(), Refusal> {
    let name = Arc::clone(&request.name);
    match io.send(request).await {
        Ok(_) => io.record_event(EventType::Normal, "SuccessfulDelete", format!("Deleted pod: {name}")),
        Err(refusal) if refusal.error.is_not_found() => {}
        Err(refusal) => {
            if refusal.class != RefusalClass::VersionConflict {
                io.record_event(EventType::Warning, "FailedDelete", format!("Error deleting: {}", refusal.error));
            }
            return Err(refusal);
        }
    }
    Ok(())
}
