//! From a plan to requests.

use common::events::ObjectRef;

use super::{MirroringController, Observation, record};
use crate::{
    act::{Created, Writer},
    body::Change,
    decide::mirror::MirrorPlan,
    error::Error,
    objects::ENDPOINTS,
    observe::drop_satisfied_record,
};

impl MirroringController {
    /// Emits the Events of a plan and sends its writes. The first failure ends the work.
    pub(super) async fn execute(&self, observation: &Observation, plan: &MirrorPlan) -> Result<(), Error> {
        let key = &observation.key;
        self.metrics.planned(key, plan);
        if let Some(endpoints) = &observation.snapshot.endpoints {
            let about = ObjectRef::new(ENDPOINTS, &endpoints.metadata);
            for event in &plan.events {
                self.context.recorder.event(&about, event.kind, event.reason, event.message.clone());
            }
        }
        let owner = record(key);
        let writer = Writer {
            api: &self.context.api,
            ledger: &self.ledger,
            own: &self.own,
            queue: &self.queue,
            delay: self.slice_delay,
            key,
            owner: &owner,
        };
        let outcome = self.send(&writer, plan).await;
        if !plan.mirrors {
            // Drops the record at once if the events of the deletions came before their answers.
            drop_satisfied_record(&self.ledger, &owner, &**self.slices.store());
        }
        outcome
    }

    async fn send(&self, writer: &Writer<'_>, plan: &MirrorPlan) -> Result<(), Error> {
        let key = writer.key;
        for writes in &plan.writes {
            for draft in &writes.create {
                let created = writer.create(&plan.slice_metadata, writes.kind, draft).await;
                let what = || format!("failed to create EndpointSlice for Endpoints {key}");
                match created.map_err(|error| Error::request(what(), error))? {
                    Created::Yes => self.metrics.changes.with(&["create"]).inc(),
                    Created::NamespaceTerminating => return Ok(()),
                };
            }
            for draft in &writes.update {
                let Some(base) = &draft.base else { continue };
                let what = || format!("failed to update {} EndpointSlice for Endpoints {key}", base.metadata.name);
                let changed = writer.change(base, &Change::everything(&plan.slice_metadata, base, draft)).await;
                changed.map_err(|error| Error::request(what(), error))?;
                self.metrics.changes.with(&["update"]).inc();
            }
            for slice in &writes.delete {
                let what = || format!("failed to delete {} EndpointSlice for Endpoints {key}", slice.name);
                writer.delete(slice).await.map_err(|error| Error::request(what(), error))?;
                self.metrics.changes.with(&["delete"]).inc();
            }
        }
        Ok(())
    }
}
