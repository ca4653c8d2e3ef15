//! Creates the new ReplicaSet exactly once.
//!
//! The name of the ReplicaSet follows from the template, so the server refuses a second creation. After a refused or unanswered
//! creation, the ReplicaSet is read from the API server, because the cache may not show yet that it exists.

use std::{sync::Arc, time::Duration};

use common::{
    api::{self, escape},
    io::{Class, Failed, Fields, Refusal, Request, Requeue, Role},
    meta::Meta,
};
use serde::Deserialize;
use serde_json::Value;

use super::{Note, Rollout, Stop};
use crate::{
    decide::create::{self, CreateFailure, Namesake, namesake},
    objects::{REPLICA_SETS, ReplicaSet},
    plan::Step,
};

#[derive(Deserialize)]
struct List {
    items: Vec<ReplicaSet>,
}

impl Rollout<'_> {
    /// Creates the new ReplicaSet. Ends the sync instead if an earlier leader has created one that the cache does not hold.
    pub(super) async fn create(&mut self, step: &Step, name: &Arc<str>, body: &Value) -> Result<(), Stop> {
        if !self.snapshot.shows_predecessors_sets {
            self.look_for_unseen_set(name).await?;
        }
        let request = Request::create(REPLICA_SETS, &self.meta().namespace, name, self.io.body(|| body));
        // With `Role::Itself`, the next sync waits only for the created ReplicaSet. Its name prevents a second creation.
        let refusal = match self.io.send(request.role(Role::Itself).because(step.reason())).await {
            Ok(created) => {
                self.created = created.fields;
                return Ok(());
            }
            Err(refusal) => refusal,
        };
        match refusal.class {
            Class::Taken | Class::Unknown => self.read_namesake(step, name, refusal).await,
            Class::NamespaceTerminating => Err(self.refused(step, &refusal)),
            _ => Err(self.not_created(step, name, &refusal, &CreateFailure::Refused(refusal.error.to_string()))),
        }
    }

    /// Ends the sync if the server has a ReplicaSet with the current template, under any name, that the cache does not hold.
    async fn look_for_unseen_set(&self, name: &str) -> Result<(), Stop> {
        let (io, snapshot) = (self.io, self.snapshot);
        let query = format!("labelSelector={}", escape(&snapshot.deployment.spec.selector.compiled.to_string()));
        let request = Request::list(REPLICA_SETS, &self.meta().namespace, query);
        let list =
            io.send_and_read::<List>(request.because("another process may have created the missing ReplicaSet")).await;
        let list = list.map_err(|refusal| {
            Failed::request(&format!("cannot list ReplicaSets with the template of {name}"), &refusal)
        })?;
        io.note(Note::LookedForSets);
        let is_known = |set: &ReplicaSet| snapshot.claims.keep.iter().any(|k| k.metadata.uid == set.metadata.uid);
        let is_wanted = |set: &ReplicaSet| namesake(snapshot, set) != Namesake::Foreign && !is_known(set);
        let Some(found) = list.and_then(|list| list.items.into_iter().find(is_wanted)) else { return Ok(()) };
        io.note(Note::Read(found.metadata.resource_version));
        io.deviate(format!("ReplicaSet {} has the template, and the cache does not hold it", found.metadata.name));
        Err(Stop::End(Requeue::After(Duration::ZERO)))
    }

    /// Reads the existing ReplicaSet with the name of the new one, and decides whether the existing one can be used.
    async fn read_namesake(&mut self, step: &Step, name: &Arc<str>, refusal: Refusal) -> Result<(), Stop> {
        let is_unanswered = refusal.class == Class::Unknown;
        let live =
            match self.io.send_and_read::<ReplicaSet>(self.get_set(name).because("the ReplicaSet may exist")).await {
                Ok(Some(live)) => live,
                // The unanswered creation had no effect.
                Err(gone) if gone.error.is_not_found() && is_unanswered => {
                    let failure = CreateFailure::Refused(refusal.error.to_string());
                    return Err(self.not_created(step, name, &refusal, &failure));
                }
                Err(Refusal { error: error @ api::Error::Answer(_), .. }) => {
                    return Err(Failed::request(&format!("cannot read ReplicaSet {name}"), &error.into()).into());
                }
                Ok(None) | Err(_) => return Err(self.refused(step, &refusal)),
            };
        let kind = namesake(self.snapshot, &live);
        if kind != Namesake::Foreign {
            self.io.note(Note::Read(live.metadata.resource_version));
        }
        match kind {
            Namesake::Ours if is_unanswered => {
                let Meta { name, uid, resource_version: version, .. } = live.metadata;
                self.created = Fields { name, uid, version };
                Ok(())
            }
            // The sync ends, because the cache does not show the ReplicaSet yet.
            Namesake::Ours | Namesake::Adoptable => Err(Stop::End(Requeue::After(Duration::ZERO))),
            Namesake::Foreign if is_unanswered => Err(self.refused(step, &refusal)),
            Namesake::Foreign => Err(self.not_created(step, name, &refusal, &CreateFailure::Collision)),
        }
    }

    /// Returns the failure of a creation, with the steps that report it. Errors of these steps do not change the result.
    fn not_created(&self, step: &Step, name: &str, refusal: &Refusal, failure: &CreateFailure) -> Stop {
        Stop::NotCreated(self.failed(step, refusal), create::failed(self.snapshot, &self.status, name, failure))
    }
}
