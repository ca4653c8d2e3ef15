//! Sets the condition `Ready` of Pods to `False` when their node is not ready.

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
    meta::{NamespacedName, Uid},
    pods::PODS,
};
use jiff::Timestamp;

use super::{
    memory::NodeMonitor,
    notes::{MonitorNote, MonitorQuery},
};

use plan::Plan;
use snapshot::Snapshot;

/// The loop that sets the condition `Ready` of Pods to `False` when their node is not ready.
pub(crate) struct PodReadinessController(pub(super) Arc<NodeMonitor>);

impl Controller for PodReadinessController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = MonitorNote;

    fn observe(&self, key: &NamespacedName, _: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        Ok(observe::observe(&self.0, key))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, MonitorNote>) -> Result<Requeue, SyncError> {
        act::act(snapshot, plan, io).await
    }

    fn synced_object(snapshot: &Snapshot) -> (InvolvedObject, Uid) {
        let meta = &snapshot.pod.meta;
        (InvolvedObject::new(PODS, meta), meta.uid.clone())
    }

    fn apply_memory_note(&self, _: &Snapshot, note: MonitorNote) {
        self.0.apply_note(note);
    }

    fn observe_again(&self, _: &Snapshot, question: MonitorQuery) -> Option<bool> {
        Some(self.0.answer_query(question))
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        self.0.informers()
    }
}
