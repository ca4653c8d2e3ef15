//! From a plan to requests.
//!
//! Writes are sent in the order of the plan, which [`crate::decide::sequence`] chose so that no endpoint is missing in between.
//! A failure ends the work on its address type; the other one goes on.

use std::time::Duration;

use common::{
    api::{self, Api, Delete, Patch, Target, Written},
    consistency::Ledger,
    controller::Requeue,
    events::{EventType, ObjectRef},
    meta::{Key, Meta, Uid},
    queue::Queue,
};

use crate::{
    SliceController,
    body::{Change, Whole},
    error::Error,
    objects::{AddressType, ENDPOINT_SLICES, SERVICES, Slice},
    own_writes::{OwnWrites, Sending, Wrote},
    plan::{Doomed, Draft, Plan, PutOff, SliceMetadata, Writes},
    snapshot::Snapshot,
};

/// Writes the slices of one Service and remembers its writes.
pub(crate) struct Writer<'a> {
    pub(crate) api: &'a Api,
    pub(crate) ledger: &'a Ledger,
    pub(crate) own: &'a OwnWrites,
    pub(crate) queue: &'a Queue<Key>,
    /// How long changes of slices by others are gathered.
    pub(crate) delay: Duration,
    /// The Service.
    pub(crate) key: &'a Key,
    /// The owner of the record in the ledger.
    pub(crate) owner: &'a Uid,
}

/// What became of new slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Created {
    /// They exist.
    Yes,
    /// The namespace is being deleted: nothing can be created in it.
    NamespaceTerminating,
}

impl Writer<'_> {
    fn target<'t>(&'t self, name: &'t str) -> Target<'t> {
        Target::object(ENDPOINT_SLICES, &self.key.namespace, name)
    }

    /// Notes the end of a request. If somebody else changed a slice meanwhile, the Service is synced again.
    fn finish(&self, sending: Sending<'_>, wrote: Option<(&Uid, Wrote)>) {
        if sending.finish(wrote) {
            self.queue.gather(self.key.clone(), self.delay);
        }
    }

    /// Creates a slice.
    ///
    /// A create whose answer is lost is retried after the back-off like any other failure. By then the cache usually shows
    /// a slice that was created after all. If it does not, there are two slices with the same endpoints for a moment, and
    /// the next sync removes one. Waiting for certainty instead would leave dead endpoints ready in the other slices.
    pub(crate) async fn create(
        &self,
        shared: &SliceMetadata,
        kind: AddressType,
        draft: &Draft,
    ) -> Result<Created, api::Error> {
        let sending = self.own.begin(self.key);
        let answer = match self.api.create(self.target(""), &Whole::new(shared, kind, draft)).await {
            Ok(answer) => answer,
            Err(error) => {
                self.finish(sending, None);
                let is_terminating = error.is_namespace_terminating();
                return if is_terminating { Ok(Created::NamespaceTerminating) } else { Err(error) };
            }
        };
        let Meta { uid, resource_version, .. } = serde_json::from_slice::<Written>(&answer)?.metadata;
        self.ledger.created(self.owner, ENDPOINT_SLICES, &uid, resource_version);
        self.finish(sending, Some((&uid, Wrote::Version(resource_version))));
        Ok(Created::Yes)
    }

    /// Changes a slice.
    pub(crate) async fn change(&self, base: &Slice, change: &Change<'_>) -> Result<(), api::Error> {
        let sending = self.own.begin(self.key);
        match self.api.patch(self.target(&base.metadata.name), Patch::Merge, change).await {
            Ok(answer) => {
                let written = serde_json::from_slice::<Written>(&answer)?.metadata;
                self.ledger.wrote(self.owner, ENDPOINT_SLICES, written.resource_version);
                self.finish(sending, Some((&written.uid, Wrote::Version(written.resource_version))));
                Ok(())
            }
            Err(error) => {
                self.finish(sending, None);
                Err(error)
            }
        }
    }

    /// Deletes a slice in the version that was decided on. A slice that is gone already counts as deleted.
    ///
    /// A conflict is a failure: somebody has changed the slice, and the next sync decides again on a newer cache.
    pub(crate) async fn delete(&self, slice: &Doomed) -> Result<(), api::Error> {
        let options =
            Delete { uid: Some(slice.uid.clone()), version: Some(slice.resource_version), ..Delete::default() };
        let sending = self.own.begin(self.key);
        match self.api.delete(self.target(&slice.name), &options).await {
            Ok(_) => self.finish(sending, Some((&slice.uid, Wrote::Deletion))),
            Err(error) => {
                self.finish(sending, None);
                if !error.is_not_found() {
                    return Err(error);
                }
            }
        }
        self.ledger.deleted(self.owner, ENDPOINT_SLICES, &self.key.namespace, &slice.name, &slice.uid);
        Ok(())
    }
}

impl SliceController {
    pub(crate) async fn execute(&self, snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        let service = &snapshot.service.metadata;
        let key = service.key();
        if self.members.services.store().peek(&key.namespace, &key.name, |meta| meta.uid == service.uid) == Some(true) {
            self.memories.keep(&key, plan.memory.clone());
            if plan.is_ours {
                self.metrics.planned(&key, &plan);
            }
        }
        let outcome = self.write(&snapshot, &plan, &key).await;
        let count = if outcome.is_ok() { &self.metrics.succeeded } else { &self.metrics.failed };
        count.inc();
        if let Err(error) = &outcome
            && !error.is_not_leader()
        {
            let message = format!("Error updating Endpoint Slices for Service {key}: {error}");
            self.tell(service, EventType::Warning, "FailedToUpdateEndpointSlices", message);
        }
        outcome
    }

    fn tell(&self, service: &Meta, kind: EventType, reason: &'static str, message: String) {
        self.context.recorder.event(&ObjectRef::new(SERVICES, service), kind, reason, message);
    }

    async fn write(&self, snapshot: &Snapshot, plan: &Plan, key: &Key) -> Result<Requeue, Error> {
        let service = &snapshot.service.metadata;
        let writer = Writer {
            api: &self.context.api,
            ledger: &self.ledger,
            own: &self.own,
            queue: &self.queue,
            delay: self.slice_delay,
            key,
            owner: &service.uid,
        };
        let mut errors = Vec::new();
        let mut requeue = Requeue::No;
        for writes in &plan.writes {
            errors.extend(writes.left_out.iter().cloned().map(Error::LeftOut));
            let outcome = self.write_one(&writer, plan, writes).await;
            for event in &writes.events {
                self.tell(service, event.kind, event.reason, event.message.clone());
            }
            match outcome {
                Ok(Created::Yes) if writes.put_off != PutOff::default() && !writes.is_empty() => {
                    requeue = Requeue::After(Duration::ZERO);
                }
                Ok(Created::Yes | Created::NamespaceTerminating) => {}
                Err(error) if error.is_not_leader() => return Err(error),
                Err(error) => errors.push(error),
            }
        }
        for slice in &plan.unsupported {
            match writer.delete(slice).await {
                Ok(()) => self.metrics.changed("delete"),
                Err(error) => {
                    let what = format!("error deleting {} EndpointSlice for Service {key}", slice.name);
                    errors.push(Error::request(what, error));
                }
            }
        }
        Error::all(errors).map(|()| requeue)
    }

    async fn write_one(&self, writer: &Writer<'_>, plan: &Plan, writes: &Writes) -> Result<Created, Error> {
        let (shared, key) = (&plan.slice_metadata, writer.key);
        for draft in &writes.create {
            let created = writer.create(shared, writes.kind, draft).await;
            let what = || format!("failed to create EndpointSlice for Service {key}");
            match created.map_err(|error| Error::request(what(), error))? {
                Created::Yes => self.metrics.changed("create"),
                Created::NamespaceTerminating => return Ok(Created::NamespaceTerminating),
            }
        }
        for draft in &writes.update {
            let Some(base) = &draft.base else { continue };
            let what = || format!("failed to update {} EndpointSlice for Service {key}", base.metadata.name);
            let changed = writer.change(base, &Change::new(shared, base, draft)).await;
            changed.map_err(|error| Error::request(what(), error))?;
            self.metrics.changed("update");
        }
        for slice in &writes.delete {
            let what = || format!("failed to delete {} EndpointSlice for Service {key}", slice.name);
            writer.delete(slice).await.map_err(|error| Error::request(what(), error))?;
            self.metrics.changed("delete");
        }
        self.metrics.done(&plan.spread, writes.len());
        Ok(Created::Yes)
    }
}
