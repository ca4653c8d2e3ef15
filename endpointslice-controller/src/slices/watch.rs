//! Which event brings which Service to the queue.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::{
    consistency::Ledger,
    controller::priority,
    meta::Key,
    queue::{Priority, Queue},
    store::{Event, Origin},
};

use super::metrics::SliceMetrics;
use crate::{members::SharedMembership, memory::Memories, objects::Service, own_writes::OwnWrites, topology::Topology};

/// Turns all events but those of slices into keys. Upstream: `pkg/controller/endpointslice`, `onServiceUpdate`, `onServiceDelete`,
/// `syncPod`, `checkNodeTopologyDistribution`.
pub(super) struct Watch {
    pub(super) queue: Queue<Key>,
    pub(super) topology: Arc<Topology>,
    pub(super) memories: Arc<Memories>,
    pub(super) own: Arc<OwnWrites>,
    pub(super) ledger: Ledger,
    pub(super) metrics: Arc<SliceMetrics>,
    /// How long changes of Pods are gathered.
    pub(super) batch: Duration,
}

impl Watch {
    /// Enqueues a Service at every event of it.
    pub(super) fn on_service(&self, event: &Event<Service>, origin: Origin) {
        let key = event.meta().key();
        if let Event::Deleted(service) = event {
            let uid = &service.metadata.uid;
            self.memories.forget(&key, uid);
            self.own.forget(&key);
            self.ledger.forget(uid);
            self.metrics.forget(&key);
        }
        self.queue.add(key, priority(origin));
    }

    /// Enqueues the Services that an event of a Pod concerns.
    pub(super) fn on_pod(&self, concerned: &BTreeSet<Key>) {
        for key in concerned {
            self.queue.add_debounced(key.clone(), self.batch);
        }
    }

    /// Enqueues the Services whose hints no longer fit the capacity of the zones, and those with Pods on Nodes that came or that
    /// are in another zone now.
    pub(super) fn recheck_zones(&self, members: &SharedMembership) {
        let moved = members.services_on(&self.topology.take_moved());
        for key in self.topology.overloaded(&self.memories).into_iter().chain(moved) {
            self.queue.add(key, Priority::Normal);
        }
    }
}
