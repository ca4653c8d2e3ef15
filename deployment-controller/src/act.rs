//! Sends the requests of a plan, step by step.
//!
//! Each step states the consequence of its failure for the later steps. A conflict with another writer ends the sync, because
//! the decision no longer fits the objects.

mod create;
mod rollback;

use std::{borrow::Cow, sync::Arc, time::Duration};

use common::{
    api::PatchFormat,
    conditions::ConditionListPatch,
    events::EventType,
    io::{self, Answer, AnswerMetadata, ObjectRole, Refusal, RefusalClass, Request, Requeue, RetryPolicy, SyncError},
    map::HashMap,
    meta::{Meta, ResourceVersion, Uid},
    refs::DependentClaims,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    objects::{DEPLOYMENTS, DeploymentStatus, REPLICA_SETS, REVISION_ANNOTATION, ROLLBACK_TO_ANNOTATION, ReplicaSet},
    plan::{Action, OnFailure, Plan, ReplicaSetChange, ReplicaSetNameAndUid, Step},
    snapshot::Snapshot,
};

/// A change of the controller's memory, or a line for its log.
#[derive(Debug)]
pub enum DeploymentNote {
    /// A ReplicaSet was read from the API server at this version, so the next sync waits until the cache shows that version.
    ReadReplicaSet(ResourceVersion),
    /// The API server was searched for ReplicaSets that earlier leaders have created and that the cache does not show.
    SearchedForReplicaSets,
    /// The server refused to release the ReplicaSet with this UID, for the given reason.
    ReleaseRefused(Uid, String),
    /// Whether the server kept the written `status.terminatingReplicas`.
    KeepsTerminatingReplicas(bool),
    /// The error of a failed step that does not stop the sync.
    IgnoredFailure(String),
}

impl io::MemoryNote for DeploymentNote {
    type Query = ();
    type NewState = ();
}

type Io<'r> = io::Io<'r, DeploymentNote>;

/// Result of a step that ended without an error.
enum StepResult {
    /// The step did what the plan says.
    Done,
    /// Nothing was left to do, so no Event is recorded.
    Unneeded,
}

/// Why a step did not end as planned.
enum StepStop {
    /// The step failed; its `OnFailure` states the consequence for the later steps.
    Failed(SyncError),
    /// The new ReplicaSet was not created. The steps in this variant replace the remaining steps of the plan.
    NotCreated(SyncError, Vec<Step>),
    /// The sync ends after this step without an error, because the decision no longer fits the objects.
    End(Requeue),
}

impl From<SyncError> for StepStop {
    fn from(failed: SyncError) -> Self {
        Self::Failed(failed)
    }
}

/// Sends the requests of a plan, and returns the time of the next sync of the Deployment.
pub(crate) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    let mut rollout = PlanRun {
        snapshot,
        io,
        version: snapshot.deployment.metadata.resource_version,
        status: snapshot.deployment.status.clone(),
        sets_by_name: index_sets_by_name(snapshot, plan),
        created: AnswerMetadata::default(),
        may_adopt: None,
        requeue: None,
        reported_denial: false,
    };
    let (mut failures, mut last_failed) = (Vec::new(), None);
    let mut steps = Cow::Borrowed(&*plan.steps);
    let mut at = 0;
    while let Some(step) = steps.get(at) {
        at += 1;
        match (last_failed, step.on_failure) {
            (Some(OnFailure::SkipStepsWithSameOnFailure), OnFailure::SkipStepsWithSameOnFailure) => continue,
            (Some(OnFailure::RunOnlyStepsWithSameOnFailure), other)
                if other != OnFailure::RunOnlyStepsWithSameOnFailure =>
            {
                break;
            }
            _ => {}
        }
        match rollout.run_step(step).await {
            Ok(StepResult::Done) => {
                if let Some(event) = &step.event {
                    io.record_event(event.kind, event.reason, &event.message);
                }
            }
            Ok(StepResult::Unneeded) => {}
            Err(StepStop::Failed(failed)) => match step.on_failure {
                OnFailure::Ignore => io.apply_memory_note(DeploymentNote::IgnoredFailure(failed.to_string())),
                OnFailure::EndSync => {
                    failures.push(failed);
                    break;
                }
                OnFailure::RunOnlyStepsWithSameOnFailure | OnFailure::SkipStepsWithSameOnFailure => {
                    failures.push(failed);
                    last_failed = Some(step.on_failure);
                }
            },
            Err(StepStop::NotCreated(failed, follow_up)) => {
                failures.push(failed);
                steps = Cow::Owned(follow_up);
                at = 0;
            }
            Err(StepStop::End(requeue)) => return joined_failures(failures).map_or(Ok(requeue), Err),
        }
    }
    if let (true, Some(why)) = (failures.is_empty(), &plan.failure) {
        failures.push(SyncError::new("plan", why));
    }
    joined_failures(failures).map_or(Ok(rollout.requeue.unwrap_or(plan.requeue)), Err)
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
struct PlanRun<'a> {
    snapshot: &'a Snapshot,
    io: Io<'a>,
    /// `metadata.resourceVersion` of the Deployment after the writes of this sync.
    version: ResourceVersion,
    /// `status` of the Deployment after the writes of this sync.
    status: DeploymentStatus,
    /// The ReplicaSets of the snapshot by name. A map, because a plan can have a request for each of thousands of ReplicaSets.
    sets_by_name: HashMap<&'a str, &'a Meta>,
    /// The ReplicaSet that this sync has created; empty before the creation.
    created: AnswerMetadata,
    /// Whether the Deployment may adopt ReplicaSets, or the reason against it; `None` before the read from the API server.
    may_adopt: Option<Result<(), String>>,
    /// Time of the next sync of the Deployment; `None` stands for the time in the plan.
    requeue: Option<Requeue>,
    /// Whether this sync has recorded an Event about a denied adoption or release. A sync records at most one such Event.
    reported_denial: bool,
}

/// Returns the ReplicaSets of the snapshot by name; empty if the plan has no steps.
fn index_sets_by_name<'a>(snapshot: &'a Snapshot, plan: &Plan) -> HashMap<&'a str, &'a Meta> {
    if plan.steps.is_empty() {
        return HashMap::default();
    }
    let DependentClaims { to_keep: keep, to_adopt: adopt, to_release: release } = &snapshot.claims;
    let entry = |known: &'a Arc<ReplicaSet>| {
        #[cfg(test)]
        tests::count_indexed_replica_set();
        (&*known.metadata.name, &known.metadata)
    };
    keep.iter().chain(adopt).chain(release).map(entry).collect()
}

impl<'a> PlanRun<'a> {
    async fn run_step(&mut self, step: &Step) -> Result<StepResult, StepStop> {
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
            Action::Release(set) => {
                let body = io.encode_body(|| owner.release_patch(&set.uid, &[]));
                match self.patch_set(step, &set.name, &set.uid, body).await {
                    Ok(_) => {}
                    Err(refusal) if refusal.error.is_not_found() => return Ok(StepResult::Unneeded),
                    Err(refusal) => {
                        let stop = self.claim_refused(step, &refusal);
                        if !refusal.error.is_invalid() {
                            return Err(stop);
                        }
                        // The name belongs to another object now, or validation refuses the patch. The ReplicaSet keeps its
                        // owner reference, and the next sync counts the ReplicaSet.
                        io.apply_memory_note(DeploymentNote::ReleaseRefused(
                            set.uid.clone(),
                            refusal.error.to_string(),
                        ));
                        return Err(StepStop::End(Requeue::After(Duration::ZERO)));
                    }
                }
            }
            Action::CreateReplicaSet { set, body } => self.create_replica_set(step, set, body).await?,
            Action::ChangeReplicaSet { set, change } => {
                let answer = self.patch_set(step, set, &self.created.uid, io.encode_body(|| set_patch(change))).await;
                answer.map_err(|refusal| self.refused(step, &refusal))?;
            }
            Action::DeleteReplicaSet(ReplicaSetNameAndUid { name, uid }) => {
                // The version in the snapshot is a precondition, so that a ReplicaSet that has got new Pods is not deleted.
                let request = Request::delete(REPLICA_SETS, &self.judged(name, uid));
                match self.send(step, request).await {
                    Ok(_) => {}
                    Err(refusal) if refusal.error.is_not_found() => return Ok(StepResult::Unneeded),
                    Err(refusal) => return Err(self.refused(step, &refusal)),
                }
            }
            Action::WriteStatus { status, revision } => self.write_status(step, status, revision.as_deref()).await?,
            Action::RollBack(set) => {
                self.version = self.roll_back(step, set).await?.version;
            }
            Action::ClearRollback => {
                let body = io.encode_body(|| json!({"metadata": {"annotations": {ROLLBACK_TO_ANNOTATION: null}}}));
                let request = Request::patch(DEPLOYMENTS, self.meta(), PatchFormat::Merge, body)
                    .with_role(ObjectRole::SyncedObject);
                let answer = self.send(step, request).await.map_err(|refusal| self.refused(step, &refusal))?;
                self.version = answer.metadata.version;
            }
            Action::OnlyRecordEvent => {}
        }
        Ok(StepResult::Done)
    }

    /// Reads the Deployment from the API server before the first adoption. Fails if it has another UID or is being deleted.
    async fn check_may_adopt(&mut self) -> Result<(), SyncError> {
        if self.may_adopt.is_none() {
            let uid = &self.meta().uid;
            let why = "an owner must exist and not be terminating to adopt";
            let live =
                self.io.send(self.get_deployment().with_reason(why)).await.and_then(|answer| answer.decode_metadata());
            let problem = match live {
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
        match &self.may_adopt {
            Some(Err(why)) => Err(SyncError::new("not_ours", format!("cannot adopt ReplicaSets: {why}"))),
            _ => Ok(()),
        }
    }

    async fn write_status(
        &mut self,
        step: &Step,
        status: &DeploymentStatus,
        revision: Option<&str>,
    ) -> Result<(), StepStop> {
        let body = self.io.encode_body(|| status_patch(status, revision));
        let request = Request::patch_status(DEPLOYMENTS, self.meta(), body)
            .into_strategic_patch()
            .with_reason(step.detailed_reason());
        match self.io.send_and_decode::<StoredDeployment>(request).await {
            Ok(stored) => {
                self.status.clone_from(status);
                if let Some(StoredDeployment { metadata, status: stored }) = stored {
                    self.version = metadata.resource_version;
                    if status.terminating_replicas.is_some() {
                        self.io.apply_memory_note(DeploymentNote::KeepsTerminatingReplicas(
                            stored.terminating_replicas.is_some(),
                        ));
                    }
                }
                Ok(())
            }
            // A deleted Deployment needs no status.
            Err(refusal) if refusal.error.is_not_found() => Err(StepStop::End(Requeue::AfterPlannedDelay)),
            Err(refusal) => Err(self.refused(step, &refusal)),
        }
    }

    /// Sends the request of a step, with the verb and the reason of the step for explanations.
    async fn send(&self, step: &Step, request: Request) -> Result<Answer, Refusal> {
        self.io.send(request.with_verb_text(step.action.verb_text()).with_reason(step.detailed_reason())).await
    }

    /// Patches a ReplicaSet, with its version in the snapshot as a precondition.
    async fn patch_set(
        &self,
        step: &Step,
        name: &Arc<str>,
        uid: &Uid,
        body: io::RequestBody,
    ) -> Result<Answer, Refusal> {
        let request = Request::patch(REPLICA_SETS, &self.judged(name, uid), PatchFormat::Strategic, body);
        self.send(step, request.with_role(ObjectRole::Child)).await
    }

    /// Returns the failure of a refused adoption or release. Records an Event for the first denied request of the sync.
    fn claim_refused(&mut self, step: &Step, refusal: &Refusal) -> StepStop {
        let failed = self.failed(step, refusal);
        if is_denied(refusal) && !std::mem::replace(&mut self.reported_denial, true) {
            self.io.record_event(EventType::Warning, "FailedUpdate", format!("Error: {failed}"));
        }
        StepStop::Failed(failed)
    }

    /// Returns the failure of a step with a refused request, and records an Event if the server denies the change.
    fn refused(&self, step: &Step, refusal: &Refusal) -> StepStop {
        let failed = self.failed(step, refusal);
        if let Some(reason) = step.action.denied_event_reason().filter(|_| is_denied(refusal)) {
            self.io.record_event(EventType::Warning, reason, format!("Error: {failed}"));
        }
        StepStop::Failed(failed)
    }

    fn failed(&self, step: &Step, refusal: &Refusal) -> SyncError {
        let failed = SyncError::from_refusal(&format!("cannot {}", step.action.describe(&self.meta().name)), refusal);
        if refusal.class == RefusalClass::NamespaceTerminating {
            failed.with_retry_policy(RetryPolicy::NextEvent)
        } else {
            failed
        }
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

    /// Returns the identity and version of a ReplicaSet in the snapshot. For the ReplicaSet that this sync has created, `uid` and
    /// the version from its creation are used.
    fn judged(&self, name: &Arc<str>, uid: &Uid) -> Meta {
        let kept = self.sets_by_name.get(&**name);
        Meta {
            namespace: self.meta().namespace.clone(),
            name: Arc::clone(name),
            uid: kept.map_or(uid, |kept| &kept.uid).clone(),
            resource_version: kept.map_or(self.created.version, |kept| kept.resource_version),
            ..Meta::default()
        }
    }
}

/// Whether this process lacks a permission, or a policy or a webhook forbids the request.
fn is_denied(refusal: &Refusal) -> bool {
    refusal.class == RefusalClass::NotWritten && refusal.error.is_denied()
}

/// Joins several failures into one; `None` if there are none.
fn joined_failures(mut failures: Vec<SyncError>) -> Option<SyncError> {
    let (Some(first), true) = (failures.first(), failures.len() > 1) else { return failures.pop() };
    let texts: Vec<String> = failures.iter().map(ToString::to_string).collect();
    Some(SyncError::new(first.metric_label(), texts.join("; ")))
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

/// Builds the patch of status and revision annotation. The status subresource stores both without raising the generation.
fn status_patch(status: &DeploymentStatus, revision: Option<&str>) -> Value {
    let mut patch = json!({"status": status});
    patch["status"]["conditions"] = json!(ConditionListPatch(&status.conditions));
    if let Some(revision) = revision {
        patch["metadata"]["annotations"] = json!({REVISION_ANNOTATION: revision});
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

    /// Counts one visit of a ReplicaSet by `index_sets_by_name`.
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

    /// DEPLOYMENT-20, DEPLOYMENT-77.
    #[test]
    fn a_status_patch_names_every_field_so_that_no_old_value_stays() {
        assert_eq!(
            status_patch(&DeploymentStatus::default(), Some("3")),
            json!({
                "metadata": {"annotations": {"deployment.kubernetes.io/revision": "3"}},
                "status": {"observedGeneration": 0, "replicas": 0, "updatedReplicas": 0, "readyReplicas": 0,
                    "availableReplicas": 0, "unavailableReplicas": 0, "terminatingReplicas": null, "conditions": [{"$patch": "replace"}]},
            })
        );
    }
}
