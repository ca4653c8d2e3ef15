//! Writing the status.

use common::{
    api::{Patch, Target, Written},
    meta::{Uid, Version},
};
use serde::Serialize;

use crate::{
    StatefulSetController,
    error::Error,
    objects::{STATEFUL_SETS, Status},
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

impl StatefulSetController {
    /// Writes the status if it differs, onto the version of the set that it was computed for. A set that is gone is no error.
    ///
    /// Upstream: `pkg/controller/statefulset`, `UpdateStatefulSetStatus`, which after a conflict writes the same status onto the newer
    /// set. Here the conflict fails the sync, and the next one computes the status of the newer set.
    pub(super) async fn write_status(&self, snapshot: &Snapshot, status: &Status) -> Result<(), Error> {
        let set = &snapshot.set;
        if !status.differs(&set.status) {
            return Ok(());
        }
        let meta = &set.metadata;
        let body = Body { metadata: Precondition { uid: &meta.uid, resource_version: meta.resource_version }, status };
        let target = Target::status(STATEFUL_SETS, &meta.namespace, &meta.name);
        let failed = |error| Error::request("write the status", error);
        match self.context.api.patch(target, Patch::Merge, &body).await {
            Ok(answer) => {
                let written: Written = serde_json::from_slice(&answer).map_err(|error| failed(error.into()))?;
                self.wrote(snapshot, STATEFUL_SETS, &written.metadata);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}
