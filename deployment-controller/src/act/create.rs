//! Creates the new ReplicaSet exactly once.
//!
//! The name of the ReplicaSet follows from the template, so the server refuses a second creation. After a refused or unanswered
//! creation, the ReplicaSet is read from the API server, because the cache may not show yet that it exists.

use std::{sync::Arc, time::Duration};

use common::{
    api::{self, percent_encode},
    io::AnswerMetadata,
    prelude::*,
    wire::messages,
};
use serde::Deserialize;

use super::{PlanRun, StepStop};
use crate::{
    decide::create::{
        CreateFailure, NewReplicaSet, ReplicaSetRelation, creation_failure_steps, relation_to_deployment,
    },
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
        body: &NewReplicaSet,
    ) -> Result<(), StepStop> {
        if !self.snapshot.are_predecessor_sets_cached {
            self.search_unseen_set(name).await?;
        }
        let request = Request::create(
            REPLICA_SETS,
            &self.meta().namespace,
            name,
            self.io.encode_object(&REPLICA_SETS, &messages::REPLICA_SET, || body),
        );
        // With `ObjectRole::SyncedObject`, the next sync waits until the cache shows the created ReplicaSet. More is not
        // needed, because the name of the ReplicaSet prevents a second creation.
        let request = request.with_role(ObjectRole::SyncedObject).with_reason(step.detailed_reason());
        let refusal = match self.io.send(request).await {
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
    async fn search_unseen_set(&self, name: &str) -> Result<(), StepStop> {
        let (io, snapshot) = (self.io, self.snapshot);
        let selector = snapshot.deployment.spec.selector.compiled.to_string();
        let query = format!("labelSelector={}", percent_encode(&selector));
        let request = Request::list(REPLICA_SETS, &self.meta().namespace, query);
        let why = "another process may have created the missing ReplicaSet";
        let list = io.send_and_decode::<List>(request.with_reason(why)).await.map_err(|refusal| {
            SyncError::from_refusal(&format!("cannot list ReplicaSets with the template of {name}"), &refusal)
        })?;
        io.update_memory(|controller| {
            controller.watch.deployments_with_listed_sets.lock().insert(self.meta().uid.clone());
        });
        let is_unseen = |set: &ReplicaSet| {
            relation_to_deployment(snapshot, set) != ReplicaSetRelation::NotAdoptable
                && snapshot.claims.to_keep.iter().all(|kept| kept.metadata.uid != set.metadata.uid)
        };
        let Some(unseen) = list.and_then(|list| list.items.into_iter().find(is_unseen)) else { return Ok(()) };
        self.await_set(&unseen);
        let name = &unseen.metadata.name;
        io.explain_deviation(format!("ReplicaSet {name} has the template, and the cache does not hold it"));
        Err(StepStop::End(Requeue::After(Duration::ZERO)))
    }

    /// Makes the next sync wait until the cache shows this version of a ReplicaSet.
    fn await_set(&self, live_set: &ReplicaSet) {
        self.io.update_memory(|controller| {
            controller.ledger.record_write(&self.meta().uid, REPLICA_SETS, live_set.metadata.resource_version);
        });
    }

    /// Reads the existing ReplicaSet with the name of the new one, and decides whether the Deployment can use the ReplicaSet.
    async fn read_namesake(&mut self, step: &Step, name: &Arc<str>, refusal: Refusal) -> Result<(), StepStop> {
        let is_unanswered = refusal.class == RefusalClass::MaybeWritten;
        // In the format of the cache, in which the templates are compared.
        let request = self.get_set(name).with_object_answer::<ReplicaSet>().with_reason("the ReplicaSet may exist");
        let live = match self.io.send_and_decode::<ReplicaSet>(request).await {
            Ok(Some(live)) => live,
            // The unanswered creation had no effect.
            Err(gone) if gone.error.is_not_found() && is_unanswered => {
                let failure = CreateFailure::Refused(refusal.error.to_string());
                return Err(self.not_created(step, name, &refusal, &failure));
            }
            Err(unread) if matches!(*unread.error, api::Error::InvalidAnswer(_)) => {
                return Err(SyncError::from_refusal(&format!("cannot read ReplicaSet {name}"), &unread).into());
            }
            Ok(None) | Err(_) => return Err(self.refused(step, &refusal)),
        };
        let relation = relation_to_deployment(self.snapshot, &live);
        if relation != ReplicaSetRelation::NotAdoptable {
            self.await_set(&live);
        }
        match relation {
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
        let follow_up = creation_failure_steps(self.snapshot, &self.status, name, failure);
        StepStop::NotCreated(self.request_error(step, refusal), follow_up)
    }
}
