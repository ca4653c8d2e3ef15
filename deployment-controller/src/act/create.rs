//! Creating the newest ReplicaSet, once.
//!
//! Its name follows from the template, so that a second creation is refused by the server. What a refused or unanswered
//! creation means is read live: the cache may not show yet what another attempt, or another process, has made.

use std::sync::Arc;

use common::{
    api::{Error as ApiError, escape},
    controller::Requeue,
    meta::Uid,
};
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

use super::{Done, Error, Sync, failed, read, written};
use crate::{
    decide::create::{self, CreateFailure},
    objects::{REPLICA_SETS, ReplicaSet},
};

/// A predecessor may have made ReplicaSets of Deployments that are older than this process's leadership, and of those
/// younger by as much as clocks may differ.
const CLOCK_SKEW: Duration = Duration::from_secs(10);

/// What a ReplicaSet of the wanted name is.
enum Namesake {
    /// The Deployment's own, of its template.
    Ours,
    /// Nobody's, of its template: the Deployment's once it is adopted.
    Adoptable,
    /// Something else.
    Foreign,
}

impl Sync<'_> {
    pub(super) async fn create(&mut self, name: &Arc<str>, body: &Value) -> Result<Done, Error> {
        if self.is_unexplored().await && self.finds_made_before(name).await? {
            return Ok(Done::End(Requeue::After(Duration::ZERO)));
        }
        let error = match self.api().create(self.set(""), body).await {
            Ok(body) => {
                let made = written("create ReplicaSet", name, &body)?.metadata;
                let owner = &self.meta().uid;
                self.controller.ledger.created(owner, REPLICA_SETS, &made.uid, made.resource_version);
                self.versions.insert(Arc::clone(name), made.resource_version);
                return Ok(Done::Yes);
            }
            Err(error) => error,
        };
        if matches!(error, ApiError::NotLeader) || error.is_namespace_terminating() {
            return Err(failed("create ReplicaSet", name, error));
        }
        let (exists, unanswered) = (error.is_already_exists(), error.may_have_happened());
        if !exists && !unanswered {
            return self.refused(name, error).await;
        }
        let live = match self.api().get(self.set(name)).await {
            Ok(body) => read::<ReplicaSet>("read ReplicaSet", name, &body)?,
            // Created by nobody after all.
            Err(gone) if gone.is_not_found() && unanswered => return self.refused(name, error).await,
            Err(_) => return Err(failed("create ReplicaSet", name, error)),
        };
        match self.namesake(&live) {
            Namesake::Ours if unanswered => {
                self.note_set(name, live.metadata.resource_version);
                Ok(Done::Yes)
            }
            // The cache has not seen it yet.
            Namesake::Ours | Namesake::Adoptable => {
                self.note_set(name, live.metadata.resource_version);
                Ok(Done::End(Requeue::After(Duration::ZERO)))
            }
            Namesake::Foreign if exists => {
                self.follow_up(name, &CreateFailure::Collision).await;
                Err(failed("create ReplicaSet", name, error))
            }
            Namesake::Foreign => Err(failed("create ReplicaSet", name, error)),
        }
    }

    async fn refused(&mut self, name: &Arc<str>, error: ApiError) -> Result<Done, Error> {
        self.follow_up(name, &CreateFailure::Refused(error.to_string())).await;
        Err(failed("create ReplicaSet", name, error))
    }

    /// Writes and says what a failed creation calls for; that this may fail, too, does not matter then.
    async fn follow_up(&mut self, name: &str, failure: &CreateFailure) {
        for step in create::failed(self.snapshot, &self.status, name, failure) {
            match self.perform(&step.action).await {
                Ok(_) => self.tell(&step),
                Err(error) => tracing::debug!(key = %self.meta().key(), err = %error, "Ignored"),
            }
        }
    }

    fn namesake(&self, live: &ReplicaSet) -> Namesake {
        let (deployment, meta) = (&self.snapshot.deployment, &live.metadata);
        if !live.spec.template.is_of(&deployment.spec.template) {
            return Namesake::Foreign;
        }
        match meta.controller() {
            Some(owner) if owner.uid == deployment.metadata.uid => Namesake::Ours,
            None if !meta.is_deleting() && deployment.spec.selector.compiled.matches(&meta.labels) => {
                Namesake::Adoptable
            }
            _ => Namesake::Foreign,
        }
    }

    /// Whether a predecessor of this process may have made ReplicaSets of this Deployment that nobody has looked for yet.
    async fn is_unexplored(&self) -> bool {
        let context = &self.controller.context;
        let led = context.clock.instant().saturating_duration_since(context.gate.opened().await.since);
        let since = self.snapshot.now.saturating_sub(led).map(|since| since.saturating_add(CLOCK_SKEW));
        let Ok(Ok(since)) = since else { return true };
        self.meta().created.is_none_or(|created| created < since)
            && self.controller.explored.lock().insert(self.meta().uid.clone())
    }

    /// Looks live for a ReplicaSet of the current template, whatever its name.
    async fn finds_made_before(&mut self, name: &str) -> Result<bool, Error> {
        #[derive(Deserialize)]
        struct List {
            items: Vec<ReplicaSet>,
        }
        let query = format!("labelSelector={}", escape(&self.snapshot.deployment.spec.selector.compiled.to_string()));
        let uid: Uid = self.meta().uid.clone();
        let unexplored = |error| {
            self.controller.explored.lock().remove(&uid);
            failed("look for a ReplicaSet like", name, error)
        };
        let body = self.api().list(REPLICA_SETS, &self.meta().namespace, &query).await.map_err(unexplored)?;
        let list: List = read("look for a ReplicaSet like", name, &body)?;
        let known = |set: &ReplicaSet| self.snapshot.claims.keep.iter().any(|k| k.metadata.uid == set.metadata.uid);
        let found = list
            .items
            .into_iter()
            .find(|set| matches!(self.namesake(set), Namesake::Ours | Namesake::Adoptable) && !known(set));
        if let Some(set) = &found {
            self.note_set(&set.metadata.name, set.metadata.resource_version);
        }
        Ok(found.is_some())
    }
}
