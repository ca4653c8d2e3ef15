//! The sink of a monitor: puts each object into the graph of owners as it arrives, and keeps no copy.

#[cfg(test)]
mod guards;

use std::sync::Arc;

use common::{
    informer::{ObjectHead, Sink},
    partial_object::PartialObject,
    prelude::*,
    store::CacheEntry,
};
use parking_lot::Mutex;

use crate::{
    collection::CollectorState,
    graph::{ListedObjects, MonitorId},
};

pub(crate) struct GraphSink {
    collector_state: Arc<CollectorState>,
    pub(crate) monitor_id: MonitorId,
    version: Mutex<ResourceVersion>,
}

impl GraphSink {
    pub(crate) fn new(collector_state: Arc<CollectorState>, monitor_id: MonitorId) -> Self {
        Self { collector_state, monitor_id, version: Mutex::default() }
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
        self.collector_state.graph.lock().begin_list(self.monitor_id)
    }

    fn add_to_set(&self, listed_objects: &mut ListedObjects, entry: CacheEntry<PartialObject>, origin: ChangeOrigin) {
        self.collector_state
            .apply_change(origin, |graph, work| graph.apply_listed_object(listed_objects, entry.meta(), work));
    }

    fn complete_set(&self, listed_objects: ListedObjects, version: ResourceVersion, origin: ChangeOrigin) {
        self.collector_state.apply_change(origin, |graph, work| graph.complete_list(&listed_objects, work));
        *self.version.lock() = version;
    }

    fn put_object(&self, entry: CacheEntry<PartialObject>) {
        self.collector_state
            .apply_change(ChangeOrigin::Watch, |graph, work| graph.apply_object(self.monitor_id, entry.meta(), work));
        self.advance_version(entry.meta().resource_version);
    }

    /// Only advances the version. The graph needs every object, so no object is foreign (skipped by the informer).
    fn handle_foreign(&self, head: &ObjectHead<'_>) {
        self.advance_version(head.resource_version());
    }

    fn remove_deleted(&self, last: &Meta) {
        self.collector_state
            .apply_change(ChangeOrigin::Watch, |graph, work| graph.apply_deletion(self.monitor_id, last, work));
        self.advance_version(last.resource_version);
    }

    fn raise_version(&self, version: ResourceVersion) {
        self.advance_version(version);
    }

    fn version(&self) -> ResourceVersion {
        *self.version.lock()
    }

    fn len(&self) -> usize {
        self.collector_state.graph.lock().object_count(self.monitor_id)
    }

    /// Does nothing, because monitors are never resynced.
    fn replay(&self) {}
}
