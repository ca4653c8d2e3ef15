//! The loop that deletes objects after all of their owners were deleted.

use std::sync::Arc;

use common::{
    controller::{Controller, Observation},
    events::InvolvedObject,
    informer::AnyInformer,
    io::{Io, Requeue, SyncError},
    meta::{OwnerRef, Uid},
    queue::Priority,
};
use jiff::Timestamp;

use crate::{
    collection::CollectorState, graph::Identity, key::ObjectKey, monitors::Monitors, parked::QueueId,
    place::event_reference_and_uid,
};
use act::{Note, ReobservedOwners};
use plan::Plan;
use snapshot::Snapshot;

pub mod decide;
pub mod plan;
pub mod snapshot;

mod act;
mod observe;

/// Deletes each object that has owner references and no existing owner. Otherwise, removes the references to missing owners.
pub struct Collector {
    pub(crate) collector_state: Arc<CollectorState>,
    pub(crate) monitors: Arc<Monitors>,
}

impl Controller for Collector {
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        let view = self.collector_state.graph.lock().node_view(&key.0);
        Ok(view.map_or(Observation::Gone, |view| Observation::Ready(self.take_snapshot(view, now))))
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
        let identity = &snapshot.graph_node.identity;
        let key = || ObjectKey(identity.uid.clone());
        match note {
            Note::Unparked => self.collector_state.parked_objects.unpark(QueueId::Delete, &key()),
            Note::Parked(awaited) => self.monitors.park(QueueId::Delete, key(), awaited),
            Note::Absent => {
                self.collector_state.apply_change(Priority::Normal, |graph, out| graph.apply_absence(identity, out));
            }
            Note::OwnerAbsent(OwnerRef { api_version, kind, name, uid, .. }, namespace) => {
                let mut graph = self.collector_state.graph.lock();
                let kind = graph.intern_kind(&api_version, &kind);
                graph.remember_absent_object(Identity { kind, namespace, name: name.as_str().into(), uid });
            }
        }
    }

    fn observe_again(&self, snapshot: &Snapshot, references: Vec<OwnerRef>) -> Option<ReobservedOwners> {
        Some(self.observe_again(snapshot, references))
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&*self.monitors]
    }
}
