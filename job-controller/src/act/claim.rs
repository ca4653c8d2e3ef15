//! Adopting and releasing Pods.

use std::sync::Arc;

use common::{
    api::{self, Patch, Target, Written},
    pods::PODS,
};

use crate::{
    JobController,
    decide::{PodRef, Snapshot},
    error::{ClaimErrors, Error},
    objects::{JOB_TRACKING, JOBS},
};

impl JobController {
    /// Releases and adopts; gives back the Pods that were adopted. Every Pod is tried before errors are told.
    ///
    /// Upstream: `pkg/controller`, `PodControllerRefManager`.
    pub(super) async fn claim(
        &self,
        snapshot: &Snapshot,
        adopt: &[PodRef],
        release: &[PodRef],
    ) -> Result<Vec<PodRef>, Error> {
        let mut failed = Vec::new();
        let released = super::all(release.iter().map(|pod| self.release(snapshot, pod))).await;
        for (pod, result) in release.iter().zip(released) {
            if let Err(error) = result {
                failed.push((format!("release pod {}", pod.meta().key()), error));
            }
        }
        let mut adopted = Vec::with_capacity(adopt.len());
        if !adopt.is_empty() {
            self.recheck(snapshot).await?;
            let results = super::all(adopt.iter().map(|pod| self.adopt(snapshot, pod))).await;
            for (pod, result) in adopt.iter().zip(results) {
                match result {
                    Ok(true) => adopted.push(Arc::clone(pod)),
                    Ok(false) => {}
                    Err(error) => failed.push((format!("adopt pod {}", pod.meta().key()), error)),
                }
            }
        }
        if failed.is_empty() { Ok(adopted) } else { Err(Error::Claim(ClaimErrors(failed))) }
    }

    /// Makes sure, from the server, that the Job still is who it was and is not going away: the garbage collector may be
    /// orphaning its Pods just now (kubernetes/kubernetes#42639).
    async fn recheck(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let owner = &snapshot.owner;
        let live = self.context.api.get(Target::object(JOBS, &owner.namespace, &owner.name)).await;
        let live = live.map_err(Error::Recheck)?;
        let live: Written = serde_json::from_slice(&live).map_err(|error| Error::Recheck(error.into()))?;
        if live.metadata.uid != owner.uid {
            return Err(Error::NotOurs(format!(
                "original Job {}/{} is gone: got uid {}, wanted {}",
                owner.namespace, owner.name, live.metadata.uid, owner.uid
            )));
        }
        if live.metadata.is_deleting() {
            return Err(Error::NotOurs(format!("{}/{} has just been deleted", owner.namespace, owner.name)));
        }
        Ok(())
    }

    /// Whether the Pod was there to be adopted.
    async fn adopt(&self, snapshot: &Snapshot, pod: &PodRef) -> Result<bool, api::Error> {
        let meta = pod.meta();
        let patch = snapshot.owner.adopt_patch(&meta.uid, &[JOB_TRACKING]);
        let target = Target::object(PODS, &meta.namespace, &meta.name);
        match self.context.api.patch(target, Patch::Strategic, &patch).await {
            Ok(answer) => {
                let written: Written = serde_json::from_slice(&answer)?;
                self.ledger.wrote(&snapshot.owner.uid, PODS, written.metadata.resource_version);
                Ok(true)
            }
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn release(&self, snapshot: &Snapshot, pod: &PodRef) -> Result<(), api::Error> {
        let meta = pod.meta();
        let patch = snapshot.owner.release_patch(&meta.uid, &[JOB_TRACKING]);
        let target = Target::object(PODS, &meta.namespace, &meta.name);
        match self.context.api.patch(target, Patch::Strategic, &patch).await {
            Err(error) if !error.is_not_found() && !super::delete::is_another(&error) => Err(error),
            Ok(_) | Err(_) => {
                // Its deletion, if one is awaited, will not be told to this Job any more.
                self.ledger.undelete(&snapshot.owner.uid, &meta.uid);
                Ok(())
            }
        }
    }
}
