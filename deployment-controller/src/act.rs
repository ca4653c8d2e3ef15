//! Sends the requests of a plan, step by step.
//!
//! Each step states the consequence of its failure for the later steps. A conflict with another writer ends the sync, because
//! the decision no longer fits the objects.

mod create;
mod rollback;

use std::{sync::Arc, time::Duration};

use common::{
    api::PatchFormat,
    io::{Answer, AnswerMetadata},
    prelude::*,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    DeploymentController,
    objects::{
        DEPLOYMENTS, Deployment, DeploymentStatus, REPLICA_SETS, REVISION_ANNOTATION, ROLLBACK_TO_ANNOTATION,
        ReplicaSet,
    },
    plan::{Action, Plan, ReplicaSetChange, ReplicaSetNameAndUid, Step},
    snapshot::Snapshot,
    watch::RefusedReplicaSetRelease,
};

/// Result of a step that ended without an error.
pub(crate) enum StepResult {
    /// The step did what the plan says.
    Done,
    /// Nothing was left to do, so no Event is recorded.
    Unneeded,
}

/// Why a step did not end as planned.
pub(crate) enum StepStop {
    /// The step failed; its `OnFailure` states the consequence for the later steps.
    Failed(SyncError),
    /// The new ReplicaSet was not created. The steps in this variant replace the remaining steps of the plan.
    NotCreated(SyncError, Vec<Step>),
    /// The sync ends after this step without an error, because the decision no longer fits the objects.
    End(Requeue),
}

impl From<SyncError> for StepStop {
    fn from(error: SyncError) -> Self {
        Self::Failed(error)
    }
}

/// The fields that are read from the answer to a status write.
#[derive(Deserialize)]
struct StoredDeployment {
    metadata: Meta,
    #[serde(default)]
    status: StoredStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredStatus {
    terminating_replicas: Option<i64>,
}

/// The state of one sync while its requests are sent.
pub(crate) struct PlanRun<'a> {
    snapshot: &'a Snapshot,
    io: Io<'a, DeploymentController>,
    /// `metadata.resourceVersion` of the Deployment after the writes of this sync.
    version: ResourceVersion,
    /// `status` of the Deployment after the writes of this sync.
    status: DeploymentStatus,
    /// The revision annotation that this sync has written; `None` before the first such write.
    revision: Option<String>,
    /// The ReplicaSets of the snapshot by name. A map, because a plan can have a request for each of thousands of ReplicaSets.
    sets_by_name: HashMap<&'a str, &'a Meta>,
    /// The ReplicaSet that this sync has created; empty before the creation.
    created: AnswerMetadata,
    /// Whether the Deployment may adopt ReplicaSets, or the reason against it; `None` before the read from the API server.
    may_adopt: Option<Result<(), String>>,
    /// Time of the next sync of the Deployment; `None` stands for the time in the plan.
    pub(crate) requeue: Option<Requeue>,
    /// Whether this sync has recorded an Event about a denied adoption or release. A sync records at most one such Event.
    has_reported_denial: bool,
}

impl<'a> PlanRun<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, plan: &Plan, io: Io<'a, DeploymentController>) -> Self {
        let DependentClaims { to_keep, to_adopt, to_release } = &snapshot.claims;
        let name_and_meta = |set: &'a Arc<ReplicaSet>| {
            #[cfg(test)]
            tests::count_indexed_replica_set();
            (&*set.metadata.name, &set.metadata)
        };
        let sets = to_keep.iter().chain(to_adopt).chain(to_release);
        let sets_by_name = if plan.steps.is_empty() { HashMap::default() } else { sets.map(name_and_meta).collect() };
        Self {
            snapshot,
            io,
            version: snapshot.deployment.metadata.resource_version,
            status: snapshot.deployment.status.declared.clone(),
            revision: None,
            sets_by_name,
            created: AnswerMetadata::default(),
            may_adopt: None,
            requeue: None,
            has_reported_denial: false,
        }
    }

    pub(crate) async fn run_step(&mut self, step: &Step) -> Result<StepResult, StepStop> {
        let (io, owner) = (self.io, &self.snapshot.owner);
        match &step.action {
            Action::Adopt(set) => {
                self.check_may_adopt().await?;
                let body = io.encode_body(|| owner.adoption_patch(&set.uid, &[]));
                match self.patch_set(step, &set.name, &set.uid, body).await {
                    Ok(_) => {}
                    Err(refusal) if refusal.error.is_not_found() => {
                        // The deletion event of an orphan enqueues no owner, so this sync requeues its own key.
                        self.requeue = Some(Requeue::AfterBackoff);
                        return Ok(StepResult::Unneeded);
                    }
                    Err(refusal) => return Err(self.claim_refused(step, &refusal)),
                }
            }
            Action::Release(ReplicaSetNameAndUid { name, uid }) => {
                let body = io.encode_body(|| owner.release_patch(uid, &[]));
                match self.patch_set(step, name, uid, body).await {
                    Ok(_) => {}
                    Err(refusal) if refusal.error.is_not_found() => return Ok(StepResult::Unneeded),
                    Err(refusal) => {
                        let stop = self.claim_refused(step, &refusal);
                        if !refusal.error.is_invalid() {
                            return Err(stop);
                        }
                        // The name belongs to another object now, or validation refuses the patch. The ReplicaSet keeps its
                        // owner reference, and the next sync counts the ReplicaSet.
                        self.record_refused_release(name, uid, &refusal);
                        return Err(StepStop::End(Requeue::After(Duration::ZERO)));
                    }
                }
            }
            Action::CreateReplicaSet { name, body } => self.create_replica_set(step, name, body).await?,
            Action::ChangeReplicaSet { name, change } => {
                let answer = self.patch_set(step, name, &self.created.uid, io.encode_body(|| set_patch(change))).await;
                answer.map_err(|refusal| self.refused(step, &refusal))?;
            }
            Action::DeleteReplicaSet(ReplicaSetNameAndUid { name, uid }) => {
                // The version in the snapshot is a precondition, so that a ReplicaSet that has got new Pods is not deleted.
                match self.send(step, Request::delete(REPLICA_SETS, &self.meta_of_set(name, uid))).await {
                    Ok(_) => {}
                    Err(refusal) if refusal.error.is_not_found() => return Ok(StepResult::Unneeded),
                    Err(refusal) => return Err(self.refused(step, &refusal)),
                }
            }
            Action::WriteStatus { status, revision } => self.write_status(step, status, revision.as_deref()).await?,
            Action::RollBack(set) => self.roll_back(step, set).await?,
            Action::ClearRollback => {
                let body = io.encode_body(|| json!({"metadata": {"annotations": {ROLLBACK_TO_ANNOTATION: null}}}));
                let request = Request::patch(DEPLOYMENTS, self.meta(), PatchFormat::Merge, body);
                self.write_deployment(step, request).await?;
            }
            Action::OnlyRecordEvent => {}
        }
        Ok(StepResult::Done)
    }

    fn record_refused_release(&self, name: &Arc<str>, uid: &Uid, refusal: &Refusal) {
        let replica_set_version = self.meta_of_set(name, uid).resource_version;
        self.io.update_memory(|controller| {
            let (key, why) = (self.meta().key(), &refusal.error);
            tracing::debug!(key = %key, set = %uid, err = %why, "The server refused to release a ReplicaSet");
            let refused = RefusedReplicaSetRelease { replica_set_version, refused_at: self.snapshot.now };
            controller.watch.refused_releases.lock().insert(uid.clone(), refused);
        });
    }

    /// Reads the Deployment from the API server before the first adoption. Fails if it has another UID or is being deleted.
    async fn check_may_adopt(&mut self) -> Result<(), SyncError> {
        if self.may_adopt.is_none() {
            let uid = &self.meta().uid;
            let why = "an owner must exist and not be terminating to adopt";
            let answer = self.io.send(self.get_deployment().with_reason(why)).await;
            let problem = match answer.and_then(|answer| answer.decode_metadata()) {
                Err(refusal) => Some(refusal.error.to_string()),
                Ok(Some(live)) if live.uid != *uid => {
                    Some(format!("the Deployment is gone: got uid {}, wanted {uid}", live.uid))
                }
                Ok(live) => {
                    let deleted = live.and_then(|live| live.deletion_timestamp);
                    deleted.map(|at| format!("the Deployment is being deleted since {at}"))
                }
            };
            if let Some(problem) = &problem {
                self.io.explain_deviation(problem);
            }
            self.may_adopt = Some(problem.map_or(Ok(()), Err));
        }
        let Some(Err(problem)) = &self.may_adopt else { return Ok(()) };
        Err(SyncError::new(SyncErrorClass::NotOurs, format!("cannot adopt ReplicaSets: {problem}")))
    }

    async fn write_status(
        &mut self,
        step: &Step,
        status: &DeploymentStatus,
        revision: Option<&str>,
    ) -> Result<(), StepStop> {
        if let Some(revision) = revision {
            self.revision = Some(revision.to_owned());
        }
        // The received metadata may have another revision than an earlier status write of this sync.
        let revision = self.revision.as_deref();
        let edits = revision.map(|revision| (REVISION_ANNOTATION, Some(revision))).into_iter().collect();
        let Deployment { metadata, status: stored, .. } = self.snapshot.deployment.as_ref();
        let metadata = metadata.replacement().with_annotation_edits(edits);
        let body = self.io.encode_status::<Deployment>(metadata, status, &stored.undeclared);
        let request = Request::replace_status(DEPLOYMENTS, self.meta(), body).with_object_answer::<Deployment>();
        match self.io.send_and_decode::<StoredDeployment>(request.with_reason(step.detailed_reason())).await {
            Ok(stored) => {
                self.status.clone_from(status);
                if let Some(StoredDeployment { metadata, status: stored_status }) = stored {
                    self.version = metadata.resource_version;
                    if status.terminating_replicas.is_some() {
                        let is_dropped = stored_status.terminating_replicas.is_none();
                        self.io.update_memory(|controller| {
                            let dropped_at = is_dropped.then(|| controller.context.clock.monotonic_now());
                            *controller.terminating_replicas_dropped_at.lock() = dropped_at;
                        });
                    }
                }
                Ok(())
            }
            // A deleted Deployment needs no status.
            Err(refusal) if refusal.error.is_not_found() => Err(StepStop::End(Requeue::AfterPlannedDelay)),
            Err(refusal) => Err(self.refused(step, &refusal)),
        }
    }

    /// Writes the Deployment. The next sync waits until the cache shows this write.
    async fn write_deployment(&mut self, step: &Step, request: Request) -> Result<(), StepStop> {
        let answer = self.send(step, request.with_role(ObjectRole::SyncedObject)).await;
        self.version = answer.map_err(|refusal| self.refused(step, &refusal))?.metadata.version;
        Ok(())
    }

    /// Sends the request of a step, with the verb and the reason of the step for explanations.
    async fn send(&self, step: &Step, request: Request) -> Result<Answer, Refusal> {
        self.io.send(request.with_verb_text(step.action.verb_text()).with_reason(step.detailed_reason())).await
    }

    /// Patches a ReplicaSet, with its version in the snapshot as a precondition.
    async fn patch_set(&self, step: &Step, name: &Arc<str>, uid: &Uid, body: RequestBody) -> Result<Answer, Refusal> {
        let request = Request::patch(REPLICA_SETS, &self.meta_of_set(name, uid), PatchFormat::Strategic, body);
        self.send(step, request.with_role(ObjectRole::Child)).await
    }

    /// Returns the failure of a refused adoption or release. Records an Event for the first denied request of the sync.
    fn claim_refused(&mut self, step: &Step, refusal: &Refusal) -> StepStop {
        let error = self.request_error(step, refusal);
        if error.is_denied() && !std::mem::replace(&mut self.has_reported_denial, true) {
            self.io.record_event(EventType::Warning, "FailedUpdate", format!("Error: {error}"));
        }
        StepStop::Failed(error)
    }

    /// Returns the failure of a step with a refused request, and records an Event if the server denies the change.
    fn refused(&self, step: &Step, refusal: &Refusal) -> StepStop {
        let error = self.request_error(step, refusal);
        if let Some(reason) = step.action.denied_event_reason().filter(|_| error.is_denied()) {
            self.io.record_event(EventType::Warning, reason, format!("Error: {error}"));
        }
        StepStop::Failed(error)
    }

    fn request_error(&self, step: &Step, refusal: &Refusal) -> SyncError {
        let what = format!("cannot {}", step.action.describe(&self.meta().name));
        SyncError::from_refusal_in_namespace(&what, refusal)
    }

    fn meta(&self) -> &'a Meta {
        &self.snapshot.deployment.metadata
    }

    fn get_deployment(&self) -> Request {
        Request::get(DEPLOYMENTS, &self.meta().namespace, &self.meta().name)
    }

    fn get_set(&self, name: &Arc<str>) -> Request {
        Request::get(REPLICA_SETS, &self.meta().namespace, name)
    }

    /// Returns the identity and version of a ReplicaSet in the snapshot. For a ReplicaSet that this sync has created, uses `uid`
    /// and the version from the creation.
    fn meta_of_set(&self, name: &Arc<str>, uid: &Uid) -> Meta {
        let cached = self.sets_by_name.get(&**name);
        Meta {
            namespace: self.meta().namespace.clone(),
            name: Arc::clone(name),
            uid: cached.map_or(uid, |meta| &meta.uid).clone(),
            resource_version: cached.map_or(self.created.version, |meta| meta.resource_version),
            ..Meta::default()
        }
    }
}

/// Joins several errors into one; `None` if there are none.
pub(crate) fn join_errors(mut errors: Vec<SyncError>) -> Option<SyncError> {
    let (Some(first), true) = (errors.first(), errors.len() > 1) else { return errors.pop() };
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    Some(SyncError::new(first.class(), texts.join("; ")))
}

fn set_patch(change: &ReplicaSetChange) -> Value {
    let mut patch = json!({});
    if !change.annotations.is_empty() {
        patch["metadata"]["annotations"] = json!(change.annotations);
    }
    if let Some((_, to)) = change.size_before_and_after {
        patch["spec"]["replicas"] = json!(to);
    }
    if let Some(seconds) = change.min_ready_seconds {
        patch["spec"]["minReadySeconds"] = json!(seconds);
    }
    patch
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, collections::BTreeMap};

    use super::*;
    use crate::world::DeploymentBuilder;

    thread_local! {
        static VISITS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count_indexed_replica_set() {
        VISITS.set(VISITS.get() + 1);
    }

    /// DEPLOYMENT-68.
    #[test]
    fn many_deletions_visit_each_set_once() {
        const SETS: usize = 300;
        let mut world = DeploymentBuilder::new(3);
        for number in 0..SETS {
            world = world
                .with_set(&format!("old-{number}"), 0, 0)
                .with_annotation(REVISION_ANNOTATION, &number.to_string());
        }
        world = world
            .with_set("new", 3, 3)
            .with_annotation(REVISION_ANNOTATION, "999")
            .with_current_template("new")
            .with_complete_status();
        (world.annotations, world.spec["revisionHistoryLimit"]) = (json!({REVISION_ANNOTATION: "999"}), json!(0));
        assert_eq!(world.plan().deleted_sets().len(), SETS);
        VISITS.set(0);
        assert!(world.explain().actions.len() > 1);
        assert!((SETS..=SETS + 1).contains(&VISITS.get()), "{} visits", VISITS.get());
    }

    /// DEPLOYMENT-73.
    #[test]
    fn a_forecast_names_requests_with_their_numbers_and_reasons() {
        let actions = |world: &DeploymentBuilder| world.explain().actions;
        let mut world = DeploymentBuilder::new(3).with_set("a", 0, 0).with_annotation(REVISION_ANNOTATION, "1");
        world = world.with_set("b", 3, 3).with_annotation(REVISION_ANNOTATION, "2").with_current_template("b");
        world.annotations = json!({REVISION_ANNOTATION: "2", ROLLBACK_TO_ANNOTATION: "1"});
        let rollback = "roll back Deployment web: to the template of ReplicaSet a, a rollback was requested";
        assert_eq!(actions(&world).last().unwrap(), rollback);
        let world = DeploymentBuilder::new(3);
        let (name, _) = world.plan().created_set_name_and_body().unwrap();
        assert_eq!(
            actions(&world),
            [
                format!("create ReplicaSet {name}: of size 3, no ReplicaSet has this template"),
                "write the status: revision 1, a rollout begins; counts, availability or progress changed".to_owned(),
            ]
        );
    }

    /// DEPLOYMENT-26.
    #[test]
    fn a_change_names_only_what_changes() {
        let change = ReplicaSetChange {
            size_before_and_after: Some((4, 6)),
            annotations: BTreeMap::from([("a".to_owned(), "1".to_owned())]),
            min_ready_seconds: None,
        };
        assert_eq!(set_patch(&change), json!({"metadata": {"annotations": {"a": "1"}}, "spec": {"replicas": 6}}));
        let ready = ReplicaSetChange { min_ready_seconds: Some(0), ..ReplicaSetChange::default() };
        assert_eq!(set_patch(&ready), json!({"spec": {"minReadySeconds": 0}}));
    }
}
