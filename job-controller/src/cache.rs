//! The Jobs both loops of a process read: one watch, one cache.

use std::sync::Arc;

use common::{
    api::Api,
    informer::{Config, Handler, Informer},
    store::{Event, Origin, Store, by_namespace},
};
use parking_lot::Mutex;

use crate::objects::Job;

/// Position of the index of Jobs by namespace.
pub(crate) const JOBS_BY_NAMESPACE: usize = 0;

/// The cache of Jobs, and who hears of its changes.
pub struct JobCache {
    informer: Informer<Job>,
    listeners: Arc<Mutex<Vec<Handler<Job>>>>,
}

impl JobCache {
    /// Starts watching.
    pub fn start(api: Api, config: Config) -> Self {
        let listeners: Arc<Mutex<Vec<Handler<Job>>>> = Arc::default();
        let told = Arc::clone(&listeners);
        let tell: Handler<Job> = Box::new(move |event, origin| {
            for listener in told.lock().iter() {
                listener(event, origin);
            }
        });
        Self { informer: Informer::start(api, config, &[by_namespace()], vec![tell]), listeners }
    }

    /// Tells `listener` of every Job there is and of every change from now on.
    pub fn listen(&self, listener: Handler<Job>) {
        let mut listeners = self.listeners.lock();
        for job in self.informer.store().all() {
            listener(&Event::Added(job), Origin::Initial);
        }
        listeners.push(listener);
    }

    /// The watch.
    pub fn informer(&self) -> &Informer<Job> {
        &self.informer
    }

    /// The Jobs.
    pub fn store(&self) -> &Arc<Store<Job>> {
        self.informer.store()
    }
}
