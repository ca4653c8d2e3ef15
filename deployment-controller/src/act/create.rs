//! Creates the new ReplicaSet exactly once.
//!
//! The name of the ReplicaSet follows from the template, so the server refuses a second creation. After a refused or unanswered
//! creation, the ReplicaSet is read from the API server, because the cache may not show yet that it exists.

use std::{sync::Arc, time::Duration};

use common::{
    api::{self, percent_encode},
    io::{AnswerMetadata, ObjectRole, Refusal, RefusalClass, Request, Requeue, SyncError},
    meta::Meta,
};
use serde::Deserialize;
use serde_json::Value;

use super::{DeploymentNote, PlanRun, StepStop};
use crate::{
    decide::create::{self, CreateFailure, ReplicaSetRelation, relation_to_deployment},
    objects::{REPLICA_SETS, ReplicaSet},
    plan::Step,
};

#[derive(Deserialize)]
struct List {
    items: Vec<ReplicaSet>,
}

impl PlanRun<'_> {
    /// Creates the new ReplicaSet. Ends the sync instead if an earlier leader created a ReplicaSet that the cache lacks.
    pub(super) async fn create_replica_set(
        &mut self,
        step: &Step,
        name: &Arc<str>,
        body: &Value,
    ) -> Result<(), StepStop> {
        if !self.snapshot.are_predecessor_sets_cached {
            self.look_for_unseen_set(name).await?;
        }
        let request = Request::create(REPLICA_SETS, &self.meta().namespace, name, self.io.encode_body(|| body));
        // With `ObjectRole::SyncedObject`, the next sync waits until the cache shows the created ReplicaSet. More is not
        // needed, because the name of the ReplicaSet prevents a second creation.
        let refusal =
            match self.io.send(request.with_role(ObjectRole::SyncedObject).with_reason(step.detailed_reason())).await {
                Ok(created) => {
                    self.created = created.metadata;
                    return Ok(());
                }
                Err(refusal) => refusal,
            };
        match refusal.class {
            RefusalClass::NameTaken | RefusalClass::MaybeWritten => self.read_namesake(step, name, refusal).await,
            RefusalClass::NamespaceTerminating => Err(self.refused(step, &refusal)),
            _ => Err(self.not_created(step, name, &refusal, &CreateFailure::Refused(refusal.error.to_string()))),
        }
    }

    /// Ends the sync if the server has a ReplicaSet with the current template, under any name, that the cache does not hold.
    async fn look_for_unseen_set(&self, name: &str) -> Result<(), StepStop> {
        let (io, snapshot) = (self.io, self.snapshot);
        let query =
            format!("labelSelector={}", percent_encode(&snapshot.deployment.spec.selector.compiled.to_string()));
        let request = Request::list(REPLICA_SETS, &self.meta().namespace, query);
        let list = io
            .send_and_decode::<List>(request.with_reason("another process may have created the missing ReplicaSet"))
            .await;
        let list = list.map_err(|refusal| {
            SyncError::from_refusal(&format!("cannot list ReplicaSets with the template of {name}"), &refusal)
        })?;
        io.apply_memory_note(DeploymentNote::SearchedForReplicaSets);
        let is_known = |set: &ReplicaSet| snapshot.claims.to_keep.iter().any(|k| k.metadata.uid == set.metadata.uid);
        let is_wanted = |set: &ReplicaSet| {
            relation_to_deployment(snapshot, set) != ReplicaSetRelation::NotAdoptable && !is_known(set)
        };
        let Some(found) = list.and_then(|list| list.items.into_iter().find(is_wanted)) else { return Ok(()) };
        io.apply_memory_note(DeploymentNote::ReadReplicaSet(found.metadata.resource_version));
        io.explain_deviation(format!(
            "ReplicaSet {} has the template, and the cache does not hold it",
            found.metadata.name
        ));
        Err(StepStop::End(Requeue::After(Duration::ZERO)))
    }

    /// Reads the existing ReplicaSet with the name of the new one, and decides whether the Deployment can use the ReplicaSet.
    async fn read_namesake(&mut self, step: &Step, name: &Arc<str>, refusal: Refusal) -> Result<(), StepStop> {
        let is_unanswered = refusal.class == RefusalClass::MaybeWritten;
        let live = match self
            .io
            .send_and_decode::<ReplicaSet>(self.get_set(name).with_reason("the ReplicaSet may exist"))
            .await
        {
            Ok(Some(live)) => live,
            // The unanswered creation had no effect.
            Err(gone) if gone.error.is_not_found() && is_unanswered => {
                let failure = CreateFailure::Refused(refusal.error.to_string());
                return Err(self.not_created(step, name, &refusal, &failure));
            }
            Err(Refusal { error: error @ api::Error::InvalidAnswer(_), .. }) => {
                return Err(SyncError::from_refusal(&format!("cannot read ReplicaSet {name}"), &error.into()).into());
            }
            Ok(None) | Err(_) => return Err(self.refused(step, &refusal)),
        };
        let kind = relation_to_deployment(self.snapshot, &live);
        if kind != ReplicaSetRelation::NotAdoptable {
            self.io.apply_memory_note(DeploymentNote::ReadReplicaSet(live.metadata.resource_version));
        }
        match kind {
            ReplicaSetRelation::Controlled if is_unanswered => {
                let Meta { name, uid, resource_version: version, .. } = live.metadata;
                self.created = AnswerMetadata { name, uid, version };
                Ok(())
            }
            // The sync ends, because the cache does not show the ReplicaSet yet.
            ReplicaSetRelation::Controlled | ReplicaSetRelation::Adoptable => {
                Err(StepStop::End(Requeue::After(Duration::ZERO)))
            }
            ReplicaSetRelation::NotAdoptable if is_unanswered => Err(self.refused(step, &refusal)),
            ReplicaSetRelation::NotAdoptable => Err(self.not_created(step, name, &refusal, &CreateFailure::Collision)),
        }
    }

    /// Returns the failure of a creation, with the steps that report it. Failures of these steps do not change the result.
    fn not_created(&self, step: &Step, name: &str, refusal: &Refusal, failure: &CreateFailure) -> StepStop {
        StepStop::NotCreated(
            self.failed(step, refusal),
            create::creation_failure_steps(self.snapshot, &self.status, name, failure),
        )
    }
}
