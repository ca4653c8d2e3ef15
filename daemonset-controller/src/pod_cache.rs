//! The cache of Pods, which changes together with the node indexes (the nodes and Pods of each DaemonSet).

use std::sync::Arc;

use common::{
    informer::{ObjectHead, Sink, StoreAndHandlers, StoreSink},
    prelude::*,
    store::CacheEntry,
};

use crate::{node_indexes::NodeIndexes, objects::CachedPod};

/// A cache of Pods. Readers see a change of the cache and its effects on the node indexes at the same time.
pub(crate) struct PodCache {
    pub(crate) store_sink: StoreAndHandlers<CachedPod>,
    pub(crate) node_indexes: Arc<NodeIndexes>,
}

impl Sink for PodCache {
    type Object = CachedPod;
    type Set = Vec<CacheEntry<CachedPod>>;

    fn begin_set(&self) -> Self::Set {
        self.store_sink.begin_set()
    }

    fn add_to_set(&self, set: &mut Self::Set, entry: CacheEntry<CachedPod>, origin: ChangeOrigin) {
        self.store_sink.add_to_set(set, entry, origin);
    }

    fn complete_set(&self, set: Self::Set, version: ResourceVersion, origin: ChangeOrigin) {
        self.node_indexes.with_locked_pods(|| self.store_sink.complete_set(set, version, origin));
    }

    fn put_object(&self, entry: CacheEntry<CachedPod>) {
        self.node_indexes.with_locked_pods(|| self.store_sink.put_object(entry));
    }

    fn handle_foreign(&self, head: &ObjectHead<'_>) {
        self.node_indexes.with_locked_pods(|| self.store_sink.handle_foreign(head));
    }

    fn remove_deleted(&self, last: &Meta) {
        self.node_indexes.with_locked_pods(|| self.store_sink.remove_deleted(last));
    }

    fn raise_version(&self, version: ResourceVersion) {
        self.store_sink.raise_version(version);
    }

    fn version(&self) -> ResourceVersion {
        self.store_sink.version()
    }

    fn len(&self) -> usize {
        self.store_sink.len()
    }

    fn replay(&self) {
        self.node_indexes.with_locked_pods(|| self.store_sink.replay());
    }
}

impl StoreSink for PodCache {
    fn store(&self) -> &Arc<Store<CachedPod>> {
        self.store_sink.store()
    }

    fn put_read_object(&self, entry: CacheEntry<CachedPod>) {
        self.node_indexes.with_locked_pods(|| self.store_sink.put_read_object(entry));
    }
}
