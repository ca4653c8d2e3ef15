//! Sends the requests of the plan for the Endpoints of a Service.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    api::PatchFormat,
    events::EventType,
    io::{self, ObjectRole, Refusal, RefusalClass, Request, Requeue, SyncError},
    meta::NamespacedName,
};
use serde_json::{Value, json};

use super::{
    plan::{Plan, WantedEndpoints},
    snapshot::Snapshot,
};
use crate::{
    memory::{InSyncVersions, ServiceMemory},
    objects::{ENDPOINTS, Endpoints, Service},
};

/// A change of the controller's memory that a sync asks for.
#[derive(Debug)]
pub enum Note {
    /// The memory of the Service after this sync, which replaces the memory of the previous sync.
    ReplaceMemory(ServiceMemory),
    /// The answer to a write was lost; the write may or may not have taken effect.
    AnswerLost,
}

impl io::MemoryNote for Note {
    type Query = ();
    type NewState = ();
}

type Io<'r> = io::Io<'r, Note>;

/// Sends the write of a plan, if there is one, and replaces the memory of the Service.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    match (plan, &snapshot.service_with_pods) {
        (Plan::Delete(endpoints), _) => {
            let request = Request::delete(ENDPOINTS, &endpoints.metadata).with_role(ObjectRole::AwaitedObject);
            match io.send(request.with_reason("the Service does not exist")).await {
                Err(refusal) if !refusal.error.is_not_found() => Err(failed("delete", &snapshot.key, &refusal)),
                _ => Ok(Requeue::AfterPlannedDelay),
            }
        }
        (Plan::WriteIfNeeded(wanted), Some(members)) => {
            write_if_needed(&snapshot.key, &members.service, wanted, io).await
        }
        (Plan::WriteIfNeeded(_) | Plan::Unchanged(_) | Plan::NothingToDo, _) => Ok(Requeue::AfterPlannedDelay),
    }
}

/// Creates the Endpoints if they do not exist, or patches them if they differ from the wanted state.
async fn write_if_needed(
    key: &NamespacedName,
    service: &Service,
    wanted: &WantedEndpoints,
    io: Io<'_>,
) -> Result<Requeue, SyncError> {
    let settled = wanted
        .existing_endpoints
        .as_deref()
        .filter(|_| !wanted.is_write_needed)
        .map(|base| InSyncVersions::new(service, base));
    let (uid, seen) = (service.metadata.uid.clone(), Some(Arc::new(wanted.synced_state.clone())));
    io.apply_memory_note(Note::ReplaceMemory(ServiceMemory {
        uid,
        synced_state: seen,
        in_sync_versions: settled,
        ..ServiceMemory::default()
    }));
    if !wanted.is_write_needed {
        return Ok(Requeue::AfterPlannedDelay);
    }
    let request = match &wanted.existing_endpoints {
        Some(base) => {
            let body = io.encode_body(|| patch_body(base, wanted));
            Request::patch(ENDPOINTS, &base.metadata, PatchFormat::Merge, body).with_verb_text("update")
        }
        None => Request::create(ENDPOINTS, &key.namespace, &key.name, io.encode_body(|| create_body(key, wanted))),
    };
    let refusal = match io.send(request.with_role(ObjectRole::AwaitedObject)).await {
        Err(refusal) if refusal.class != RefusalClass::NamespaceTerminating => refusal,
        _ => return Ok(Requeue::AfterPlannedDelay),
    };
    if refusal.class == RefusalClass::MaybeWritten {
        io.apply_memory_note(Note::AnswerLost);
    }
    let error = &refusal.error;
    let (reason, message) = match &wanted.existing_endpoints {
        None => ("FailedToCreateEndpoint", format!("Failed to create endpoint for service {key}: {error}")),
        Some(_) => ("FailedToUpdateEndpoint", format!("Failed to update endpoint {key}: {error}")),
    };
    io.record_event(EventType::Warning, reason, message);
    Err(failed("write", key, &refusal))
}

fn failed(doing: &str, key: &NamespacedName, refusal: &Refusal) -> SyncError {
    SyncError::from_refusal(&format!("failed to {doing} endpoints {key}"), refusal)
}

fn create_body(key: &NamespacedName, wanted: &WantedEndpoints) -> Value {
    let annotations: BTreeMap<&str, &str> =
        wanted.annotations().into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    json!({
        "apiVersion": ENDPOINTS.api_version(), "kind": ENDPOINTS.kind(),
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": wanted.labels, "annotations": annotations},
        "subsets": wanted.subsets,
    })
}

/// Builds the merge patch that changes `base` into the wanted state. It does not change annotations of other writers.
fn patch_body(base: &Endpoints, wanted: &WantedEndpoints) -> Value {
    let meta = &base.metadata;
    let gone = meta.labels.iter().filter(|(key, _)| wanted.labels.get(key).is_none()).map(|(key, _)| (key, None));
    let labels: BTreeMap<&str, Option<&str>> =
        wanted.labels.iter().map(|(key, value)| (key, Some(value))).chain(gone).collect();
    let annotations: BTreeMap<&str, Option<&str>> =
        wanted.annotations().into_iter().filter(|(name, value)| meta.annotations.get(name) != *value).collect();
    json!({
        "metadata": {"labels": labels, "annotations": annotations},
        "subsets": wanted.subsets,
    })
}
