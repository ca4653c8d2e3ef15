//! Where what an informer reads goes.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    meta::{Meta, Version},
    object::Object,
    store::{Entry, Event, Origin, Store},
};

use super::{Head, StoreSink};

/// What keeps what an informer reads.
///
/// [`Cached`] keeps whole objects. Who needs less of them, or keeps it anyway, implements this and saves the second copy.
/// Calls come one after the other, from one task.
pub trait Sink: Send + Sync + 'static {
    /// What is read of an object.
    type Object: Object;
    /// A full set while it is being read.
    type Set: Send;

    /// A full set begins. One that began before and was not completed is forgotten.
    fn begin(&self) -> Self::Set;
    /// An object of the full set, as it is at the version of the set.
    fn include(&self, set: &mut Self::Set, entry: Entry<Self::Object>, origin: Origin);
    /// The full set was read at `version`: what it does not include is gone.
    fn complete(&self, set: Self::Set, version: Version, origin: Origin);
    /// An object came or changed. A state older than what is known is ignored.
    fn put(&self, entry: Entry<Self::Object>);
    /// An object came or changed that does not [concern](Object::CONCERNS) this controller.
    fn foreign(&self, head: &Head<'_>);
    /// An object is gone; `last` is its final state.
    fn gone(&self, last: &Meta);
    /// Everything up to this version has been seen.
    fn bookmark(&self, version: Version);
    /// The newest version that was seen.
    fn version(&self) -> Version;
    /// How many objects there are.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Tells of everything again.
    fn replay(&self);
}

/// A reaction to a change. Must be quick: it computes keys and adds them to a queue.
pub type Handler<K> = Box<dyn Fn(&Event<K>, Origin) + Send + Sync>;

/// The method `handle` of a watch as a handler.
pub fn handler<W, K>(watch: &Arc<W>, handle: fn(&W, &Event<K>, Origin)) -> Handler<K>
where
    W: Send + Sync + 'static,
    K: Object,
{
    let watch = Arc::clone(watch);
    Box::new(move |event, origin| handle(&watch, event, origin))
}

/// A store, and those who hear of its changes.
pub struct Cached<K> {
    pub(super) store: Arc<Store<K>>,
    pub(super) handlers: Mutex<Vec<Handler<K>>>,
}

impl<K: Object> Cached<K> {
    /// Keeps objects in `store`, and calls `handlers` after each change, in their order.
    pub fn new(store: Arc<Store<K>>, handlers: Vec<Handler<K>>) -> Self {
        Self { store, handlers: Mutex::new(handlers) }
    }

    /// Changes the store, then tells of what that changed.
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
