//! One cache that several loops of a process hear of.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    api::Api,
    object::Object,
    store::{Event, Origin, Store},
};

use super::{Config, Handler, Informer};

/// A cache of a kind, and who hears of its changes: one watch, however many loops of a process read it.
pub struct Listened<K> {
    informer: Informer<K>,
    listeners: Arc<Mutex<Vec<Handler<K>>>>,
}

impl<K: Object> Listened<K> {
    /// Starts watching.
    pub fn start(api: Api, config: Config) -> Self {
        let listeners: Arc<Mutex<Vec<Handler<K>>>> = Arc::default();
        let told = Arc::clone(&listeners);
        let tell: Handler<K> = Box::new(move |event, origin| {
            for listener in told.lock().iter() {
                listener(event, origin);
            }
        });
        let informer = Informer::start(api, config, vec![tell]);
        Self { informer, listeners }
    }

    /// Tells `listener` of everything there is, as of a first set, and of every change from now on.
    pub fn listen(&self, listener: Handler<K>) {
        let mut listeners = self.listeners.lock();
        for object in self.store().all() {
            listener(&Event::Added(object), Origin::Initial);
        }
        listeners.push(listener);
    }

    /// The watch.
    pub fn informer(&self) -> &Informer<K> {
        &self.informer
    }

    /// The objects.
    pub fn store(&self) -> &Arc<Store<K>> {
        self.informer.store()
    }
}
