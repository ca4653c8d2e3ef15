//! Handlers that enqueue Services at events of slices, for the loops `slices` and `mirroring`.

use std::{sync::Arc, time::Duration};

use common::{
    map::HashSet,
    meta::{Meta, NamespacedName, Uid},
    metrics::Counters,
    queue::{Priority, Queue},
    store::{CacheEvent, ChangeOrigin},
};
use parking_lot::Mutex;

use crate::{
    act::WriteProgress,
    objects::{SERVICE_NAME_LABEL, Slice},
    own_writes::{ChangeAuthor, OwnWrites, RecordedWrite},
};

/// Keys that are enqueued again when the next event of their slices or Endpoints arrives, because a sync needs a newer cache.
#[derive(Debug, Default)]
pub(crate) struct WaitingKeys(Mutex<HashSet<NamespacedName>>);

impl WaitingKeys {
    /// Records that the sync of a key waits.
    pub(crate) fn add_waiting_key(&self, key: &NamespacedName) {
        self.0.lock().insert(key.clone());
    }

    /// Removes a key after an event that its sync may have waited for. Returns whether the sync waited.
    pub(crate) fn remove_waiting_key(&self, key: &NamespacedName) -> bool {
        self.0.lock().remove(key)
    }
}

/// The handlers for events of slices. They enqueue the Service of a slice, except after writes of this process.
///
/// Upstream: `pkg/controller/endpointslice`, `onEndpointSliceAdd`, `onEndpointSliceUpdate`, `onEndpointSliceDelete`.
pub(crate) struct SliceEventHandlers {
    pub(crate) queue: Queue<NamespacedName>,
    /// The value of the label [`MANAGED_BY_LABEL`](crate::objects::MANAGED_BY_LABEL) on the slices that this loop writes.
    pub(crate) managed_by: &'static str,
    /// The debounce period for changes by other writers.
    pub(crate) debounce_period: Duration,
    /// Counter of slice changes, by operation.
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
    /// Creates the handlers for slices with this value of `managed-by`. Changes by other writers are debounced for `delay`.
    pub(crate) fn new(
        queue: &Queue<NamespacedName>,
        managed_by: &'static str,
        delay: Duration,
        changes: &Counters,
    ) -> Self {
        let (queue, changes) = (queue.clone(), changes.clone());
        Self {
            queue,
            managed_by,
            debounce_period: delay,
            slice_changes: changes,
            own_writes: OwnWrites::default(),
            waiting_keys: WaitingKeys::default(),
        }
    }

    /// Enqueues the Service of a slice that another writer changed. A write of this process enqueues the Service only if a sync
    /// waits for the cache.
    pub(crate) fn on_slice(&self, event: &CacheEvent<Slice>, origin: ChangeOrigin) {
        let ours = |slice: &Slice| slice.is_managed_by(self.managed_by);
        match event {
            // Slices of the first list need no handling, because the handlers of Services enqueue every Service at the start.
            CacheEvent::Added(_) if origin == ChangeOrigin::Initial => {}
            CacheEvent::Added(slice) if ours(slice) => self.on_change(&slice.metadata, OwnWrites::author_of_change),
            CacheEvent::Deleted(slice) if ours(slice) => self.on_change(&slice.metadata, OwnWrites::author_of_deletion),
            CacheEvent::Added(_) | CacheEvent::Deleted(_) => {}
            CacheEvent::Updated { old, new }
                if !ours(old) || !ours(new) || old.service_name() != new.service_name() =>
            {
                for slice in [old, new].into_iter().filter(|slice| ours(slice)) {
                    self.enqueue(&slice.metadata);
                }
            }
            CacheEvent::Updated { new, .. } => self.on_change(&new.metadata, OwnWrites::author_of_change),
            CacheEvent::Unreadable(slice) => self.enqueue(&slice.meta),
        }
    }

    fn on_change(&self, slice: &Meta, author_of: fn(&OwnWrites, &NamespacedName, &Meta) -> ChangeAuthor) {
        let Some(key) = service_key_of_slice(slice) else { return };
        match author_of(&self.own_writes, &key, slice) {
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

    /// Records the progress of a write for a Service.
    pub(crate) fn record_write_progress(&self, key: &NamespacedName, note: &WriteProgress) {
        let (operation, wrote) = match note {
            WriteProgress::Started => return self.own_writes.begin_request(key),
            WriteProgress::Failed => (None, None),
            WriteProgress::Written(operation, uid, version) => {
                (Some(*operation), Some((uid, RecordedWrite::NewVersion(*version))))
            }
            WriteProgress::Deleted(uid) => (Some("delete"), Some((uid, RecordedWrite::Deletion))),
            WriteProgress::AlreadyDeleted => (Some("delete"), None),
        };
        self.finish_request(key, wrote);
        if let Some(operation) = operation {
            self.slice_changes.with_label_values(&[operation]).inc();
        }
    }

    /// Marks the request in flight as finished at the end of a sync, because a cancelled request gets no answer.
    pub(crate) fn end_sync(&self, key: &NamespacedName) {
        self.finish_request(key, None);
    }

    /// Records an answer, and enqueues the Service if another writer changed a slice while the request was in flight.
    fn finish_request(&self, key: &NamespacedName, wrote: Option<(&Uid, RecordedWrite)>) {
        if self.own_writes.finish_request(key, wrote) {
            self.queue.add_debounced(key.clone(), self.debounce_period);
        }
    }
}
