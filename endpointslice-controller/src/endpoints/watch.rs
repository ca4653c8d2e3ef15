//! Event handlers that enqueue a Service when the Service or its Endpoints change.

use std::sync::Arc;

use common::{
    consistency::Ledger,
    controller::meta::NamespacedName,
    queue::Queue,
    store::{CacheEvent, ChangeOrigin, Store},
};

use crate::{
    memory::ServiceMemoryByKey,
    objects::{Endpoints, Service},
    observe::{drop_satisfied_ledger_record, ledger_owner},
    watch::WaitingKeys,
};

/// The event handlers of the Endpoints loop, and the state that they change. Upstream: `pkg/controller/endpoint`,
/// `onServiceUpdate`, `addPod`, `onEndpointsDelete`.
pub(super) struct EventHandlers {
    pub(super) queue: Queue<NamespacedName>,
    pub(super) memories: ServiceMemoryByKey,
    pub(super) waiting_keys: WaitingKeys,
    pub(super) ledger: Ledger,
    pub(super) endpoints_store: Arc<Store<Endpoints>>,
}

impl EventHandlers {
    /// Enqueues the added, changed or deleted Service. Also removes the memory of a deleted Service.
    pub(super) fn on_service(&self, event: &CacheEvent<Service>, origin: ChangeOrigin) {
        let key = event.meta().key();
        if let CacheEvent::Deleted(service) = event {
            self.memories.drop_memory(&key, &service.metadata.uid);
        }
        self.queue.add(key, origin);
    }

    /// Enqueues the Service if the Endpoints were deleted, are in the first list, or if a sync waits for their event.
    pub(super) fn on_endpoints(&self, event: &CacheEvent<Endpoints>, origin: ChangeOrigin) {
        let key = event.meta().key();
        let comes = match event {
            // The first list can contain Endpoints of a Service that was deleted before this process started; a sync deletes
            // them. Leader election locks have no Service either, and must not be deleted.
            CacheEvent::Added(there) => origin == ChangeOrigin::Initial && !there.is_leader_election_lock(),
            CacheEvent::Deleted(_) => true,
            CacheEvent::Updated { .. } | CacheEvent::Unreadable(_) => false,
        };
        if matches!(event, CacheEvent::Deleted(_)) {
            drop_satisfied_ledger_record(&self.ledger, &ledger_owner(&key), &*self.endpoints_store);
        }
        if self.waiting_keys.remove_waiting_key(&key) || comes {
            self.queue.add(key, origin);
        }
    }
}
