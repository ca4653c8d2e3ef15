//! Which event brings which Service to the queue.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::Ledger,
    controller::priority,
    map::HashSet,
    meta::{Key, Meta},
    queue::{Priority, Queue},
    store::{Event, Origin, Store},
};
use parking_lot::Mutex;

use crate::{
    decide::zones,
    matching,
    memory::Memories,
    metrics::ControllerMetrics,
    objects::{Node, Pod, SERVICE_NAME, Service, Slice},
    own_writes::OwnWrites,
    topology::Topology,
};

/// Keys whose sync waits for a cache.
#[derive(Debug, Default)]
pub(crate) struct Parked(Mutex<HashSet<Key>>);

impl Parked {
    /// Its sync waits.
    pub(crate) fn park(&self, key: &Key) {
        self.0.lock().insert(key.clone());
    }

    /// Something has come that it may have waited for. Says whether it did wait.
    pub(crate) fn wake(&self, key: &Key) -> bool {
        self.0.lock().remove(key)
    }
}

/// Turns events of slices into keys of their Services. Upstream: `pkg/controller/endpointslice`, `onEndpointSliceAdd` and
/// its like.
pub(crate) struct SliceWatch {
    pub(crate) queue: Queue<Key>,
    /// Whose slices count.
    pub(crate) writer: &'static str,
    pub(crate) own: Arc<OwnWrites>,
    pub(crate) parked: Arc<Parked>,
    /// For how long changes are gathered.
    pub(crate) delay: Duration,
}

fn service_key(slice: &Meta) -> Option<Key> {
    let name = slice.labels.get(SERVICE_NAME).filter(|name| !name.is_empty())?;
    Some(Key { namespace: slice.namespace.clone(), name: Arc::from(name) })
}

impl SliceWatch {
    /// What others do to slices brings their Service to the queue; own writes do so only where a sync waits to see them.
    pub(crate) fn on_slice(&self, event: &Event<Slice>, origin: Origin) {
        let ours = |slice: &Slice| slice.is_managed_by(self.writer);
        match event {
            // Each Service comes to the queue by itself then.
            Event::Added(_) if origin == Origin::Initial => {}
            Event::Added(slice) if ours(slice) => self.came(&slice.metadata),
            Event::Deleted(slice) if ours(slice) => self.gone(&slice.metadata),
            Event::Added(_) | Event::Deleted(_) => {}
            Event::Updated { old, new } if !ours(old) || !ours(new) || old.service() != new.service() => {
                for slice in [old, new].into_iter().filter(|slice| ours(slice)) {
                    self.changed(&slice.metadata);
                }
            }
            Event::Updated { new, .. } => self.came(&new.metadata),
            Event::Unreadable(slice) => self.changed(&slice.meta),
        }
    }

    fn came(&self, slice: &Meta) {
        let Some(key) = service_key(slice) else { return };
        if !self.own.is_echo(&key, slice) {
            self.changed(slice);
        } else if self.parked.wake(&key) {
            self.queue.add(key, Priority::Normal);
        }
    }

    fn gone(&self, slice: &Meta) {
        let Some(key) = service_key(slice) else { return };
        if !self.own.is_gone(&key, &slice.uid) {
            self.changed(slice);
        } else if self.parked.wake(&key) {
            self.queue.add(key, Priority::Normal);
        }
    }

    fn changed(&self, slice: &Meta) {
        let Some(key) = service_key(slice) else { return };
        if self.parked.wake(&key) {
            self.queue.add(key, Priority::Normal);
        } else {
            self.queue.gather(key, self.delay);
        }
    }
}

/// Turns events of everything else into keys. Upstream: `pkg/controller/endpointslice`, `onServiceUpdate`, `addPod`,
/// `updateNode` and their like.
pub(crate) struct Watch {
    pub(crate) queue: Queue<Key>,
    pub(crate) services: Arc<Store<Service>>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) memories: Arc<Memories>,
    pub(crate) own: Arc<OwnWrites>,
    pub(crate) ledger: Ledger,
    pub(crate) metrics: Arc<ControllerMetrics>,
    /// For how long changes of Pods are gathered.
    pub(crate) batch: Duration,
}

impl Watch {
    /// Every event of a Service brings it to the queue.
    pub(crate) fn on_service(&self, event: &Event<Service>, origin: Origin) {
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

    /// A Pod brings the Services that select it.
    pub(crate) fn on_pod(&self, event: &Event<Pod>, origin: Origin) {
        // Each Service comes to the queue by itself then.
        if origin != Origin::Initial {
            for key in matching::concerned(&self.services, event) {
                self.queue.gather(key, self.batch);
            }
        }
    }

    /// A Node brings the Services whose hints no longer fit the capacity of zones.
    pub(crate) fn on_node(&self, event: &Event<Node>, _origin: Origin) {
        if let Event::Updated { old, new } = event
            && old.is_ready == new.is_ready
            && old.zone == new.zone
        {
            return;
        }
        self.topology.changed();
        if !self.memories.any_hints() {
            return;
        }
        let ratios = self.topology.ratios();
        for (key, hints) in self.memories.with_hints() {
            if hints.values().any(|counts| zones::is_overloaded(ratios.as_deref(), counts)) {
                self.queue.add(key, Priority::Normal);
            }
        }
    }
}
