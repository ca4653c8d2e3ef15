//! The cache of Pods, which changes together with the rosters (the nodes and Pods of each DaemonSet).

use std::sync::Arc;

use common::{
    informer::{Cached, Head, Sink, StoreSink},
    meta::{Meta, Version},
    store::{Entry, Origin, Store},
};

use crate::{objects::CachedPod, rosters::Rosters};

/// A cache of Pods. Readers see a change of the cache and its effects on the rosters at the same time.
pub(crate) struct PodCache {
    pub(crate) cached: Cached<CachedPod>,
    pub(crate) rosters: Arc<Rosters>,
}

impl Sink for PodCache {
    type Object = CachedPod;
    type Set = Vec<Entry<CachedPod>>;

    fn begin(&self) -> Self::Set {
        self.cached.begin()
    }

    fn include(&self, set: &mut Self::Set, entry: Entry<CachedPod>, origin: Origin) {
        self.cached.include(set, entry, origin);
    }

    fn complete(&self, set: Self::Set, version: Version, origin: Origin) {
        self.rosters.change(|| self.cached.complete(set, version, origin));
    }

    fn put(&self, entry: Entry<CachedPod>) {
        self.rosters.change(|| self.cached.put(entry));
    }

    fn foreign(&self, head: &Head<'_>) {
        self.rosters.change(|| self.cached.foreign(head));
    }

    fn gone(&self, last: &Meta) {
        self.rosters.change(|| self.cached.gone(last));
    }

    fn bookmark(&self, version: Version) {
        self.cached.bookmark(version);
    }

    fn version(&self) -> Version {
        self.cached.version()
    }

    fn len(&self) -> usize {
        self.cached.len()
    }

    fn replay(&self) {
        self.rosters.change(|| self.cached.replay());
    }
}

impl StoreSink for PodCache {
    fn store(&self) -> &Arc<Store<CachedPod>> {
        self.cached.store()
    }

    fn put_read(&self, entry: Entry<CachedPod>) {
        self.rosters.change(|| self.cached.put_read(entry));
    }
}
