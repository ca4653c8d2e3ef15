//! Handlers that enqueue Endpoints at events of Services, Endpoints and slices.

use std::sync::Arc;

use common::{
    consistency::Ledger,
    controller::priority,
    store::{Event, Origin, Store},
};

use crate::{
    objects::{Endpoints, Service, Slice},
    observe::{drop_satisfied_record, record},
    watch::{SliceWatch, service_key},
};

/// The event handlers of the mirroring loop, which enqueue keys. Upstream: `pkg/controller/endpointslicemirroring`,
/// `onEndpointsUpdate`, `onServiceUpdate`, `onEndpointSliceUpdate`.
pub(super) struct Watch {
    pub(super) ledger: Ledger,
    pub(super) cache: Arc<Store<Slice>>,
    pub(super) slices: SliceWatch,
}

impl Watch {
    /// Enqueues the Endpoints of a Service without a selector, or of a Service that gained or lost its selector.
    pub(super) fn on_service(&self, event: &Event<Service>, origin: Origin) {
        let selects = |service: &Service| !service.spec.selector.is_empty();
        let concerns = match event {
            Event::Added(service) | Event::Deleted(service) => !selects(service),
            Event::Updated { old, new } => selects(old) != selects(new),
            Event::Unreadable(_) => false,
        };
        if concerns {
            self.slices.queue.add(event.meta().key(), priority(origin));
        }
    }

    /// Enqueues Endpoints that are mirrored, or were mirrored before the event.
    pub(super) fn on_endpoints(&self, event: &Event<Endpoints>, origin: Origin) {
        let concerns = match event {
            Event::Added(endpoints) | Event::Deleted(endpoints) => endpoints.is_mirrorable(),
            Event::Updated { old, new } => old.is_mirrorable() || new.is_mirrorable(),
            Event::Unreadable(_) => true,
        };
        let key = event.meta().key();
        if matches!(event, Event::Deleted(_)) {
            self.slices.own.forget(&key);
        }
        if concerns {
            self.slices.queue.add(key, priority(origin));
        }
    }

    /// Enqueues the Endpoints of a slice that another writer changed.
    pub(super) fn on_slice(&self, event: &Event<Slice>, origin: Origin) {
        // Slices in the first list also enqueue their Endpoints, which may have been deleted while no process was watching.
        let origin = if origin == Origin::Initial { Origin::Relist } else { origin };
        self.slices.on_slice(event, origin);
        if let Event::Deleted(slice) = event
            && let Some(key) = service_key(&slice.metadata)
        {
            drop_satisfied_record(&self.ledger, &record(&key), &*self.cache);
        }
    }
}

#[cfg(test)]
mod tests;
