//! Writing the status.

use common::{
    api::{Patch, Target},
    meta::{Meta, Version},
};
use serde::{Deserialize, Serialize};

use crate::{ReplicaController, decide::Snapshot, error::Error, kind::Kind, objects::Status};

/// What is read of a set that was written or read live.
#[derive(Deserialize)]
struct Answer {
    metadata: Meta,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Serialize)]
struct Body<'a> {
    metadata: Precondition<'a>,
    status: &'a Status,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Precondition<'a> {
    uid: &'a common::meta::Uid,
    resource_version: Version,
}

impl<K: Kind> ReplicaController<K> {
    /// Writes the status if it is another one.
    ///
    /// Where the copy in hand turns out to be old, once more onto the live object, if that is still the same one. A set
    /// that is gone needs no status. Upstream: `pkg/controller/replicaset`, `updateReplicaSetStatus`.
    pub(super) async fn write_status(&self, snapshot: &Snapshot, status: &Status) -> Result<(), Error> {
        let set = &snapshot.set;
        if !snapshot.limits.worth_writing(status, &set.status) {
            return Ok(());
        }
        let meta = &set.metadata;
        match self.patch_status(meta, meta.resource_version, status).await {
            Err(error) if error.is_conflict() => {}
            Err(error) if error.is_not_found() => return Ok(()),
            other => return other.map_err(Error::Status),
        }
        let live = match self.context.api.get(Target::object(K::RESOURCE, &meta.namespace, &meta.name)).await {
            Ok(live) => serde_json::from_slice::<Answer>(&live).map_err(|error| Error::Status(error.into()))?,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(Error::Status(error)),
        };
        let is_there = |live: &Status| !snapshot.limits.worth_writing(status, live);
        if live.metadata.uid != meta.uid || live.status.as_ref().is_some_and(is_there) {
            return Ok(());
        }
        match self.patch_status(meta, live.metadata.resource_version, status).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.map_err(Error::Status),
        }
    }

    async fn patch_status(&self, meta: &Meta, version: Version, status: &Status) -> Result<(), common::api::Error> {
        let body = Body { metadata: Precondition { uid: &meta.uid, resource_version: version }, status };
        let target = Target::status(K::RESOURCE, &meta.namespace, &meta.name);
        let answer = self.context.api.patch(target, Patch::Merge, &body).await?;
        let answer: Answer = serde_json::from_slice(&answer)?;
        if self.reads_own_writes {
            self.ledger.wrote(&meta.uid, K::RESOURCE, answer.metadata.resource_version);
        }
        let kept = answer.status.is_some_and(|status| status.terminating_replicas.is_some());
        if status.terminating_replicas.is_some() {
            self.note_terminating(kept);
        }
        Ok(())
    }
}
