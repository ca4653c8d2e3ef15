//! Keeps the `NoSchedule` taints and the copied labels of nodes up to date.

mod act;
pub(crate) mod decide;
mod observe;
mod plan;
pub(crate) mod snapshot;

use std::sync::Arc;

use common::{
    controller::{Controller, Observation},
    events::InvolvedObject,
    informer::AnyInformer,
    io::{Io, Requeue, SyncError},
    meta::{NamespacedName, Uid},
};
use jiff::Timestamp;

use super::{
    memory::NodeMonitor,
    notes::{MonitorNote, MonitorQuery},
};
use crate::objects::NODES;

use plan::Plan;
use snapshot::Snapshot;

/// The loop that updates the `NoSchedule` taints and the copied labels of nodes; its keys are the names of nodes.
pub(crate) struct NodeTaintAndLabelController(pub(super) Arc<NodeMonitor>);

impl Controller for NodeTaintAndLabelController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = MonitorNote;

    fn observe(&self, key: &NamespacedName, _: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        Ok(observe::observe(&self.0, &key.name))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, MonitorNote>) -> Result<Requeue, SyncError> {
        act::act(snapshot, plan, io).await
    }

    fn synced_object(snapshot: &Snapshot) -> (InvolvedObject, Uid) {
        let meta = &snapshot.node.metadata;
        (InvolvedObject::new(NODES, meta), meta.uid.clone())
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
