//! One cache that several loops of a process share.

use std::sync::Arc;

use crate::{
    api::Api,
    object::Object,
    store::{CacheEvent, ChangeOrigin, Store},
};

use super::{AnyInformer, CacheEventHandler, Informer, InformerConfig};

/// A cache of one kind with one watch, which any number of loops read. Each loop adds a handler.
pub struct SharedInformer<K>(Informer<K>);

impl<K: Object> SharedInformer<K> {
    /// Starts to list and watch. [`Self::add_handler`] adds the handlers.
    pub fn start(api: Api, config: InformerConfig) -> Self {
        Self(Informer::start(api, config, Vec::new()))
    }

    /// Adds a handler, and calls it before the return with every cached object, in the same way as after the first list.
    pub fn add_handler(&self, handler: CacheEventHandler<K>) {
        let mut handlers = self.0.sink.handlers.lock();
        for object in self.store().all_decoded() {
            handler(&CacheEvent::Added(object), ChangeOrigin::Initial);
        }
        handlers.push(handler);
    }

    /// Returns the informer that keeps the cache up to date.
    pub fn informer(&self) -> &Informer<K> {
        &self.0
    }

    /// Returns the store with the cached objects.
    pub fn store(&self) -> &Arc<Store<K>> {
        self.0.store()
    }
}

impl<K: Object> AsRef<dyn AnyInformer> for SharedInformer<K> {
    fn as_ref(&self) -> &(dyn AnyInformer + 'static) {
        &self.0
    }
}
