//! Claiming, labelling, storing, renumbering and deleting revisions.

use common::{
    api::{self, Patch, Target, Written},
    batch,
    claim::{Failed, WrittenVersions},
    events::EventType,
    history::{Changed, History, Members, Stored},
    intern::Text,
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
    pub(super) async fn write_revisions(
        &self,
        snapshot: &Snapshot,
        plan: &Plan,
        versions: &WrittenVersions,
    ) -> Result<usize, Error> {
        let revisions = &plan.revisions;
        self.claim_revisions(snapshot, &revisions.adopt, &revisions.release, versions).await?;
        for revision in &revisions.unlabelled {
            self.label(snapshot, &revision.meta, versions).await?;
        }
        let relabelled = self.relabel(snapshot, plan).await?;
        self.forget(snapshot, &revisions.duplicates, versions).await?;
        match &revisions.current {
            Current::Stored(_) => {}
            Current::Renumber(revision, number) => {
                let changed = self.history(snapshot).renumber(&revision.meta, *number).await;
                self.changed(snapshot, "renumber", &revision.meta, changed, versions)?;
            }
            Current::Create { number, hash } => self.create_revision(snapshot, plan, *number, hash).await?,
        }
        Ok(relabelled)
    }

    /// Adopts and releases revisions.
    async fn claim_revisions(
        &self,
        snapshot: &Snapshot,
        adopt: &[RevisionRef],
        release: &[RevisionRef],
        versions: &WrittenVersions,
    ) -> Result<(), Error> {
        let claiming = self.claiming(snapshot, CONTROLLER_REVISIONS);
        claiming.carry_out::<RevisionRef>(&[], release).await.map_err(Error::Revisions)?;
        let results = claiming.adopt_each(adopt, versions).await.map_err(Error::Revisions)?;
        let (mut failed, mut gone) = (Vec::new(), None);
        for (revision, result) in adopt.iter().zip(results) {
            match result {
                Ok(true) => {}
                Ok(false) => gone = Some(revision.meta.name.to_string()),
                Err(error) => {
                    self.note_refusal(snapshot, "adopt", &revision.meta, &error);
                    failed.push((format!("adopt ControllerRevision {}", revision.meta.key()), error));
                }
            }
        }
        // The plan was made with these revisions: the next sync decides without them.
        if !failed.is_empty() {
            return Err(Error::Revisions(Failed(failed).into()));
        }
        gone.map_or(Ok(()), |gone| Err(Error::Gone(gone)))
    }

    /// If the server refuses to change a revision for what it holds, reports it and has the next syncs go on without that change.
    fn note_refusal(&self, snapshot: &Snapshot, verb: &str, revision: &Meta, error: &api::Error) {
        if !error.is_invalid() {
            return;
        }
        let message = format!("Error: cannot {verb} ControllerRevision {}: {error}", revision.name);
        self.event(snapshot, EventType::Warning, "FailedUpdate", message);
        let now = self.context.clock.instant();
        self.rosters.with(&snapshot.set.metadata.key(), &snapshot.owner.uid, |record| {
            record.refused_revisions.insert(revision, now);
        });
    }

    /// Takes note of what became of a change of a revision.
    fn changed(
        &self,
        snapshot: &Snapshot,
        verb: &str,
        revision: &Meta,
        changed: Result<Changed, api::Error>,
        versions: &WrittenVersions,
    ) -> Result<(), Error> {
        match changed {
            Ok(Changed::Yes(version)) => {
                versions.set(revision, version);
                Ok(())
            }
            Ok(Changed::Gone) => Err(Error::Gone(revision.name.to_string())),
            Err(error) => {
                self.note_refusal(snapshot, verb, revision, &error);
                let what = format!("failed to construct revisions of DaemonSet: {verb} {}", revision.name);
                Err(Error::request(what, error))
            }
        }
    }

    /// Gives a revision without the label of the hash its own name as hash.
    async fn label(&self, snapshot: &Snapshot, meta: &Meta, versions: &WrittenVersions) -> Result<(), Error> {
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
        self.changed(snapshot, "label", meta, changed, versions)
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
    /// status, and the next sync tries the next name. If it is taken by a revision of the same template, Pods carry the hash of that
    /// one, whoever controls it. Upstream: `pkg/controller/daemon`, `snapshot`.
    async fn create_revision(&self, snapshot: &Snapshot, plan: &Plan, number: i64, hash: &Text) -> Result<(), Error> {
        let template = &snapshot.template.template;
        let name = name(&snapshot.set, hash);
        let annotations = &snapshot.set.metadata.annotations;
        let new = NewRevision { name: &name, number, hash: (HASH_LABEL, hash), annotations };
        let body = new.body(&snapshot.owner, template);
        let body = body.map_err(|error| Error::Template(format!("a revision: {error}")))?;
        match self.history(snapshot).create(&name, &body, template.data()).await {
            Ok(Stored::Yes) => self.check_hash(snapshot, plan, hash, None),
            Ok(Stored::There(there)) => {
                let stored = there.meta.labels.get(HASH_LABEL).unwrap_or(&there.meta.name);
                self.check_hash(snapshot, plan, stored, Some((name, Text::new(stored))))
            }
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

    /// Ends the sync if the stored revision has another hash than the plan was made with. The next sync decides with that hash.
    fn check_hash(
        &self,
        snapshot: &Snapshot,
        plan: &Plan,
        stored: &str,
        taken: Option<(String, Text)>,
    ) -> Result<(), Error> {
        if *stored == *plan.revisions.hash {
            return Ok(());
        }
        self.rosters.with(&snapshot.set.metadata.key(), &snapshot.owner.uid, |record| record.taken = taken);
        Err(Error::OtherHash { planned: plan.revisions.hash.to_string(), stored: stored.to_owned() })
    }

    /// Deletes revisions, the oldest first, if they are still as they were when that was decided.
    pub(super) async fn forget(
        &self,
        snapshot: &Snapshot,
        revisions: &[RevisionRef],
        versions: &WrittenVersions,
    ) -> Result<(), Error> {
        for revision in revisions {
            if self.ends() {
                break;
            }
            let meta = &revision.meta;
            let failed = |error| {
                Error::request(format!("failed to clean up revisions of DaemonSet: delete {}", meta.name), error)
            };
            self.history(snapshot).delete(meta, versions).await.map_err(failed)?;
        }
        Ok(())
    }

    fn history<'a>(&'a self, snapshot: &'a Snapshot) -> History<'a> {
        History { api: &self.context.api, ledger: &self.ledger, owner: &snapshot.owner }
    }
}
