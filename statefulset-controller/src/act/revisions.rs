//! Storing, renumbering and deleting revisions.

use common::{
    claim::WrittenVersions,
    history::{Changed, History, Stored},
};

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
        let mut collisions = revisions.collisions;
        loop {
            let name = revisions::name(set, &revisions::hash(template, collisions));
            let failed = |error| Error::request(format!("create ControllerRevision {name}"), error);
            let body = body::revision(snapshot, number, revisions.collisions, &name)
                .map_err(|error| Error::Template(format!("a revision: {error}")))?;
            match self.history(snapshot).create(&name, &body, template.data()).await.map_err(failed)? {
                // Pods carry the name of their revision, whatever its labels.
                Stored::Yes | Stored::There(_) => {
                    return Ok(revisions::created(revisions, template, &name, collisions));
                }
                Stored::Taken(error) if self.ends() => return Err(failed(error)),
                Stored::Taken(_) => {
                    let exhausted = || Error::Template(format!("a name for a revision of {}", set.metadata.name));
                    collisions = collisions.checked_add(1).ok_or_else(exhausted)?;
                }
            }
        }
    }

    /// Makes a revision the newest.
    async fn renumber(&self, snapshot: &Snapshot, revision: &RevisionRef, number: i64) -> Result<(), Error> {
        let meta = &revision.meta;
        let failed = |error| Error::request(format!("renumber ControllerRevision {}", meta.name), error);
        match self.history(snapshot).renumber(meta, number).await.map_err(failed)? {
            Changed::Yes(_) => Ok(()),
            Changed::Gone => Err(Error::Gone(meta.name.to_string())),
        }
    }

    /// Deletes revisions, the oldest first, if they are still as they were when that was decided.
    pub(super) async fn forget(&self, snapshot: &Snapshot, revisions: &[RevisionRef]) -> Result<(), Error> {
        for revision in revisions {
            if self.ends() {
                break;
            }
            let meta = &revision.meta;
            let failed = |error| Error::request(format!("delete ControllerRevision {}", meta.name), error);
            self.history(snapshot).delete(meta, &WrittenVersions::default()).await.map_err(failed)?;
        }
        Ok(())
    }

    fn history<'a>(&'a self, snapshot: &'a Snapshot) -> History<'a> {
        History { api: &self.context.api, ledger: &self.ledger, owner: &snapshot.owner }
    }
}
