//! The loop that releases the dependents of objects that are deleted with the policy `Orphan`.

use std::sync::Arc;

use common::{
    controller::{Controller, Observed},
    events::ObjectRef,
    informer::AnyInformer,
    io::{Failed, Io, Requeue},
    meta::Uid,
};
use jiff::Timestamp;

use crate::{
    collection::Collection,
    key::ObjectKey,
    monitors::Monitors,
    parked::{Awaited, QueueId},
    place::object,
};
use act::Note;
use plan::Plan;
use snapshot::{Orphan, Snapshot};

mod act;
mod decide;
mod observe;
mod plan;
mod snapshot;

/// Removes the references of dependents to an owner, and then the finalizer `orphan` of the owner.
pub struct Orphaner {
    pub(crate) collection: Arc<Collection>,
    pub(crate) monitors: Arc<Monitors>,
}

impl Controller for Orphaner {
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &ObjectKey, _: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        let view = self.collection.graph.lock().view(&key.0);
        Ok(view.map_or(Observed::Gone, |view| Observed::Ready(self.snapshot(view))))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, Failed> {
        act::act(snapshot, plan, io).await
    }

    fn object(snapshot: &Snapshot) -> (ObjectRef, Uid) {
        object(&snapshot.view)
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        let key = ObjectKey(snapshot.view.identity.uid.clone());
        match note {
            Note::Unparked => self.collection.parked.leave(QueueId::Orphan, &key),
            Note::Parked => self.monitors.park(QueueId::Orphan, key, Awaited::Everything),
        }
    }

    fn observe_again(&self, snapshot: &Snapshot, (): ()) -> Option<Vec<Orphan>> {
        Some(self.dependents(&snapshot.view.identity.uid))
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&*self.monitors]
    }
}
