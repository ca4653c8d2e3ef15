//! From a plan to requests.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    api::{self, Delete, Patch, Target, Written},
    events::{EventType, ObjectRef},
    meta::{Key, Meta, Uid},
};
use serde_json::{Value, json};

use super::{EndpointsController, record};
use crate::{
    decide::endpoints::Wanted,
    error::Error,
    memory::{Memory, Settled},
    objects::{ENDPOINTS, Endpoints, Service},
    observe::drop_satisfied_record,
};

impl EndpointsController {
    pub(super) async fn delete(&self, key: &Key, endpoints: &Endpoints) -> Result<(), Error> {
        let meta = &endpoints.metadata;
        let version = Some(meta.resource_version);
        let options = Delete { uid: Some(meta.uid.clone()), version, ..Delete::default() };
        match self.context.api.delete(Target::object(ENDPOINTS, &meta.namespace, &meta.name), &options).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(Error::request(format!("failed to delete endpoints {key}"), error)),
        }
        self.ledger.deleted(&record(key), ENDPOINTS, &meta.namespace, &meta.name, &meta.uid);
        // Drops the record at once if the event of the deletion came before its answer.
        drop_satisfied_record(&self.ledger, &record(key), &**self.endpoints.store());
        Ok(())
    }

    async fn write(&self, key: &Key, wanted: &Wanted) -> Result<(), api::Error> {
        let answer = match &wanted.base {
            Some(base) => {
                let target = Target::object(ENDPOINTS, &key.namespace, &key.name);
                self.context.api.patch(target, Patch::Merge, &patch(base, wanted)).await?
            }
            None => {
                let target = Target::object(ENDPOINTS, &key.namespace, "");
                self.context.api.create(target, &whole(key, wanted)).await?
            }
        };
        let written = serde_json::from_slice::<Written>(&answer)?.metadata;
        self.ledger.wrote(&record(key), ENDPOINTS, written.resource_version);
        Ok(())
    }

    pub(super) async fn keep(&self, key: &Key, service: &Service, wanted: &Wanted) -> Result<(), Error> {
        let settled = wanted.base.as_deref().filter(|_| !wanted.write).map(|base| Settled::new(service, base));
        let memory = Memory {
            uid: service.metadata.uid.clone(),
            seen: Some(Arc::new(wanted.seen.clone())),
            settled,
            ..Memory::default()
        };
        let is_there = |meta: &Meta| meta.uid == service.metadata.uid;
        if self.members.services.store().peek(&key.namespace, &key.name, is_there) == Some(true) {
            self.memories.keep(key, memory);
        }
        if !wanted.write {
            return Ok(());
        }
        let Err(error) = self.write(key, wanted).await else { return Ok(()) };
        if error.is_namespace_terminating() {
            return Ok(());
        }
        if error.may_have_happened() {
            // The cache may show the state before this write for a while, in which a sync finds nothing to do. The event of
            // the write, if it was made, brings the key back.
            self.parked.park(key);
        }
        if !matches!(error, api::Error::NotLeader) {
            let (reason, message) = match &wanted.base {
                None => ("FailedToCreateEndpoint", format!("Failed to create endpoint for service {key}: {error}")),
                Some(_) => ("FailedToUpdateEndpoint", format!("Failed to update endpoint {key}: {error}")),
            };
            let about = match &wanted.base {
                Some(base) => ObjectRef::new(ENDPOINTS, &base.metadata),
                None => ObjectRef::bare(ENDPOINTS, &key.namespace, &key.name, Uid::default()),
            };
            self.context.recorder.event(&about, EventType::Warning, reason, message);
        }
        Err(Error::request(format!("failed to write endpoints {key}"), error))
    }
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

/// A merge patch of the version that was decided on. Annotations of others stay.
fn patch(base: &Endpoints, wanted: &Wanted) -> Value {
    let meta = &base.metadata;
    let gone = meta.labels.iter().filter(|(key, _)| wanted.labels.get(key).is_none()).map(|(key, _)| (key, None));
    let labels: BTreeMap<&str, Option<&str>> =
        wanted.labels.iter().map(|(key, value)| (key, Some(value))).chain(gone).collect();
    let annotations: BTreeMap<&str, Option<&str>> =
        wanted.annotations().into_iter().filter(|(name, value)| meta.annotations.get(name) != *value).collect();
    json!({
        "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid, "labels": labels, "annotations": annotations},
        "subsets": wanted.subsets,
    })
}
