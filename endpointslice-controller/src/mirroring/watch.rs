//! Which event brings which Endpoints to the queue.

use std::sync::Arc;

use common::{
    consistency::Ledger,
    controller::priority,
    meta::{Key, Meta},
    queue::Queue,
    store::{Event, Origin, Store},
};

use crate::{
    objects::{Endpoints, SERVICE_NAME, Service, Slice},
    observe::{drop_satisfied_record, record},
    own_writes::OwnWrites,
    watch::SliceWatch,
};

/// Turns events into keys. Upstream: `pkg/controller/endpointslicemirroring`, `onEndpointsUpdate`, `onServiceUpdate`,
/// `onEndpointSliceUpdate`.
pub(super) struct Watch {
    pub(super) queue: Queue<Key>,
    pub(super) own: Arc<OwnWrites>,
    pub(super) ledger: Ledger,
    pub(super) cache: Arc<Store<Slice>>,
    pub(super) slices: SliceWatch,
}

impl Watch {
    /// Enqueues the Endpoints of a Service without a selector, or of one that got or lost it.
    pub(super) fn on_service(&self, event: &Event<Service>, origin: Origin) {
        let selects = |service: &Service| !service.spec.selector.is_empty();
        let concerns = match event {
            Event::Added(service) | Event::Deleted(service) => !selects(service),
            Event::Updated { old, new } => selects(old) != selects(new),
            Event::Unreadable(_) => false,
        };
        if concerns {
            self.queue.add(event.meta().key(), priority(origin));
        }
    }

    /// Enqueues Endpoints that are or were mirrored.
    pub(super) fn on_endpoints(&self, event: &Event<Endpoints>, origin: Origin) {
        let concerns = match event {
            Event::Added(endpoints) | Event::Deleted(endpoints) => endpoints.is_mirrorable(),
            Event::Updated { old, new } => old.is_mirrorable() || new.is_mirrorable(),
            Event::Unreadable(_) => true,
        };
        let key = event.meta().key();
        if matches!(event, Event::Deleted(_)) {
            self.own.forget(&key);
        }
        if concerns {
            self.queue.add(key, priority(origin));
        }
    }

    /// Enqueues the Endpoints of a slice that somebody else changed.
    pub(super) fn on_slice(&self, event: &Event<Slice>, origin: Origin) {
        // A slice whose Endpoints were deleted while no process watched is found by itself.
        let origin = if origin == Origin::Initial { Origin::Relist } else { origin };
        self.slices.on_slice(event, origin);
        if let Event::Deleted(slice) = event {
            self.on_deletion(&slice.metadata);
        }
    }

    fn on_deletion(&self, slice: &Meta) {
        if let Some(name) = slice.labels.get(SERVICE_NAME) {
            drop_satisfied_record(&self.ledger, &record(&Key::new(&slice.namespace, name)), &*self.cache);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use common::{
        clock::Clock,
        meta::{Uid, Version},
        queue::Backoff,
    };
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::objects::ENDPOINT_SLICES;

    /// Endpoints may have had their last sync when the events of their slices come.
    #[tokio::test(start_paused = true)]
    async fn the_record_of_own_writes_goes_with_the_last_event_of_a_slice() {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        let queue = Queue::new(clock.clone(), Backoff::default(), None);
        let own = Arc::default();
        let slices = SliceWatch {
            queue: queue.clone(),
            managed_by: "endpointslicemirroring-controller.k8s.io",
            own: Arc::clone(&own),
            parked: Arc::default(),
            delay: Duration::ZERO,
        };
        let cache: Arc<Store<Slice>> = Arc::default();
        cache.fill(Vec::new(), Version::parse("9"));
        let ledger = Ledger::new(clock, Duration::from_secs(300));
        let watch = Watch { queue, own, ledger, cache, slices };
        let (key, uid) = (Key::new("shop", "web"), Uid::new("SLICE"));
        watch.ledger.created(&record(&key), ENDPOINT_SLICES, &uid, Version::parse("7"));
        watch.ledger.deleted(&record(&key), ENDPOINT_SLICES, "shop", "web-abc", &uid);
        let slice = json!({"addressType": "IPv4", "endpoints": [], "metadata": {"name": "web-abc", "namespace": "shop", "uid": "SLICE",
            "resourceVersion": "9", "labels": {SERVICE_NAME: "web"}}});
        let slice: Slice = serde_json::from_value(slice).unwrap();
        watch.on_slice(&Event::Deleted(Arc::new(slice)), Origin::Watch);
        assert!(watch.ledger.is_empty());
    }
}
