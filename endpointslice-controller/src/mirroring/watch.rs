//! Event handlers that enqueue Endpoints when the Endpoints, their Service or their slices change.

use std::sync::Arc;

use common::{
    consistency::Ledger,
    controller::store::{CacheEvent, ChangeOrigin, Store},
};

use crate::{
    objects::{Endpoints, Service, Slice},
    observe::{drop_satisfied_ledger_record, ledger_owner},
    watch::{SliceEventHandlers, service_key_of_slice},
};

/// The event handlers of the mirroring loop, which enqueue keys. Upstream: `pkg/controller/endpointslicemirroring`,
/// `onEndpointsUpdate`, `onServiceUpdate`, `onEndpointSliceUpdate`.
pub(super) struct EventHandlers {
    pub(super) ledger: Ledger,
    pub(super) slice_store: Arc<Store<Slice>>,
    pub(super) slice_handlers: SliceEventHandlers,
}

impl EventHandlers {
    /// Enqueues the Endpoints if a Service without a selector is added or deleted, or a Service gains or loses its selector.
    pub(super) fn on_service(&self, event: &CacheEvent<Service>, origin: ChangeOrigin) {
        let selects = |service: &Service| !service.spec.selector.is_empty();
        let concerns = match event {
            CacheEvent::Added(service) | CacheEvent::Deleted(service) => !selects(service),
            CacheEvent::Updated { old, new } => selects(old) != selects(new),
            CacheEvent::Unreadable(_) => false,
        };
        if concerns {
            self.slice_handlers.queue.add(event.meta().key(), origin);
        }
    }

    /// Enqueues Endpoints unless they are excluded from mirroring and already were before the event.
    pub(super) fn on_endpoints(&self, event: &CacheEvent<Endpoints>, origin: ChangeOrigin) {
        let concerns = match event {
            CacheEvent::Added(endpoints) | CacheEvent::Deleted(endpoints) => endpoints.is_mirrorable(),
            CacheEvent::Updated { old, new } => old.is_mirrorable() || new.is_mirrorable(),
            CacheEvent::Unreadable(_) => true,
        };
        let key = event.meta().key();
        if matches!(event, CacheEvent::Deleted(_)) {
            self.slice_handlers.own_writes.forget_service(&key);
        }
        if concerns {
            self.slice_handlers.queue.add(key, origin);
        }
    }

    /// Enqueues the Endpoints of a slice that a writer other than this process changed.
    pub(super) fn on_slice(&self, event: &CacheEvent<Slice>, origin: ChangeOrigin) {
        // Like the slices of a relist, slices of the first list enqueue their Endpoints, which may have been deleted meanwhile.
        let origin = if origin == ChangeOrigin::Initial { ChangeOrigin::Relist } else { origin };
        self.slice_handlers.on_slice(event, origin);
        if let CacheEvent::Deleted(slice) = event
            && let Some(key) = service_key_of_slice(&slice.metadata)
        {
            drop_satisfied_ledger_record(&self.ledger, &ledger_owner(&key), &*self.slice_store);
        }
    }
}

#[cfg(test)]
mod tests;
