//! Handlers that enqueue Services at events of slices, for the loops `slices` and `mirroring`.

use std::{sync::Arc, time::Duration};

use common::{
    map::HashSet,
    meta::{Key, Meta, Uid},
    metrics::Counters,
    queue::{Priority, Queue},
    store::{Event, Origin},
};
use parking_lot::Mutex;

use crate::{
    act::WriteNote,
    objects::{SERVICE_NAME, Slice},
    own_writes::{Author, OwnWrites, Wrote},
};

/// Keys with a sync that waits for a cache to catch up.
#[derive(Debug, Default)]
pub(crate) struct Parked(Mutex<HashSet<Key>>);

impl Parked {
    /// Records that the sync of a key waits.
    pub(crate) fn park(&self, key: &Key) {
        self.0.lock().insert(key.clone());
    }

    /// Removes a key after an event that its sync may have waited for. Returns whether the sync waited.
    pub(crate) fn wake(&self, key: &Key) -> bool {
        self.0.lock().remove(key)
    }
}

/// The handlers for events of slices. They enqueue the Service of a slice, except after writes of this process.
///
/// Upstream: `pkg/controller/endpointslice`, `onEndpointSliceAdd`, `onEndpointSliceUpdate`, `onEndpointSliceDelete`.
pub(crate) struct SliceWatch {
    pub(crate) queue: Queue<Key>,
    /// The value of the label [`MANAGED_BY`](crate::objects::MANAGED_BY) on the slices that this loop writes.
    pub(crate) managed_by: &'static str,
    /// The debounce period for changes by other writers.
    pub(crate) delay: Duration,
    /// Counter of slice changes, by operation.
    pub(crate) changes: Counters,
    pub(crate) own: OwnWrites,
    pub(crate) parked: Parked,
}

/// Returns the key of a slice's Service, from the label [`SERVICE_NAME`]; `None` if the label is missing or empty.
pub(crate) fn service_key(slice: &Meta) -> Option<Key> {
    let name = slice.labels.get(SERVICE_NAME).filter(|name| !name.is_empty())?;
    Some(Key { namespace: slice.namespace.clone(), name: Arc::from(name) })
}

impl SliceWatch {
    /// Creates the watch for slices with this value of `managed-by`. Changes by other writers are debounced for `delay`.
    pub(crate) fn new(queue: &Queue<Key>, managed_by: &'static str, delay: Duration, changes: &Counters) -> Self {
        let (queue, changes) = (queue.clone(), changes.clone());
        Self { queue, managed_by, delay, changes, own: OwnWrites::default(), parked: Parked::default() }
    }

    /// Enqueues the Service of a slice that another writer changed. A write of this process enqueues the Service only if a sync
    /// waits for the cache.
    pub(crate) fn on_slice(&self, event: &Event<Slice>, origin: Origin) {
        let ours = |slice: &Slice| slice.is_managed_by(self.managed_by);
        match event {
            // Slices of the first list enqueue nothing, because the handlers of Services enqueue every Service then.
            Event::Added(_) if origin == Origin::Initial => {}
            Event::Added(slice) if ours(slice) => self.on_change(&slice.metadata, OwnWrites::author_of),
            Event::Deleted(slice) if ours(slice) => self.on_change(&slice.metadata, OwnWrites::author_of_deletion),
            Event::Added(_) | Event::Deleted(_) => {}
            Event::Updated { old, new } if !ours(old) || !ours(new) || old.service() != new.service() => {
                for slice in [old, new].into_iter().filter(|slice| ours(slice)) {
                    self.enqueue(&slice.metadata);
                }
            }
            Event::Updated { new, .. } => self.on_change(&new.metadata, OwnWrites::author_of),
            Event::Unreadable(slice) => self.enqueue(&slice.meta),
        }
    }

    fn on_change(&self, slice: &Meta, author_of: fn(&OwnWrites, &Key, &Meta) -> Author) {
        let Some(key) = service_key(slice) else { return };
        match author_of(&self.own, &key, slice) {
            Author::Own => drop(self.wake(&key)),
            Author::Other => self.enqueue(slice),
            Author::Undecided => {}
        }
    }

    /// Enqueues the Service if its sync waits for a cache. Returns whether the sync waits.
    fn wake(&self, key: &Key) -> bool {
        let waits = self.parked.wake(key);
        if waits {
            self.queue.add(key.clone(), Priority::Normal);
        }
        waits
    }

    fn enqueue(&self, slice: &Meta) {
        let Some(key) = service_key(slice) else { return };
        if !self.wake(&key) {
            self.queue.add_debounced(key, self.delay);
        }
    }

    /// Records the progress of a write for a Service.
    pub(crate) fn note(&self, key: &Key, note: &WriteNote) {
        let (operation, wrote) = match note {
            WriteNote::Begin => return self.own.begin(key),
            WriteNote::Fail => (None, None),
            WriteNote::Put(operation, uid, version) => (Some(*operation), Some((uid, Wrote::Version(*version)))),
            WriteNote::Delete(uid) => (Some("delete"), Some((uid, Wrote::Deletion))),
            WriteNote::FindGone => (Some("delete"), None),
        };
        self.finish(key, wrote);
        if let Some(operation) = operation {
            self.changes.with(&[operation]).inc();
        }
    }

    /// Records the end of a sync, because a cancelled request gets no answer.
    pub(crate) fn end(&self, key: &Key) {
        self.finish(key, None);
    }

    /// Records an answer, and enqueues the Service if another writer changed a slice while the request was in flight.
    fn finish(&self, key: &Key, wrote: Option<(&Uid, Wrote)>) {
        if self.own.finish(key, wrote) {
            self.queue.add_debounced(key.clone(), self.delay);
        }
    }
}
