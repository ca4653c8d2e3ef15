//! Writing the status.

use common::{
    api::{Patch, Target, Written},
    meta::{Uid, Version},
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    DaemonSetController,
    error::Error,
    objects::{DAEMON_SETS, Status},
    plan::Plan,
    snapshot::Snapshot,
};

#[derive(Serialize)]
struct Body<'a> {
    metadata: Precondition<'a>,
    status: &'a Status,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Precondition<'a> {
    uid: &'a Uid,
    resource_version: Version,
}

/// What is read of a set before its collision count is written.
#[derive(serde::Deserialize)]
struct Live {
    metadata: common::meta::Meta,
    #[serde(default)]
    status: Status,
}

impl DaemonSetController {
    /// Writes the status if it differs, onto the version of the set that it was computed for. A set that is gone is no error.
    ///
    /// Upstream: `pkg/controller/daemon`, `storeDaemonSetStatus`, which after a failure writes the same status onto the newer set, also
    /// if that is another set of the same name. Here the conflict fails the sync, and the next one computes the status of the newer
    /// set.
    pub(super) async fn write_status(&self, snapshot: &Snapshot, plan: &Plan) -> Result<(), Error> {
        if !plan.writes_status() {
            return Ok(());
        }
        let meta = &snapshot.set.metadata;
        let metadata = Precondition { uid: &meta.uid, resource_version: meta.resource_version };
        let body = Body { metadata, status: &plan.status };
        let target = Target::status(DAEMON_SETS, &meta.namespace, &meta.name);
        let failed = |error| Error::request(format!("error storing status for daemon set {}", meta.key()), error);
        match self.context.api.patch(target, Patch::Merge, &body).await {
            Ok(answer) => {
                let written: Written = serde_json::from_slice(&answer).map_err(|error| failed(error.into()))?;
                self.wrote(snapshot, DAEMON_SETS, &written.metadata);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                if error.is_conflict() {
                    // The next sync waits until the cache shows the newer set.
                    self.ledger.conflicted(&snapshot.owner.uid, DAEMON_SETS, meta);
                }
                Err(failed(error))
            }
        }
    }

    /// Counts a collision of names in the status, so that the next sync computes another hash.
    ///
    /// The count is read live: while the cache has an older one, nothing is written.
    pub(super) async fn count_collision(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let meta = &snapshot.set.metadata;
        let failed = |error| Error::request(format!("error storing status for daemon set {}", meta.key()), error);
        let live = self.context.api.get(Target::object(DAEMON_SETS, &meta.namespace, &meta.name)).await;
        let live: Live = serde_json::from_slice(&live.map_err(failed)?).map_err(|error| failed(error.into()))?;
        let (cached, live_count) = (snapshot.set.status.collision_count, live.status.collision_count);
        if live.metadata.uid != meta.uid || live_count != cached {
            return Err(Error::StaleCollisions { name: meta.name.to_string(), cached, live: live_count });
        }
        let count = live_count.unwrap_or(0).saturating_add(1);
        let body: Value = json!({
            "metadata": {"uid": meta.uid, "resourceVersion": live.metadata.resource_version},
            "status": {"collisionCount": count},
        });
        let target = Target::status(DAEMON_SETS, &meta.namespace, &meta.name);
        let answer = self.context.api.patch(target, Patch::Merge, &body).await.map_err(failed)?;
        let written: Written = serde_json::from_slice(&answer).map_err(|error| failed(error.into()))?;
        self.wrote(snapshot, DAEMON_SETS, &written.metadata);
        Ok(())
    }
}
