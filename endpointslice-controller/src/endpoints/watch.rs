//! Handlers that enqueue Services at events of Services and Endpoints.

use std::sync::Arc;

use common::{
    consistency::Ledger,
    controller::priority,
    meta::Key,
    queue::Queue,
    store::{Event, Origin, Store},
};

use crate::{
    memory::Memories,
    objects::{Endpoints, Service},
    observe::{drop_satisfied_record, record},
    watch::Parked,
};

/// The event handlers of the Endpoints loop, and the state that they change. Upstream: `pkg/controller/endpoint`,
/// `onServiceUpdate`, `addPod`, `onEndpointsDelete`.
pub(super) struct Watch {
    pub(super) queue: Queue<Key>,
    pub(super) memories: Memories,
    pub(super) parked: Parked,
    pub(super) ledger: Ledger,
    pub(super) cache: Arc<Store<Endpoints>>,
}

impl Watch {
    /// Enqueues the Service of an event, and removes the memory of a deleted Service.
    pub(super) fn on_service(&self, event: &Event<Service>, origin: Origin) {
        let key = event.meta().key();
        if let Event::Deleted(service) = event {
            self.memories.forget(&key, &service.metadata.uid);
        }
        self.queue.add(key, priority(origin));
    }

    /// Enqueues the Service of Endpoints that are deleted, in the first list, or awaited by a sync.
    pub(super) fn on_endpoints(&self, event: &Event<Endpoints>, origin: Origin) {
        let key = event.meta().key();
        let comes = match event {
            // The first list can contain Endpoints of a Service that was deleted earlier. Leader election locks have no Service
            // and stay.
            Event::Added(there) => origin == Origin::Initial && !there.is_lock(),
            Event::Deleted(_) => true,
            Event::Updated { .. } | Event::Unreadable(_) => false,
        };
        if matches!(event, Event::Deleted(_)) {
            drop_satisfied_record(&self.ledger, &record(&key), &*self.cache);
        }
        if self.parked.wake(&key) || comes {
            self.queue.add(key, priority(origin));
        }
    }
}
