//! Claiming, labelling, storing, renumbering and deleting revisions.

use common::{
    api::{Patch, Target, Written},
    batch,
    events::EventType,
    history::{Changed, History, Members, Stored},
    meta::Meta,
    pods::PODS,
    refs::at_version,
    revision::{CONTROLLER_REVISIONS, body::NewRevision},
};
use serde_json::{Value, json};

use crate::{
    DaemonSetController,
    decide::revisions::{Current, name},
    error::Error,
    objects::HASH_LABEL,
    plan::Plan,
    snapshot::{PodRef, RevisionRef, Snapshot},
};

impl DaemonSetController {
    /// Makes the revisions as the plan has them, in upstream's order. Returns how many Pods were relabelled.
    ///
    /// Upstream: `pkg/controller/daemon`, `constructHistory`.
    pub(super) async fn write_revisions(&self, snapshot: &Snapshot, plan: &Plan) -> Result<usize, Error> {
        let revisions = &plan.revisions;
        let adopted =
            self.claiming(snapshot, CONTROLLER_REVISIONS).carry_out(&revisions.adopt, &revisions.release).await;
        let adopted: Vec<RevisionRef> = adopted.map_err(Error::Revisions)?;
        // The plan was made with a revision that is gone: the next sync decides without it.
        let is_there = |one: &&RevisionRef| adopted.iter().any(|other| other.meta.uid == one.meta.uid);
        if let Some(gone) = revisions.adopt.iter().find(|one| !is_there(one)) {
            return Err(Error::Gone(gone.meta.name.to_string()));
        }
        for revision in &revisions.unlabelled {
            self.label(snapshot, &revision.meta).await?;
        }
        let relabelled = self.relabel(snapshot, plan).await?;
        self.forget(snapshot, &revisions.duplicates).await?;
        match &revisions.current {
            Current::Stored(_) => {}
            Current::Renumber(revision, number) => {
                let failed = |error| Self::revision_error("renumber", &revision.meta, error);
                let changed = self.history(snapshot).renumber(&revision.meta, *number).await.map_err(failed)?;
                Self::unless_gone(changed, &revision.meta)?;
            }
            Current::Create(number) => self.create_revision(snapshot, plan, *number).await?,
        }
        Ok(relabelled)
    }

    /// Gives a revision without the label of the hash its own name as hash.
    async fn label(&self, snapshot: &Snapshot, meta: &Meta) -> Result<(), Error> {
        let edit = |body: &mut Members| {
            let text = body.get("metadata").map_or("{}", |metadata| metadata.get());
            let mut metadata: Value = serde_json::from_str(text)?;
            if metadata.pointer(&format!("/labels/{HASH_LABEL}")).is_some() {
                return Ok(false);
            }
            if !metadata["labels"].is_object() {
                metadata["labels"] = json!({});
            }
            metadata["labels"][HASH_LABEL] = json!(meta.name);
            body.insert("metadata".to_owned(), serde_json::value::to_raw_value(&metadata)?);
            Ok(true)
        };
        let changed = self.history(snapshot).replace(meta, edit).await;
        Self::unless_gone(changed.map_err(|error| Self::revision_error("label", meta, error))?, meta)
    }

    /// Gives Pods that carry the hash of a duplicate the hash of the revision that is kept. Returns how many got it.
    async fn relabel(&self, snapshot: &Snapshot, plan: &Plan) -> Result<usize, Error> {
        let relabel = |pod: &PodRef| {
            let pod = PodRef::clone(pod);
            async move {
                let meta = pod.meta();
                let patch = json!({"metadata": {"uid": meta.uid, "labels": {HASH_LABEL: plan.revisions.hash}}});
                let patch = at_version(patch, meta.resource_version);
                let target = Target::object(PODS, &meta.namespace, &meta.name);
                match self.context.api.patch(target, Patch::Merge, &patch).await {
                    Ok(answer) => {
                        let written: Written = serde_json::from_slice(&answer)?;
                        self.wrote(snapshot, PODS, &written.metadata);
                        Ok(true)
                    }
                    Err(error) if error.is_not_found() => Ok(false),
                    Err(error) => {
                        if error.is_conflict() {
                            self.ledger.conflicted(&snapshot.owner.uid, PODS, meta);
                        }
                        Err(error)
                    }
                }
            }
        };
        let mut relabelled = 0;
        for result in batch::all(plan.relabel.iter().map(relabel)).await {
            let failed = |error| Error::request("relabel Pods of a duplicate ControllerRevision", error);
            relabelled += usize::from(result.map_err(failed)?);
        }
        Ok(relabelled)
    }

    /// Stores the revision of the template. If its name is taken by a revision of another template, the collision is counted in the
    /// status, and the next sync tries the next name. Upstream: `pkg/controller/daemon`, `snapshot`.
    async fn create_revision(&self, snapshot: &Snapshot, plan: &Plan, number: i64) -> Result<(), Error> {
        let template = &snapshot.template.template;
        let hash = &plan.revisions.hash;
        let name = name(&snapshot.set, hash);
        let annotations = &snapshot.set.metadata.annotations;
        let new = NewRevision { name: &name, number, hash: (HASH_LABEL, hash), annotations };
        let body = new.body(&snapshot.owner, template);
        let body = body.map_err(|error| Error::Template(format!("a revision: {error}")))?;
        match self.history(snapshot).create(&name, &body, template.data()).await {
            Ok(Stored::Yes) => Ok(()),
            Ok(Stored::Taken(error)) => {
                self.count_collision(snapshot).await?;
                Err(Error::Collision(error))
            }
            Err(error) => {
                if error.is_invalid() {
                    let message = format!("Error creating ControllerRevision {name}: {error}");
                    self.event(snapshot, EventType::Warning, "FailedCreate", message);
                }
                Err(Error::request(format!("failed to construct revisions of DaemonSet: create {name}"), error))
            }
        }
    }

    /// Deletes revisions, the oldest first, if they are still as they were when that was decided.
    pub(super) async fn forget(&self, snapshot: &Snapshot, revisions: &[RevisionRef]) -> Result<(), Error> {
        for revision in revisions {
            if self.ends() {
                break;
            }
            let meta = &revision.meta;
            let failed = |error| {
                Error::request(format!("failed to clean up revisions of DaemonSet: delete {}", meta.name), error)
            };
            self.history(snapshot).delete(meta).await.map_err(failed)?;
        }
        Ok(())
    }

    fn history<'a>(&'a self, snapshot: &'a Snapshot) -> History<'a> {
        History { api: &self.context.api, ledger: &self.ledger, owner: &snapshot.owner }
    }

    fn revision_error(verb: &str, revision: &Meta, error: common::api::Error) -> Error {
        Error::request(format!("failed to construct revisions of DaemonSet: {verb} {}", revision.name), error)
    }

    fn unless_gone(changed: Changed, revision: &Meta) -> Result<(), Error> {
        match changed {
            Changed::Yes => Ok(()),
            Changed::Gone => Err(Error::Gone(revision.name.to_string())),
        }
    }
}
