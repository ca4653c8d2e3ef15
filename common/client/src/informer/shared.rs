//! One cache that several loops of a process share.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    api::Api,
    object::Object,
    store::{Event, Origin, Store},
};

use super::{Config, Handler, Informer};

/// A cache of one kind with the handlers of its changes: a process opens one watch, however many of its loops read the cache.
pub struct SharedInformer<K> {
    informer: Informer<K>,
    handlers: Arc<Mutex<Vec<Handler<K>>>>,
}

impl<K: Object> SharedInformer<K> {
    /// Starts watching.
    pub fn start(api: Api, config: Config) -> Self {
        let handlers: Arc<Mutex<Vec<Handler<K>>>> = Arc::default();
        let called = Arc::clone(&handlers);
        let call_all: Handler<K> = Box::new(move |event, origin| {
            for handler in called.lock().iter() {
                handler(event, origin);
            }
        });
        let informer = Informer::start(api, config, vec![call_all]);
        Self { informer, handlers }
    }

    /// Calls `handler` with every cached object, as for a first list, and with every change from now on.
    pub fn add_handler(&self, handler: Handler<K>) {
        let mut handlers = self.handlers.lock();
        for object in self.store().all() {
            handler(&Event::Added(object), Origin::Initial);
        }
        handlers.push(handler);
    }

    /// The informer that keeps the cache up to date.
    pub fn informer(&self) -> &Informer<K> {
        &self.informer
    }

    /// The cached objects.
    pub fn store(&self) -> &Arc<Store<K>> {
        self.informer.store()
    }
}
