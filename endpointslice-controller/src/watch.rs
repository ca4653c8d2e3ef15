//! Handlers that enqueue Services at events of slices, for the loops `slices` and `mirroring`.

use std::{sync::Arc, time::Duration};

use common::{metrics::Counters, prelude::*};

use crate::{
    objects::{SERVICE_NAME_LABEL, Slice},
    observe::WaitingKeys,
    own_writes::{ChangeAuthor, OwnWrites, RecordedWrite},
};

/// The handlers for events of slices. They enqueue the Service of a slice, except after writes of this process.
///
/// Upstream: `pkg/controller/endpointslice`, `onEndpointSliceAdd`, `onEndpointSliceUpdate`, `onEndpointSliceDelete`.
pub(crate) struct SliceEventHandlers {
    pub(crate) queue: Queue<NamespacedName>,
    /// The value of the label [`MANAGED_BY_LABEL`](crate::objects::MANAGED_BY_LABEL) on the slices that this loop writes.
    pub(crate) managed_by: &'static str,
    /// The debounce period for changes by other writers.
    pub(crate) debounce_period: Duration,
    pub(crate) slice_changes: Counters,
    pub(crate) own_writes: OwnWrites,
    pub(crate) waiting_keys: WaitingKeys,
}

/// Returns the key of a slice's Service, from the label [`SERVICE_NAME_LABEL`]; `None` if the label is missing or empty.
pub(crate) fn service_key_of_slice(slice: &Meta) -> Option<NamespacedName> {
    let name = slice.labels.get(SERVICE_NAME_LABEL).filter(|name| !name.is_empty())?;
    Some(NamespacedName { namespace: slice.namespace.clone(), name: Arc::from(name) })
}

impl SliceEventHandlers {
    pub(crate) fn new(
        queue: &Queue<NamespacedName>,
        managed_by: &'static str,
        debounce_period: Duration,
        slice_changes: &Counters,
    ) -> Self {
        let (queue, slice_changes) = (queue.clone(), slice_changes.clone());
        let (own_writes, waiting_keys) = Default::default();
        Self { queue, managed_by, debounce_period, slice_changes, own_writes, waiting_keys }
    }

    /// Enqueues the Service of a slice that another writer changed. A write of this process enqueues the Service only if a sync
    /// waits for the cache.
    pub(crate) fn on_slice(&self, event: &CacheEvent<Slice>, origin: ChangeOrigin) {
        let ours = |slice: &Slice| slice.is_managed_by(self.managed_by);
        let new_version = |slice: &Slice| RecordedWrite::NewVersion(slice.metadata.resource_version);
        match event {
            // Slices of the first list need no handling, because the handlers of Services enqueue every Service at the start.
            CacheEvent::Added(_) if origin == ChangeOrigin::Initial => {}
            CacheEvent::Added(slice) if ours(slice) => self.on_write(&slice.metadata, new_version(slice)),
            CacheEvent::Deleted(slice) if ours(slice) => self.on_write(&slice.metadata, RecordedWrite::Deletion),
            CacheEvent::Added(_) | CacheEvent::Deleted(_) => {}
            CacheEvent::Updated { old, new }
                if !ours(old) || !ours(new) || old.service_name() != new.service_name() =>
            {
                for slice in [old, new].into_iter().filter(|slice| ours(slice)) {
                    self.enqueue(&slice.metadata);
                }
            }
            CacheEvent::Updated { new, .. } => self.on_write(&new.metadata, new_version(new)),
            CacheEvent::Unreadable(slice) => self.enqueue(&slice.meta),
        }
    }

    fn on_write(&self, slice: &Meta, write: RecordedWrite) {
        let Some(key) = service_key_of_slice(slice) else { return };
        match self.own_writes.author_of(&key, &slice.uid, write) {
            ChangeAuthor::ThisProcess => drop(self.wake(&key)),
            ChangeAuthor::AnotherWriter => self.enqueue(slice),
            ChangeAuthor::Undecided => {}
        }
    }

    /// Enqueues the Service if its sync waits for a cache. Returns whether the sync waited.
    fn wake(&self, key: &NamespacedName) -> bool {
        let waits = self.waiting_keys.remove_waiting_key(key);
        if waits {
            self.queue.add(key.clone(), Priority::Normal);
        }
        waits
    }

    fn enqueue(&self, slice: &Meta) {
        let Some(key) = service_key_of_slice(slice) else { return };
        if !self.wake(&key) {
            self.queue.add_debounced(key, self.debounce_period);
        }
    }

    /// Records the answer to a request: the UID of the slice and the write; `None` if the request failed or had no effect.
    /// Enqueues the Service if another writer changed a slice while the request was in flight.
    ///
    /// Each sync ends with this call, because a cancelled request gets no answer.
    pub(crate) fn finish_request(&self, key: &NamespacedName, own_write: Option<(&Uid, RecordedWrite)>) {
        if self.own_writes.finish_request(key, own_write) {
            self.queue.add_debounced(key.clone(), self.debounce_period);
        }
    }
}
