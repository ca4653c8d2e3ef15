//! Which event brings which Endpoints to the queue.

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

/// Turns events into keys, and holds what they change. Upstream: `pkg/controller/endpoint`, `onServiceUpdate`, `addPod`, `onEndpointsDelete`.
pub(super) struct Watch {
    pub(super) queue: Queue<Key>,
    pub(super) memories: Memories,
    pub(super) parked: Parked,
    pub(super) ledger: Ledger,
    pub(super) cache: Arc<Store<Endpoints>>,
}

impl Watch {
    /// Enqueues a Service at every event of it.
    pub(super) fn on_service(&self, event: &Event<Service>, origin: Origin) {
        let key = event.meta().key();
        if let Event::Deleted(service) = event {
            self.memories.forget(&key, &service.metadata.uid);
        }
        self.queue.add(key, priority(origin));
    }

    /// Enqueues Endpoints that were deleted, or whose sync waited for this event.
    pub(super) fn on_endpoints(&self, event: &Event<Endpoints>, origin: Origin) {
        let key = event.meta().key();
        let comes = match event {
            // What a predecessor left behind is deleted; a lock has no Service and stays.
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
