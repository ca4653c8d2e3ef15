//! The loop that releases the dependents of objects that are deleted with the policy `Orphan`.

use std::sync::Arc;

use common::{
    controller::{Controller, Observation},
    events::ObjectRef,
    informer::AnyInformer,
    io::{Io, Requeue, SyncError},
    meta::Uid,
};
use jiff::Timestamp;

use crate::{
    collection::CollectorState,
    key::ObjectKey,
    monitors::Monitors,
    parked::{ParkCondition, QueueId},
    place::event_object,
};
use act::Note;
use plan::Plan;
use snapshot::{DependentWithResource, Snapshot};

mod act;
mod decide;
mod observe;
mod plan;
mod snapshot;

/// Removes the references of dependents to an owner, and then the finalizer `orphan` of the owner.
pub struct Orphaner {
    pub(crate) collection: Arc<CollectorState>,
    pub(crate) monitors: Arc<Monitors>,
}

impl Controller for Orphaner {
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &ObjectKey, _: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        let view = self.collection.graph.lock().view(&key.0);
        Ok(view.map_or(Observation::Gone, |view| Observation::Ready(self.snapshot(view))))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, SyncError> {
        act::act(snapshot, plan, io).await
    }

    fn synced_object(snapshot: &Snapshot) -> (ObjectRef, Uid) {
        event_object(&snapshot.view)
    }

    fn apply_note(&self, snapshot: &Snapshot, note: Note) {
        let key = ObjectKey(snapshot.view.identity.uid.clone());
        match note {
            Note::Unparked => self.collection.parked.unpark(QueueId::Orphan, &key),
            Note::Parked => self.monitors.park(QueueId::Orphan, key, ParkCondition::EverythingListed),
        }
    }

    fn observe_again(&self, snapshot: &Snapshot, (): ()) -> Option<Vec<DependentWithResource>> {
        Some(self.dependents(&snapshot.view.identity.uid))
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&*self.monitors]
    }
}
