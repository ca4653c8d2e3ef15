//! Sends the requests of the plan for the Endpoints of a Service.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    api::Patch,
    events::EventType,
    io::{self, Class, Failed, Refusal, Request, Requeue, Role},
    meta::Key,
};
use serde_json::{Value, json};

use super::{
    plan::{Plan, Wanted},
    snapshot::Snapshot,
};
use crate::{
    memory::{Memory, Settled},
    objects::{ENDPOINTS, Endpoints, Service},
};

/// A change of the controller's memory that a sync asks for.
#[derive(Debug)]
pub enum Note {
    /// The new memory of the Service, which replaces the old one.
    Decide(Memory),
    /// The answer to a write is lost; the write may or may not have taken effect.
    LoseAnswer,
}

impl io::Note for Note {
    type Question = ();
    type Fresh = ();
}

type Io<'r> = io::Io<'r, Note>;

/// Sends the write of a plan, if there is one, and notes the new memory of the Service.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    match (plan, &snapshot.members) {
        (Plan::Delete(endpoints), _) => {
            let request = Request::delete(ENDPOINTS, &endpoints.metadata).role(Role::Awaited);
            match io.send(request.because("the Service does not exist")).await {
                Err(refusal) if !refusal.error.is_not_found() => Err(failed("delete", &snapshot.key, &refusal)),
                _ => Ok(Requeue::AsPlanned),
            }
        }
        (Plan::Keep(wanted), Some(members)) => keep(&snapshot.key, &members.service, wanted, io).await,
        (Plan::Keep(_) | Plan::Settled(_) | Plan::Leave, _) => Ok(Requeue::AsPlanned),
    }
}

/// Creates or patches the Endpoints if they differ from the wanted state.
async fn keep(key: &Key, service: &Service, wanted: &Wanted, io: Io<'_>) -> Result<Requeue, Failed> {
    let settled = wanted.base.as_deref().filter(|_| !wanted.write).map(|base| Settled::new(service, base));
    let (uid, seen) = (service.metadata.uid.clone(), Some(Arc::new(wanted.seen.clone())));
    io.note(Note::Decide(Memory { uid, seen, settled, ..Memory::default() }));
    if !wanted.write {
        return Ok(Requeue::AsPlanned);
    }
    let request = match &wanted.base {
        Some(base) => {
            let body = io.body(|| patch(base, wanted));
            Request::patch(ENDPOINTS, &base.metadata, Patch::Merge, body).doing("update")
        }
        None => Request::create(ENDPOINTS, &key.namespace, &key.name, io.body(|| whole(key, wanted))),
    };
    let refusal = match io.send(request.role(Role::Awaited)).await {
        Err(refusal) if refusal.class != Class::NamespaceTerminating => refusal,
        _ => return Ok(Requeue::AsPlanned),
    };
    if refusal.class == Class::Unknown {
        io.note(Note::LoseAnswer);
    }
    let error = &refusal.error;
    let (reason, message) = match &wanted.base {
        None => ("FailedToCreateEndpoint", format!("Failed to create endpoint for service {key}: {error}")),
        Some(_) => ("FailedToUpdateEndpoint", format!("Failed to update endpoint {key}: {error}")),
    };
    io.event(EventType::Warning, reason, message);
    Err(failed("write", key, &refusal))
}

fn failed(doing: &str, key: &Key, refusal: &Refusal) -> Failed {
    Failed::request(&format!("failed to {doing} endpoints {key}"), refusal)
}

fn whole(key: &Key, wanted: &Wanted) -> Value {
    let annotations: BTreeMap<&str, &str> =
        wanted.annotations().into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    json!({
        "apiVersion": ENDPOINTS.api_version(), "kind": ENDPOINTS.kind,
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": wanted.labels, "annotations": annotations},
        "subsets": wanted.subsets,
    })
}

/// Builds the merge patch from `base` to the wanted state. Annotations of other writers stay unchanged.
fn patch(base: &Endpoints, wanted: &Wanted) -> Value {
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
