//! Removes the tracking finalizer from Pods that no Job counts any more, so that they can be deleted.
//!
//! This loop has its own queue (`job_orphan_pod`) and workers. The event handlers of the Job loop enqueue its keys, and it
//! reads the caches of the Job loop.

pub mod key;

mod act;
mod decide;
mod observe;
mod plan;
mod snapshot;

use std::sync::Arc;

use common::{
    controller::{Controller, Observation},
    events::InvolvedObject,
    informer::AnyInformer,
    io::{Io, Requeue, SyncError},
    meta::Uid,
};
use jiff::Timestamp;

use self::{act::Note, key::OrphanKey, plan::Plan, snapshot::Snapshot};
use crate::jobs::JobController;

/// The controller that removes leftover finalizers. It reads the caches of the Job controller.
pub(crate) struct OrphanController(pub(crate) Arc<JobController>);

impl Controller for OrphanController {
    type Key = OrphanKey;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &OrphanKey, _: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        Ok(self.observe(key))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(_: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, SyncError> {
        act::act(plan, io).await
    }

    fn synced_object(_: &Snapshot) -> (InvolvedObject, Uid) {
        // No object is needed, because this loop emits no Events about a Job, and records no writes for it.
        (InvolvedObject::default(), Uid::default())
    }

    fn record_plan(&self, snapshot: &Snapshot, _: &Plan) {
        if let Some(job) = &snapshot.finished_or_deleted_job_uid {
            self.0.memory.forget_job(job);
            self.0.pod_creation_pauses.forget(job);
            self.0.ledger.forget_owner(job);
        }
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        self.0.informers()
    }
}
