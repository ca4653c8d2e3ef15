//! From a plan to requests.
//!
//! Every object that comes back carries its version forward to the next write of it, so that no step of a sync meets a
//! conflict that another step of the same sync made. Conflicts with others end the sync: what it decided on is no longer so.

mod create;
mod rollback;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use common::{
    api::{self, Delete, Patch, Target, Written},
    controller::Requeue,
    events::ObjectRef,
    meta::{Meta, Uid, Version},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    DeploymentController,
    error::Error,
    objects::{DEPLOYMENTS, DeploymentStatus, REPLICA_SETS, REVISION},
    plan::{Action, OnFailure, Plan, SetChange, Step},
    snapshot::Snapshot,
};

/// How a step went.
enum Done {
    /// As planned.
    Yes,
    /// There was nothing to do any more; nothing is told.
    Not,
    /// What follows has lost its ground: the sync ends here, well, and comes back.
    End(Requeue),
}

/// One sync being carried out.
struct Sync<'a> {
    controller: &'a DeploymentController,
    snapshot: &'a Snapshot,
    /// The Deployment's version, with the writes of this sync.
    version: Version,
    /// Its status, with the writes of this sync.
    status: DeploymentStatus,
    /// The versions of ReplicaSets that this sync has written.
    versions: BTreeMap<Arc<str>, Version>,
    /// Whether the Deployment, read live, may adopt.
    may_adopt: Option<Result<(), String>>,
    requeue: Option<Requeue>,
}

impl DeploymentController {
    pub(crate) async fn carry_out(&self, snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        let mut sync = Sync {
            controller: self,
            snapshot: &snapshot,
            version: snapshot.deployment.metadata.resource_version,
            status: snapshot.deployment.status.clone(),
            versions: BTreeMap::new(),
            may_adopt: None,
            requeue: None,
        };
        let mut errors = Vec::new();
        let (mut left_out, mut at_the_end) = (false, false);
        for step in &plan.steps {
            if at_the_end && step.on_failure != OnFailure::TryOthers {
                break;
            }
            if left_out && step.on_failure == OnFailure::LeaveOthersOut {
                continue;
            }
            match sync.step(step).await {
                Ok(Done::End(requeue)) => return Error::of(errors).map_or(Ok(requeue), Err),
                Ok(Done::Yes | Done::Not) => {}
                Err(error) => {
                    let ends = error.is_not_leader() || step.on_failure == OnFailure::End;
                    left_out |= step.on_failure == OnFailure::LeaveOthersOut;
                    at_the_end |= step.on_failure == OnFailure::TryOthers;
                    if ends || step.on_failure != OnFailure::Ignore {
                        errors.push(error);
                    } else {
                        tracing::debug!(key = %snapshot.deployment.metadata.key(), err = %error, "Ignored");
                    }
                    if ends {
                        break;
                    }
                }
            }
        }
        errors.extend(plan.failure.map(Error::Plan).filter(|_| errors.is_empty()));
        let requeue = sync.requeue.unwrap_or(plan.requeue);
        Error::of(errors).map_or(Ok(requeue), Err)
    }
}

impl Sync<'_> {
    async fn step(&mut self, step: &Step) -> Result<Done, Error> {
        let done = match &step.action {
            Action::CreateReplicaSet { set, body } => self.create(set, body).await?,
            action => self.perform(action).await?,
        };
        if matches!(done, Done::Yes) {
            self.tell(step);
        }
        Ok(done)
    }

    fn tell(&self, step: &Step) {
        if let Some(event) = &step.event {
            let object = ObjectRef::new(DEPLOYMENTS, &self.snapshot.deployment.metadata);
            self.controller.context.recorder.event(&object, event.kind, event.reason, event.message.clone());
        }
    }

    async fn perform(&mut self, action: &Action) -> Result<Done, Error> {
        match action {
            Action::Adopt { set, uid } => self.adopt(set, uid).await,
            Action::Release { set, uid } => self.release(set, uid).await,
            Action::ChangeReplicaSet { set, change } => self.change(set, change).await,
            Action::DeleteReplicaSet { set, uid } => self.delete(set, uid).await,
            Action::WriteStatus { status, revision } => self.write_status(status, revision.as_deref()).await,
            Action::RollBack { set, uid } => self.roll_back(set, uid).await,
            Action::ClearRollback => self.clear_rollback().await,
            Action::Tell => Ok(Done::Yes),
            // The only one that is not one request: see `step`.
            Action::CreateReplicaSet { .. } => Ok(Done::Not),
        }
    }

    fn api(&self) -> &api::Api {
        &self.controller.context.api
    }

    fn meta(&self) -> &Meta {
        &self.snapshot.deployment.metadata
    }

    fn set<'t>(&'t self, name: &'t str) -> Target<'t> {
        Target::object(REPLICA_SETS, &self.meta().namespace, name)
    }

    fn deployment(&self) -> Target<'_> {
        Target::object(DEPLOYMENTS, &self.meta().namespace, &self.meta().name)
    }

    /// Notes a version of a ReplicaSet that the cache must show before the next sync.
    fn note_set(&mut self, name: &Arc<str>, version: Version) {
        self.controller.ledger.wrote(&self.meta().uid, REPLICA_SETS, version);
        self.versions.insert(Arc::clone(name), version);
    }

    /// The same of the Deployment.
    fn note_deployment(&mut self, version: Version) {
        self.controller.ledger.wrote(&self.meta().uid, DEPLOYMENTS, version);
        self.version = version;
    }

    /// The version a write of a ReplicaSet is based on.
    fn version_of(&self, name: &str) -> Version {
        let cached = || self.snapshot.claims.keep.iter().find(|set| &*set.metadata.name == name);
        let cached = || cached().map_or(Version::UNKNOWN, |set| set.metadata.resource_version);
        self.versions.get(name).copied().unwrap_or_else(cached)
    }

    async fn adopt(&mut self, set: &Arc<str>, uid: &Uid) -> Result<Done, Error> {
        let allowed = match self.may_adopt.take() {
            Some(known) => known,
            None => self.recheck().await,
        };
        self.may_adopt = Some(allowed.clone());
        allowed.map_err(Error::NotOurs)?;
        let patch = self.snapshot.owner.adopt_patch(uid, &[]);
        match self.api().patch(self.set(set), Patch::Strategic, &patch).await {
            Ok(body) => {
                self.note_set(set, written("adopt ReplicaSet", set, &body)?.metadata.resource_version);
                Ok(Done::Yes)
            }
            Err(error) if error.is_not_found() => {
                // Its deletion is told to nobody, because it was nobody's.
                self.requeue = Some(Requeue::RateLimited);
                Ok(Done::Not)
            }
            Err(source) => Err(failed("adopt ReplicaSet", set, source)),
        }
    }

    /// Reads the Deployment live: it may adopt only if it is still the same and not on its way out.
    async fn recheck(&self) -> Result<(), String> {
        let body = self.api().get(self.deployment()).await.map_err(|error| error.to_string())?;
        let live: Written = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        let (live, uid) = (live.metadata, &self.meta().uid);
        if live.uid != *uid {
            return Err(format!("the Deployment is gone: got uid {}, wanted {uid}", live.uid));
        }
        live.deleted.map_or(Ok(()), |at| Err(format!("the Deployment is being deleted since {at}")))
    }

    async fn release(&mut self, set: &Arc<str>, uid: &Uid) -> Result<Done, Error> {
        let patch = self.snapshot.owner.release_patch(uid, &[]);
        match self.api().patch(self.set(set), Patch::Strategic, &patch).await {
            Ok(body) => {
                self.note_set(set, written("release ReplicaSet", set, &body)?.metadata.resource_version);
                Ok(Done::Yes)
            }
            Err(error) if error.is_not_found() => Ok(Done::Not),
            Err(error) if error.is_invalid() => {
                // Another one of its name, or refused: what cannot be released is kept, and the next sync counts with it.
                tracing::debug!(key = %self.meta().key(), set = &**set, err = %error, "Not released");
                self.controller.note_refused(self.snapshot, uid);
                Ok(Done::End(Requeue::After(Duration::ZERO)))
            }
            Err(source) => Err(failed("release ReplicaSet", set, source)),
        }
    }

    async fn change(&mut self, set: &Arc<str>, change: &SetChange) -> Result<Done, Error> {
        let uid = self.snapshot.claims.keep.iter().find(|s| s.metadata.name == *set).map(|s| &s.metadata.uid);
        let patch = set_patch(uid, self.version_of(set), change);
        let what = if change.size.is_some() { "scale ReplicaSet" } else { "update ReplicaSet" };
        let body = self.api().patch(self.set(set), Patch::Merge, &patch).await;
        let body = body.map_err(|source| failed(what, set, source))?;
        self.note_set(set, written(what, set, &body)?.metadata.resource_version);
        Ok(Done::Yes)
    }

    /// Deletes a ReplicaSet as it was looked at: one that has got Pods in the meantime stays.
    async fn delete(&mut self, set: &Arc<str>, uid: &Uid) -> Result<Done, Error> {
        let version = Some(self.version_of(set)).filter(|version| version.is_known());
        let options = Delete { uid: Some(uid.clone()), version, ..Delete::default() };
        match self.api().delete(self.set(set), &options).await {
            Ok(_) => {
                let meta = self.meta();
                self.controller.ledger.deleted(&meta.uid, REPLICA_SETS, &meta.namespace, set, uid);
                Ok(Done::Yes)
            }
            Err(error) if error.is_not_found() => Ok(Done::Not),
            Err(source) => Err(failed("delete ReplicaSet", set, source)),
        }
    }

    async fn write_status(&mut self, status: &DeploymentStatus, revision: Option<&str>) -> Result<Done, Error> {
        let patch = status_patch(&self.meta().uid, self.version, status, revision);
        let target = Target { subresource: "status", ..self.deployment() };
        let body = match self.api().patch(target, Patch::Merge, &patch).await {
            Ok(body) => body,
            // There is nobody left to write for.
            Err(error) if error.is_not_found() => return Ok(Done::End(Requeue::No)),
            Err(source) => return Err(failed("write the status of", &self.meta().name, source)),
        };
        let answer: WrittenStatus = read("write the status of", &self.meta().name, &body)?;
        self.note_deployment(answer.metadata.resource_version);
        if status.terminating_replicas.is_some() {
            self.controller.note_terminating(answer.status.terminating_replicas.is_some());
        }
        self.status = status.clone();
        Ok(Done::Yes)
    }
}

/// What a reply to a status write tells.
#[derive(Deserialize)]
struct WrittenStatus {
    metadata: Meta,
    #[serde(default)]
    status: KeptStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct KeptStatus {
    terminating_replicas: Option<i64>,
}

fn set_patch(uid: Option<&Uid>, version: Version, change: &SetChange) -> Value {
    let mut patch = json!({"metadata": {"resourceVersion": version}});
    if let Some(uid) = uid {
        patch["metadata"]["uid"] = json!(uid);
    }
    if !change.annotations.is_empty() {
        patch["metadata"]["annotations"] = json!(change.annotations);
    }
    if let Some((_, to)) = change.size {
        patch["spec"]["replicas"] = json!(to);
    }
    if let Some(seconds) = change.min_ready_seconds {
        patch["spec"]["minReadySeconds"] = json!(seconds);
    }
    patch
}

/// The status subresource keeps annotations that come with a status, and does not count that as a new generation.
fn status_patch(uid: &Uid, version: Version, status: &DeploymentStatus, revision: Option<&str>) -> Value {
    let mut patch = json!({"metadata": {"resourceVersion": version, "uid": uid}, "status": status.to_value()});
    if let Some(revision) = revision {
        patch["metadata"]["annotations"] = json!({REVISION: revision});
    }
    patch
}

fn failed(what: &str, name: &str, source: api::Error) -> Error {
    Error::Request { what: format!("{what} {name}"), source }
}

fn read<'a, T: Deserialize<'a>>(what: &str, name: &str, body: &'a [u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| failed(what, name, api::Error::Answer(error)))
}

fn written(what: &str, name: &str, body: &Bytes) -> Result<Written, Error> {
    read(what, name, body)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_size_is_written_onto_the_version_it_was_decided_on() {
        let change = SetChange {
            size: Some((4, 6)),
            annotations: BTreeMap::from([("a".to_owned(), "1".to_owned())]),
            min_ready_seconds: None,
        };
        assert_eq!(
            set_patch(Some(&Uid::new("U")), Version::parse("7"), &change),
            json!({"metadata": {"resourceVersion": "7", "uid": "U", "annotations": {"a": "1"}}, "spec": {"replicas": 6}})
        );
        let ready = SetChange { min_ready_seconds: Some(0), ..SetChange::default() };
        assert_eq!(
            set_patch(None, Version::parse("7"), &ready),
            json!({"metadata": {"resourceVersion": "7"}, "spec": {"minReadySeconds": 0}})
        );
    }

    #[test]
    fn a_status_names_every_field_so_that_none_lingers() {
        let patch = status_patch(&Uid::new("U"), Version::parse("7"), &DeploymentStatus::default(), Some("3"));
        assert_eq!(
            patch,
            json!({
                "metadata": {"resourceVersion": "7", "uid": "U",
                    "annotations": {"deployment.kubernetes.io/revision": "3"}},
                "status": {"observedGeneration": 0, "replicas": 0, "updatedReplicas": 0, "readyReplicas": 0,
                    "availableReplicas": 0, "unavailableReplicas": 0, "terminatingReplicas": null, "conditions": []},
            })
        );
    }
}
