//! Creating and deleting Pods, with their Events.
//!
//! Upstream: `pkg/controller`, `RealPodControl`.

use std::sync::Arc;

use super::{
    effect::Note,
    request::{Class, Fields, Refusal, Request},
    run::{Answer, Io},
};
use crate::events::EventType;

/// Creates a Pod and records the Event of it.
pub async fn create_pod<N: Note>(io: Io<'_, N>, request: Request) -> Result<Fields, Refusal> {
    create_pod_with_answer(io, request).await.map(|answer| answer.fields)
}

/// The same with the whole answer, which shows what webhooks have made of the Pod.
pub async fn create_pod_with_answer<N: Note>(io: Io<'_, N>, request: Request) -> Result<Answer, Refusal> {
    let created = io.send(request).await;
    match &created {
        Ok(pod) => io.event(EventType::Normal, "SuccessfulCreate", format!("Created pod: {}", pod.fields.name)),
        Err(refusal) if refusal.class == Class::NamespaceTerminating => {}
        Err(refusal) => io.event(EventType::Warning, "FailedCreate", format!("Error creating: {}", refusal.error)),
    }
    created
}

/// Deletes a Pod and records the Event of it. A Pod that is gone already is deleted.
///
/// A request for the version that was judged leaves a Pod alone that has become ready, or was released, since then: it is refused as
/// [`Class::Changed`], and no Event is recorded.
pub async fn delete_pod<N: Note>(io: Io<'_, N>, request: Request) -> Result<(), Refusal> {
    let name = Arc::clone(&request.name);
    match io.send(request).await {
        Ok(_) => io.event(EventType::Normal, "SuccessfulDelete", format!("Deleted pod: {name}")),
        Err(refusal) if refusal.error.is_not_found() => {}
        Err(refusal) => {
            if refusal.class != Class::Changed {
                io.event(EventType::Warning, "FailedDelete", format!("Error deleting: {}", refusal.error));
            }
            return Err(refusal);
        }
    }
    Ok(())
}
