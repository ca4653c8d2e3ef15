//! The sink of a monitor: puts each object into the graph of owners as it arrives, and keeps no copy.

#[cfg(test)]
mod guards;

use std::sync::Arc;

use common::{
    informer::{ObjectHead, Sink},
    meta::{Meta, ResourceVersion},
    store::{CacheEntry, ChangeOrigin},
};
use parking_lot::Mutex;

use crate::{
    collection::CollectorState,
    graph::{ListedObjects, MonitorId},
    objects::PartialObject,
};

/// The destination of the objects of one monitor: puts them into the graph of owners.
pub(crate) struct GraphSink {
    collection: Arc<CollectorState>,
    source: MonitorId,
    version: Mutex<ResourceVersion>,
}

impl GraphSink {
    pub(crate) fn new(collection: Arc<CollectorState>, source: MonitorId) -> Self {
        Self { collection, source, version: Mutex::default() }
    }

    fn advance_version(&self, version: ResourceVersion) {
        let mut known = self.version.lock();
        *known = version.max(*known);
    }
}

/// Each object of a list is applied when it is read, because its metadata is valid even if the rest of the list never arrives.
impl Sink for GraphSink {
    type Object = PartialObject;
    type Set = ListedObjects;

    fn begin_set(&self) -> ListedObjects {
        self.collection.graph.lock().begin_list(self.source)
    }

    fn add_to_set(&self, seen: &mut ListedObjects, entry: CacheEntry<PartialObject>, origin: ChangeOrigin) {
        self.collection.apply_monitor_change(origin, |graph, out| graph.apply_listed_object(seen, entry.meta(), out));
    }

    fn complete_set(&self, seen: ListedObjects, version: ResourceVersion, origin: ChangeOrigin) {
        self.collection.apply_monitor_change(origin, |graph, out| graph.complete_list(&seen, out));
        *self.version.lock() = version;
    }

    fn put_object(&self, entry: CacheEntry<PartialObject>) {
        self.collection
            .apply_monitor_change(ChangeOrigin::Watch, |graph, out| graph.apply_object(self.source, entry.meta(), out));
        self.advance_version(entry.meta().resource_version);
    }

    /// Only advances the version. The graph needs every object, so no object is foreign (skipped by the informer).
    fn handle_foreign(&self, head: &ObjectHead<'_>) {
        self.advance_version(head.resource_version());
    }

    fn remove_deleted(&self, last: &Meta) {
        self.collection
            .apply_monitor_change(ChangeOrigin::Watch, |graph, out| graph.apply_deletion(self.source, last, out));
        self.advance_version(last.resource_version);
    }

    fn raise_version(&self, version: ResourceVersion) {
        self.advance_version(version);
    }

    fn version(&self) -> ResourceVersion {
        *self.version.lock()
    }

    fn len(&self) -> usize {
        self.collection.graph.lock().object_count(self.source)
    }

    /// Does nothing, because monitors are never resynced.
    fn replay(&self) {}
}
