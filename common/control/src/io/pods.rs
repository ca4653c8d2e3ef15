//! Creating and deleting Pods, with the Events on their owner.
//!
//! Upstream: `pkg/controller`, `RealPodControl`.

use std::sync::Arc;

use super::{
    request::{Refusal, RefusalClass, Request},
    run::{Answer, Io},
};
use crate::{api, events::EventType, meta::Meta, pods::PODS, refs::Owner, selector::Selector};

/// Creates a Pod and records an Event on the owner, like [`create_pod_with_answer`].
pub async fn create_pod<M: Sync>(
    io: Io<'_, M>,
    request: Request,
    owner: &Owner,
    selector: &Selector,
) -> Result<(), Refusal> {
    create_pod_with_answer(io, request, owner, selector).await.map(drop)
}

/// Creates a Pod, records an Event, and returns the whole answer, which shows the changes that webhooks made to the Pod.
///
/// If the created Pod does not belong to `owner`, it is deleted, and the creation counts as refused. Otherwise each sync would
/// release such a Pod and create another one. Upstream does so without end (kubernetes/kubernetes#57167).
///
/// # Errors
/// The server's refusal, or [`RefusalClass::ChangedByAdmission`].
pub async fn create_pod_with_answer<M: Sync>(
    io: Io<'_, M>,
    request: Request,
    owner: &Owner,
    selector: &Selector,
) -> Result<Answer, Refusal> {
    let created = match io.send(request).await {
        Ok(answer) => delete_if_changed(io, answer, owner, selector).await,
        refused => refused,
    };
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

/// Deletes a Pod that was just created, if admission has changed it so that it does not belong to `owner`.
///
/// If the deletion fails, the next sync releases the Pod.
async fn delete_if_changed<M: Sync>(
    io: Io<'_, M>,
    answer: Answer,
    owner: &Owner,
    selector: &Selector,
) -> Result<Answer, Refusal> {
    let Some(pod) = answer.decode_metadata().ok().flatten().filter(|pod| !pod.uid.is_empty()) else {
        return Ok(answer);
    };
    let Some(problem) = ownership_problem(&pod, owner, selector) else { return Ok(answer) };
    let text =
        format!("pod \"{}\" was stored with {problem}, probably because of an admission webhook or policy", pod.name);
    io.explain_deviation(text.clone());
    // No other controller adopts a Pod with a controller, so that its version does not matter. The scheduler changes it soon.
    let is_controlled = pod.controller().is_some_and(|controller| controller.uid == owner.uid);
    let version = (!is_controlled).then_some(pod.resource_version);
    let request = Request::delete(PODS, &pod).with_precondition_version(version);
    let end = match io.send(request.with_reason("it does not belong to its owner")).await {
        Err(refusal) if !refusal.error.is_not_found() => format!("; it cannot be deleted: {}", refusal.error),
        _ => "; it was deleted".to_owned(),
    };
    Err(api::Error::ChangedByAdmission(text + &end).into())
}

/// Returns the metadata because of which a new Pod does not belong to `owner`; `None` if it does.
///
/// A Pod without a controller that the selector matches is adopted by the next sync.
fn ownership_problem(pod: &Meta, owner: &Owner, selector: &Selector) -> Option<&'static str> {
    if !selector.matches(&pod.labels) {
        return Some("labels that the selector does not match");
    }
    pod.controller().is_some_and(|controller| controller.uid != owner.uid).then_some("another controller")
}

/// Deletes a Pod and records an Event on the owner. A Pod that does not exist counts as deleted.
///
/// A request with a version does not delete a Pod that has changed since the snapshot, for example a Pod that has become ready
/// or was released. The server refuses such a request as [`RefusalClass::VersionConflict`], and no Event is recorded.
pub async fn delete_pod<M: Sync>(io: Io<'_, M>, request: Request) -> Result<(), Refusal> {
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
