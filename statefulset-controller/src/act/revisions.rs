//! Storing, renumbering and deleting revisions.

use std::collections::BTreeMap;

use common::{
    api::{Delete, Target, Written},
    revision::{self, CONTROLLER_REVISIONS},
};
use serde_json::value::RawValue;

use crate::{
    StatefulSetController,
    decide::{
        body,
        revisions::{self, Revisions, Step},
    },
    error::Error,
    snapshot::{RevisionRef, Snapshot},
};

impl StatefulSetController {
    /// Stores the update revision, or makes it the newest, where the plan says so.
    pub(super) async fn store(&self, snapshot: &Snapshot, mut revisions: Revisions) -> Result<Revisions, Error> {
        match std::mem::replace(&mut revisions.step, Step::Nothing) {
            Step::Nothing => Ok(revisions),
            Step::Renumber { revision, number } => {
                self.renumber(snapshot, &revision, number).await?;
                Ok(revisions)
            }
            Step::Create { number } => self.create_revision(snapshot, &revisions, number).await,
        }
    }

    /// Stores a new revision. If its name is taken by a revision with the same data, that one is used; if the data differ, the next
    /// name is tried. Upstream: `pkg/controller/history`, `CreateControllerRevision`.
    async fn create_revision(
        &self,
        snapshot: &Snapshot,
        revisions: &Revisions,
        number: i64,
    ) -> Result<Revisions, Error> {
        let (set, template) = (&snapshot.set, &snapshot.template);
        let failed = |name: &str, error| Error::request(format!("create ControllerRevision {name}"), error);
        let mut collisions = revisions.collisions;
        loop {
            let name = revisions::name(set, &revisions::hash(template, collisions));
            let body = body::revision(snapshot, number, revisions.collisions, &name)
                .map_err(|error| Error::Template(format!("a revision: {error}")))?;
            let target = Target::object(CONTROLLER_REVISIONS, &set.metadata.namespace, "");
            match self.context.api.create(target, &body).await {
                Ok(answer) => {
                    let made: Written = serde_json::from_slice(&answer).map_err(|e| failed(&name, e.into()))?;
                    self.wrote(snapshot, CONTROLLER_REVISIONS, &made.metadata);
                    return Ok(revisions::created(revisions, template, &name, collisions));
                }
                Err(error) if error.is_already_exists() && !self.ends() => {
                    let target = Target::object(CONTROLLER_REVISIONS, &set.metadata.namespace, &name);
                    let there = self.context.api.get(target).await.map_err(|error| failed(&name, error))?;
                    let there: revision::ControllerRevision =
                        serde_json::from_slice(&there).map_err(|error| failed(&name, error.into()))?;
                    if there.holds(template.data()) {
                        return Ok(revisions::created(revisions, template, &name, collisions));
                    }
                    let exhausted = || Error::Template(format!("a name for a revision of {}", set.metadata.name));
                    collisions = collisions.checked_add(1).ok_or_else(exhausted)?;
                }
                Err(error) => return Err(failed(&name, error)),
            }
        }
    }

    /// Makes a revision the newest.
    ///
    /// It is read live and replaced as a whole, with its data byte for byte: a patch makes the server encode the data again, and if
    /// that gives other bytes the server refuses the patch, because data are immutable.
    async fn renumber(&self, snapshot: &Snapshot, revision: &RevisionRef, number: i64) -> Result<(), Error> {
        let meta = &revision.meta;
        let failed = |error| Error::request(format!("renumber ControllerRevision {}", meta.name), error);
        let target = Target::object(CONTROLLER_REVISIONS, &meta.namespace, &meta.name);
        let live = self.context.api.get(target).await.map_err(failed)?;
        let known: revision::ControllerRevision =
            serde_json::from_slice(&live).map_err(|error| failed(error.into()))?;
        if known.meta.uid != meta.uid {
            return Err(Error::Gone(meta.name.to_string()));
        }
        if known.revision == number {
            return Ok(());
        }
        let mut body: BTreeMap<String, Box<RawValue>> =
            serde_json::from_slice(&live).map_err(|error| failed(error.into()))?;
        let number = serde_json::value::to_raw_value(&number).map_err(|error| failed(error.into()))?;
        body.insert("revision".to_owned(), number);
        let answer = self.context.api.replace(target, &body).await.map_err(failed)?;
        let written: Written = serde_json::from_slice(&answer).map_err(|error| failed(error.into()))?;
        self.wrote(snapshot, CONTROLLER_REVISIONS, &written.metadata);
        Ok(())
    }

    /// Deletes revisions, the oldest first, if they are still as they were when that was decided.
    pub(super) async fn forget(&self, snapshot: &Snapshot, revisions: &[RevisionRef]) -> Result<(), Error> {
        for revision in revisions {
            let meta = &revision.meta;
            if self.ends() {
                break;
            }
            let target = Target::object(CONTROLLER_REVISIONS, &meta.namespace, &meta.name);
            let options =
                Delete { uid: Some(meta.uid.clone()), version: Some(meta.resource_version), ..Delete::default() };
            self.note_deletion(snapshot, CONTROLLER_REVISIONS, meta);
            match self.context.api.delete(target, &options).await {
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    self.ledger.undelete(&snapshot.owner.uid, &meta.uid);
                    return Err(Error::request(format!("delete ControllerRevision {}", meta.name), error));
                }
            }
        }
        Ok(())
    }
}
