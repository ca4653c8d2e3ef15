//! Pods that carry the tracking finalizer and that no Job counts any more: without the finalizer they can be deleted.
//!
//! A loop of its own beside that of the Jobs, with a queue and workers of its own (`job_orphan_pod`). Its keys come from the handlers of
//! the loop of Jobs, whose caches it reads.

pub mod key;

mod act;
mod decide;
mod observe;
mod plan;
mod snapshot;

use std::sync::Arc;

use common::{
    controller::{Controller, Observed},
    events::ObjectRef,
    informer::AnyInformer,
    io::{Failed, Io, Requeue},
    meta::Uid,
};
use jiff::Timestamp;

use self::{act::Note, key::Orphan, plan::Plan, snapshot::Snapshot};
use crate::jobs::JobController;

/// The loop. It reads the caches of the loop of Jobs.
pub(crate) struct OrphanController(pub(crate) Arc<JobController>);

impl Controller for OrphanController {
    type Key = Orphan;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &Orphan, _: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        Ok(self.observe(key))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(_: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, Failed> {
        act::act(plan, io).await
    }

    fn object(_: &Snapshot) -> (ObjectRef, Uid) {
        // No Event is recorded, and no write is noted: the Job is gone, or another controller's.
        (ObjectRef::default(), Uid::default())
    }

    fn record(&self, snapshot: &Snapshot, _: &Plan) {
        if let Some(job) = &snapshot.ended_job {
            self.0.memory.forget(job);
            self.0.ledger.forget(job);
        }
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        self.0.informers()
    }
}
