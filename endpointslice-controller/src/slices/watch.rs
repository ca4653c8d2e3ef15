//! Handlers that enqueue Services at events of Services, and after changes of Nodes.

use common::{
    consistency::Ledger,
    controller::priority,
    queue::Priority,
    store::{Event, Origin},
};

use super::metrics::SliceMetrics;
use crate::{members::SharedMembership, memory::Memories, objects::Service, topology::Topology, watch::SliceWatch};

/// The event handlers of the loop of slices, and the state that they change. Upstream: `pkg/controller/endpointslice`,
/// `onServiceUpdate`, `onServiceDelete`, `syncPod`, `checkNodeTopologyDistribution`.
pub(super) struct Watch {
    pub(super) topology: Topology,
    pub(super) memories: Memories,
    pub(super) ledger: Ledger,
    pub(super) slices: SliceWatch,
    pub(super) metrics: SliceMetrics,
}

impl Watch {
    /// Enqueues the Service of an event, and removes all state of a deleted Service.
    pub(super) fn on_service(&self, event: &Event<Service>, origin: Origin) {
        let key = event.meta().key();
        if let Event::Deleted(service) = event {
            let uid = &service.metadata.uid;
            self.memories.forget(&key, uid);
            self.slices.own.forget(&key);
            self.ledger.forget(uid);
            self.metrics.forget(&key);
        }
        self.slices.queue.add(key, priority(origin));
    }

    /// Enqueues Services with hints that no longer fit the capacity of the zones, and Services with Pods on new Nodes or Nodes
    /// with a new zone.
    pub(super) fn recheck_zones(&self, members: &SharedMembership) {
        let moved = members.services_on(&self.topology.take_moved());
        for key in self.topology.overloaded(&self.memories).into_iter().chain(moved) {
            self.slices.queue.add(key, Priority::Normal);
        }
    }
}
