//! Handlers that enqueue Services at events of Services, and after changes of Nodes.

use common::{
    consistency::Ledger,
    controller::queue::Priority,
    store::{CacheEvent, ChangeOrigin},
};

use super::metrics::SliceMetrics;
use crate::{
    memory::ServiceMemoryByKey, objects::Service, shared_service_pod_index::SharedServicePodIndex,
    topology::NodeTopology, watch::SliceEventHandlers,
};

/// The event handlers of the loop `endpointslice-controller`, and the state that they change. Upstream:
/// `pkg/controller/endpointslice`, `onServiceUpdate`, `onServiceDelete`, `syncPod`, `checkNodeTopologyDistribution`.
pub(super) struct EventHandlers {
    pub(super) topology: NodeTopology,
    pub(super) memories: ServiceMemoryByKey,
    pub(super) ledger: Ledger,
    pub(super) slice_handlers: SliceEventHandlers,
    pub(super) metrics: SliceMetrics,
}

impl EventHandlers {
    /// Enqueues the Service of an event, and removes all state of a deleted Service.
    pub(super) fn on_service(&self, event: &CacheEvent<Service>, origin: ChangeOrigin) {
        let key = event.meta().key();
        if let CacheEvent::Deleted(service) = event {
            let uid = &service.metadata.uid;
            self.memories.drop_memory(&key, uid);
            self.slice_handlers.own_writes.forget_service(&key);
            self.ledger.forget_owner(uid);
            self.metrics.forget_service(&key);
        }
        self.slice_handlers.queue.add(key, origin);
    }

    /// Enqueues Services with hints that no longer fit the capacity of the zones, and Services with Pods on new Nodes or Nodes
    /// with a new zone.
    pub(super) fn enqueue_after_node_changes(&self, members: &SharedServicePodIndex) {
        let moved = members.services_on_nodes(&self.topology.take_nodes_with_new_zone());
        for key in self.topology.services_with_outdated_hints(&self.memories).into_iter().chain(moved) {
            self.slice_handlers.queue.add(key, Priority::Normal);
        }
    }
}
