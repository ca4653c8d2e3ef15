//! The destination of the objects that an informer reads, and the implementation that keeps whole objects in a store.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    meta::{Meta, ResourceVersion},
    object::Object,
    store::{CacheEntry, CacheEvent, ChangeOrigin, Store},
};

use super::{ObjectHead, StoreSink};

/// Receives the objects that an informer reads.
///
/// [`StoreAndHandlers`] keeps whole objects. Another implementation can keep only the parts that it needs, without a second
/// copy. All calls come from one task, one after the other.
pub trait Sink: Send + Sync + 'static {
    /// Type into which each object is decoded.
    type Object: Object;
    /// The objects of a list while the list is being read.
    type Set: Send;

    /// Begins a list of all objects. Discards the previous set if it was not completed.
    fn begin_set(&self) -> Self::Set;
    /// Adds an object of the list, in its state at the version of the list.
    fn add_to_set(&self, set: &mut Self::Set, entry: CacheEntry<Self::Object>, origin: ChangeOrigin);
    /// Ends a list that was read at `version`. Objects that are missing in the list no longer exist.
    fn complete_set(&self, set: Self::Set, version: ResourceVersion, origin: ChangeOrigin);
    /// Adds or updates an object. A state that is older than the state in the sink is ignored.
    fn put_object(&self, entry: CacheEntry<Self::Object>);
    /// Handles the event of an object that does not, or no longer, [concern](Object::HEAD_FILTER) this controller.
    fn handle_foreign(&self, head: &ObjectHead<'_>);
    /// Removes a deleted object; `last` is its final state.
    fn remove_deleted(&self, last: &Meta);
    /// Records that all events up to `version` were delivered.
    fn raise_version(&self, version: ResourceVersion);
    /// Returns the newest version that the sink has received.
    fn version(&self) -> ResourceVersion;
    /// Returns the number of objects in the sink.
    fn len(&self) -> usize;
    /// Whether the sink holds no objects.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Passes every object to the handlers again.
    fn replay(&self);
}

/// Function that is called with each change of a cache. To be fast, it only computes keys and adds the keys to a queue.
pub type CacheEventHandler<K> = Box<dyn Fn(&CacheEvent<K>, ChangeOrigin) + Send + Sync>;

/// Returns a [`CacheEventHandler`] that calls the method `handle` of `watch`.
pub fn handler_from_method<W, K>(watch: &Arc<W>, handle: fn(&W, &CacheEvent<K>, ChangeOrigin)) -> CacheEventHandler<K>
where
    W: Send + Sync + 'static,
    K: Object,
{
    let watch = Arc::clone(watch);
    Box::new(move |event, origin| handle(&watch, event, origin))
}

/// Sink that keeps objects in a store and calls handlers for each change.
pub struct StoreAndHandlers<K> {
    pub(super) store: Arc<Store<K>>,
    pub(super) handlers: Mutex<Vec<CacheEventHandler<K>>>,
}

impl<K: Object> StoreAndHandlers<K> {
    /// Creates a sink that keeps objects in `store` and calls `handlers`, in order, after each change.
    pub fn new(store: Arc<Store<K>>, handlers: Vec<CacheEventHandler<K>>) -> Self {
        Self { store, handlers: Mutex::new(handlers) }
    }

    /// Changes the store, then calls the handlers with the resulting events.
    fn change(&self, origin: ChangeOrigin, change: impl FnOnce(&Store<K>, &mut Vec<CacheEvent<K>>)) {
        let mut events = Vec::new();
        change(&self.store, &mut events);
        for event in events {
            for handler in self.handlers.lock().iter() {
                handler(&event, origin);
            }
        }
    }
}

impl<K: Object> Sink for StoreAndHandlers<K> {
    type Object = K;
    type Set = Vec<CacheEntry<K>>;

    fn begin_set(&self) -> Self::Set {
        Vec::new()
    }

    fn add_to_set(&self, set: &mut Self::Set, entry: CacheEntry<K>, _origin: ChangeOrigin) {
        set.push(entry);
    }

    fn complete_set(&self, set: Self::Set, version: ResourceVersion, origin: ChangeOrigin) {
        self.change(origin, |store, events| store.replace_all_entries(set, version, events));
    }

    fn put_object(&self, entry: CacheEntry<K>) {
        self.change(ChangeOrigin::Watch, |store, events| store.put_entry(entry, events));
    }

    fn handle_foreign(&self, head: &ObjectHead<'_>) {
        self.change(ChangeOrigin::Watch, |store, events| {
            store.remove_filtered_out_object(head.namespace(), head.name(), head.resource_version(), events);
        });
    }

    fn remove_deleted(&self, last: &Meta) {
        self.change(ChangeOrigin::Watch, |store, events| {
            store.remove_deleted_object(&last.namespace, &last.name, last.resource_version, events);
        });
    }

    fn raise_version(&self, version: ResourceVersion) {
        self.store.raise_version(version);
    }

    fn version(&self) -> ResourceVersion {
        self.store.version()
    }

    fn len(&self) -> usize {
        self.store.len()
    }

    fn replay(&self) {
        self.change(ChangeOrigin::Resync, |store, events| {
            let all = store.all_decoded().into_iter();
            events.extend(all.map(|object| CacheEvent::Updated { old: Arc::clone(&object), new: object }));
        });
    }
}

impl<K: Object> StoreSink for StoreAndHandlers<K> {
    fn store(&self) -> &Arc<Store<K>> {
        &self.store
    }

    fn put_read_object(&self, entry: CacheEntry<K>) {
        self.change(ChangeOrigin::Watch, |store, events| store.put_entry_outside_watch(entry, events));
    }
}
