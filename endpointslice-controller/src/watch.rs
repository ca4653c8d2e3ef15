//! Which events of slices bring which key to the queue: the same for both loops of slices.

use std::{sync::Arc, time::Duration};

use common::{
    map::HashSet,
    meta::{Key, Meta},
    queue::{Priority, Queue},
    store::{Event, Origin},
};
use parking_lot::Mutex;

use crate::{
    objects::{SERVICE_NAME, Slice},
    own_writes::{Author, OwnWrites},
};

/// Keys whose sync waits for a cache.
#[derive(Debug, Default)]
pub(crate) struct Parked(Mutex<HashSet<Key>>);

impl Parked {
    /// Notes that the sync of a key waits.
    pub(crate) fn park(&self, key: &Key) {
        self.0.lock().insert(key.clone());
    }

    /// Notes an event that the sync of a key may have waited for. Returns whether it did wait.
    pub(crate) fn wake(&self, key: &Key) -> bool {
        self.0.lock().remove(key)
    }
}

/// Turns events of slices into keys of their Services. Upstream: `pkg/controller/endpointslice`, `onEndpointSliceAdd`,
/// `onEndpointSliceUpdate`, `onEndpointSliceDelete`.
pub(crate) struct SliceWatch {
    pub(crate) queue: Queue<Key>,
    /// The value of the label [`MANAGED_BY`](crate::objects::MANAGED_BY) of the slices that this loop writes.
    pub(crate) managed_by: &'static str,
    pub(crate) own: Arc<OwnWrites>,
    pub(crate) parked: Arc<Parked>,
    /// How long changes by others are gathered.
    pub(crate) delay: Duration,
}

fn service_key(slice: &Meta) -> Option<Key> {
    let name = slice.labels.get(SERVICE_NAME).filter(|name| !name.is_empty())?;
    Some(Key { namespace: slice.namespace.clone(), name: Arc::from(name) })
}

impl SliceWatch {
    /// Enqueues the Service of a slice that somebody else changed. Own writes do so only if a sync waits to see them.
    pub(crate) fn on_slice(&self, event: &Event<Slice>, origin: Origin) {
        let ours = |slice: &Slice| slice.is_managed_by(self.managed_by);
        match event {
            // After the first list, every Service is enqueued on its own account.
            Event::Added(_) if origin == Origin::Initial => {}
            Event::Added(slice) if ours(slice) => self.on_change(&slice.metadata),
            Event::Deleted(slice) if ours(slice) => self.on_deletion(&slice.metadata),
            Event::Added(_) | Event::Deleted(_) => {}
            Event::Updated { old, new } if !ours(old) || !ours(new) || old.service() != new.service() => {
                for slice in [old, new].into_iter().filter(|slice| ours(slice)) {
                    self.enqueue(&slice.metadata);
                }
            }
            Event::Updated { new, .. } => self.on_change(&new.metadata),
            Event::Unreadable(slice) => self.enqueue(&slice.meta),
        }
    }

    fn on_change(&self, slice: &Meta) {
        let Some(key) = service_key(slice) else { return };
        match self.own.author_of(&key, slice) {
            Author::Own => self.wake(key),
            Author::Other => self.enqueue(slice),
            Author::Undecided => {}
        }
    }

    fn on_deletion(&self, slice: &Meta) {
        let Some(key) = service_key(slice) else { return };
        match self.own.author_of_deletion(&key, &slice.uid) {
            Author::Own => self.wake(key),
            Author::Other => self.enqueue(slice),
            Author::Undecided => {}
        }
    }

    fn wake(&self, key: Key) {
        if self.parked.wake(&key) {
            self.queue.add(key, Priority::Normal);
        }
    }

    fn enqueue(&self, slice: &Meta) {
        let Some(key) = service_key(slice) else { return };
        if self.parked.wake(&key) {
            self.queue.add(key, Priority::Normal);
        } else {
            self.queue.add_debounced(key, self.delay);
        }
    }
}
