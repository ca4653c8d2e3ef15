//! The destination of the objects that an informer reads, and the implementation that keeps whole objects in a store.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    meta::{Meta, Version},
    object::Object,
    store::{Entry, Event, Origin, Store},
};

use super::{Head, StoreSink};

/// Receives the objects that an informer reads.
///
/// [`Cached`] keeps whole objects. Another implementation can keep only the parts that it needs, without a second copy. All
/// calls come from one task, one after the other.
pub trait Sink: Send + Sync + 'static {
    /// Type into which each object is decoded.
    type Object: Object;
    /// A full set of objects while it is being read.
    type Set: Send;

    /// Begins a full set of all objects. An earlier set that was not completed is discarded.
    fn begin(&self) -> Self::Set;
    /// Adds an object to a full set, in its state at the version of the set.
    fn include(&self, set: &mut Self::Set, entry: Entry<Self::Object>, origin: Origin);
    /// Ends a full set that was read at `version`. Objects that are missing in the set no longer exist.
    fn complete(&self, set: Self::Set, version: Version, origin: Origin);
    /// Adds or updates an object. An object that is older than the known one is ignored.
    fn put(&self, entry: Entry<Self::Object>);
    /// Handles the event of an object that does not, or no longer, [concern](Object::CONCERNS) this controller.
    fn foreign(&self, head: &Head<'_>);
    /// Removes a deleted object; `last` is its final state.
    fn gone(&self, last: &Meta);
    /// Records that all events up to `version` were delivered.
    fn bookmark(&self, version: Version);
    /// Returns the newest version that the sink has received.
    fn version(&self) -> Version;
    /// Returns the number of objects in the sink.
    fn len(&self) -> usize;
    /// True if the sink holds no objects.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Passes every object to the handlers again.
    fn replay(&self);
}

/// Function that is called with each change of a cache. It only computes keys and adds them to a queue, so that it is fast.
pub type Handler<K> = Box<dyn Fn(&Event<K>, Origin) + Send + Sync>;

/// Returns a [`Handler`] that calls the method `handle` of `watch`.
pub fn handler<W, K>(watch: &Arc<W>, handle: fn(&W, &Event<K>, Origin)) -> Handler<K>
where
    W: Send + Sync + 'static,
    K: Object,
{
    let watch = Arc::clone(watch);
    Box::new(move |event, origin| handle(&watch, event, origin))
}

/// Sink that keeps objects in a store and calls handlers for each change.
pub struct Cached<K> {
    pub(super) store: Arc<Store<K>>,
    pub(super) handlers: Mutex<Vec<Handler<K>>>,
}

impl<K: Object> Cached<K> {
    /// Creates a sink that keeps objects in `store` and calls `handlers`, in order, after each change.
    pub fn new(store: Arc<Store<K>>, handlers: Vec<Handler<K>>) -> Self {
        Self { store, handlers: Mutex::new(handlers) }
    }

    /// Changes the store, then calls the handlers with the resulting events.
    fn change(&self, origin: Origin, change: impl FnOnce(&Store<K>, &mut Vec<Event<K>>)) {
        let mut events = Vec::new();
        change(&self.store, &mut events);
        for event in events {
            for handler in self.handlers.lock().iter() {
                handler(&event, origin);
            }
        }
    }
}

impl<K: Object> Sink for Cached<K> {
    type Object = K;
    type Set = Vec<Entry<K>>;

    fn begin(&self) -> Self::Set {
        Vec::new()
    }

    fn include(&self, set: &mut Self::Set, entry: Entry<K>, _origin: Origin) {
        set.push(entry);
    }

    fn complete(&self, set: Self::Set, version: Version, origin: Origin) {
        self.change(origin, |store, events| store.replace(set, version, events));
    }

    fn put(&self, entry: Entry<K>) {
        self.change(Origin::Watch, |store, events| store.apply(entry, events));
    }

    fn foreign(&self, head: &Head<'_>) {
        self.change(Origin::Watch, |store, events| {
            store.remove_foreign(head.namespace(), head.name(), head.version(), events);
        });
    }

    fn gone(&self, last: &Meta) {
        self.change(Origin::Watch, |store, events| {
            store.remove(&last.namespace, &last.name, last.resource_version, events);
        });
    }

    fn bookmark(&self, version: Version) {
        self.store.bookmark(version);
    }

    fn version(&self) -> Version {
        self.store.version()
    }

    fn len(&self) -> usize {
        self.store.len()
    }

    fn replay(&self) {
        self.change(Origin::Resync, |store, events| {
            let all = store.all().into_iter();
            events.extend(all.map(|object| Event::Updated { old: Arc::clone(&object), new: object }));
        });
    }
}

impl<K: Object> StoreSink for Cached<K> {
    fn store(&self) -> &Arc<Store<K>> {
        &self.store
    }

    fn put_read(&self, entry: Entry<K>) {
        self.change(Origin::Watch, |store, events| store.apply_read(entry, events));
    }
}
