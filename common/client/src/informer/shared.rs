//! One cache that several loops of a process share.

use std::sync::Arc;

use crate::{
    api::Api,
    object::Object,
    store::{Event, Origin, Store},
};

use super::{Config, Handler, Informer};

/// A cache of one kind with the handlers of its changes: a process opens one watch, however many of its loops read the cache.
pub struct SharedInformer<K>(Informer<K>);

impl<K: Object> SharedInformer<K> {
    /// Starts watching.
    pub fn start(api: Api, config: Config) -> Self {
        Self(Informer::start(api, config, Vec::new()))
    }

    /// Calls `handler` with every cached object, as for a first list, and with every change from now on.
    pub fn add_handler(&self, handler: Handler<K>) {
        let mut handlers = self.0.sink.handlers.lock();
        for object in self.store().all() {
            handler(&Event::Added(object), Origin::Initial);
        }
        handlers.push(handler);
    }

    /// The informer that keeps the cache up to date.
    pub fn informer(&self) -> &Informer<K> {
        &self.0
    }

    /// The cached objects.
    pub fn store(&self) -> &Arc<Store<K>> {
        self.0.store()
    }
}
