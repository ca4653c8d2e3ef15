//! The loop that releases the dependents of objects that are deleted with the policy `Orphan`.

use std::sync::Arc;

use common::{
    controller::{Controller, Observation},
    events::InvolvedObject,
    informer::AnyInformer,
    io::{Io, Requeue, SyncError},
    meta::Uid,
};
use jiff::Timestamp;

use crate::{
    collection::CollectorState,
    key::ObjectKey,
    monitors::Monitors,
    parked::{QueueId, WaitCondition},
    place::event_reference_and_uid,
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
    pub(crate) collector_state: Arc<CollectorState>,
    pub(crate) monitors: Arc<Monitors>,
}

impl Controller for Orphaner {
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &ObjectKey, _: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        let view = self.collector_state.graph.lock().node_view(&key.0);
        Ok(view.map_or(Observation::Gone, |view| Observation::Ready(self.take_snapshot(view))))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, SyncError> {
        act::act(snapshot, plan, io).await
    }

    fn synced_object(snapshot: &Snapshot) -> (InvolvedObject, Uid) {
        event_reference_and_uid(&snapshot.graph_node)
    }

    fn apply_memory_note(&self, snapshot: &Snapshot, note: Note) {
        let key = ObjectKey(snapshot.graph_node.identity.uid.clone());
        match note {
            Note::Unparked => self.collector_state.parked_objects.unpark(QueueId::Orphan, &key),
            Note::Parked => self.monitors.park(QueueId::Orphan, key, WaitCondition::EverythingListed),
        }
    }

    fn observe_again(&self, snapshot: &Snapshot, (): ()) -> Option<Vec<DependentWithResource>> {
        Some(self.dependents(&snapshot.graph_node.identity.uid))
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&*self.monitors]
    }
}
