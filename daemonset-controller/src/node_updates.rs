//! The loop of changed nodes: it enqueues the DaemonSets that a change of a node concerns.
//!
//! As upstream, this loop has its own queue (`daemonset-node-updates`) and its own workers.

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
    meta::{Key, Uid},
    queue::Priority,
};
use jiff::Timestamp;

use self::{act::Note, plan::Affected, snapshot::Concern};
use crate::DaemonSetController;

/// The loop of changed nodes. It reads the caches of the loop of DaemonSets, and writes nothing.
pub(crate) struct NodeUpdates(pub(crate) Arc<DaemonSetController>);

impl Controller for NodeUpdates {
    type Key = Key;
    type Snapshot = Vec<Concern>;
    type Plan = Affected;
    type Note = Note;

    fn observe(&self, node: &Key, _: Timestamp) -> Result<Observed<Vec<Concern>>, Failed> {
        Ok(Observed::Ready(self.concerns(node)))
    }

    fn decide(concerns: &Vec<Concern>) -> Affected {
        decide::decide(concerns)
    }

    fn record(&self, _: &Vec<Concern>, affected: &Affected) {
        for set in &affected.sets {
            self.0.queue.add(set.clone(), Priority::Normal);
        }
    }

    async fn act(_: &Vec<Concern>, _: &Affected, io: Io<'_, Note>) -> Result<Requeue, Failed> {
        act::act(io).await
    }

    /// Returns an empty object, because this loop records no Events and sends no writes.
    fn object(_: &Vec<Concern>) -> (ObjectRef, Uid) {
        (ObjectRef::default(), Uid::default())
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        self.0.informers()
    }
}
