//! The loop of changed nodes, which enqueues the DaemonSets that a change of a node concerns.
//!
//! As upstream, this loop has its own queue (`daemonset-node-updates`) and its own workers.

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
    queue::Priority,
};
use jiff::Timestamp;

use self::{act::Note, plan::AffectedDaemonSets, snapshot::NodeChangeForSet};
use crate::DaemonSetController;

/// The loop of changed nodes. It reads the caches of the loop of DaemonSets, and writes nothing.
pub(crate) struct NodeUpdateLoop(pub(crate) Arc<DaemonSetController>);

impl Controller for NodeUpdateLoop {
    type Key = NamespacedName;
    type Snapshot = Vec<NodeChangeForSet>;
    type Plan = AffectedDaemonSets;
    type Note = Note;

    fn observe(&self, node: &NamespacedName, _: Timestamp) -> Result<Observation<Vec<NodeChangeForSet>>, SyncError> {
        Ok(Observation::Ready(self.node_changes_for_sets(node)))
    }

    fn decide(concerns: &Vec<NodeChangeForSet>) -> AffectedDaemonSets {
        decide::decide(concerns)
    }

    fn record_plan(&self, _: &Vec<NodeChangeForSet>, affected: &AffectedDaemonSets) {
        for set in &affected.daemon_set_keys {
            self.0.queue.add(set.clone(), Priority::Normal);
        }
    }

    async fn act(_: &Vec<NodeChangeForSet>, _: &AffectedDaemonSets, io: Io<'_, Note>) -> Result<Requeue, SyncError> {
        act::act(io).await
    }

    /// Returns an empty object, because this loop records no Events and sends no writes.
    fn synced_object(_: &Vec<NodeChangeForSet>) -> (InvolvedObject, Uid) {
        (InvolvedObject::default(), Uid::default())
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        self.0.informers()
    }
}
