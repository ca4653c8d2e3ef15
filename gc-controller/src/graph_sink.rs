//! The sink of a monitor: puts each object into the graph of owners as it arrives, and keeps no copy.

#[cfg(test)]
mod guards;

use std::sync::Arc;

use common::{
    informer::{Head, Sink},
    meta::{Meta, Version},
    store::{Entry, Origin},
};
use parking_lot::Mutex;

use crate::{
    collection::Collection,
    graph::{Seen, Source},
    objects::Partial,
};

/// The destination of the objects of one monitor: puts them into the graph of owners.
pub(crate) struct GraphSink {
    collection: Arc<Collection>,
    source: Source,
    version: Mutex<Version>,
}

impl GraphSink {
    pub(crate) fn new(collection: Arc<Collection>, source: Source) -> Self {
        Self { collection, source, version: Mutex::default() }
    }

    fn at_least(&self, version: Version) {
        let mut known = self.version.lock();
        *known = version.max(*known);
    }
}

/// Each object of a full set is applied when it is read: its metadata is valid even if the rest of the set never arrives.
impl Sink for GraphSink {
    type Object = Partial;
    type Set = Seen;

    fn begin(&self) -> Seen {
        self.collection.graph.lock().begin(self.source)
    }

    fn include(&self, seen: &mut Seen, entry: Entry<Partial>, origin: Origin) {
        self.collection.seen(origin, |graph, out| graph.include(seen, entry.meta(), out));
    }

    fn complete(&self, seen: Seen, version: Version, origin: Origin) {
        self.collection.seen(origin, |graph, out| graph.complete(&seen, out));
        *self.version.lock() = version;
    }

    fn put(&self, entry: Entry<Partial>) {
        self.collection.seen(Origin::Watch, |graph, out| graph.put(self.source, entry.meta(), out));
        self.at_least(entry.meta().resource_version);
    }

    /// Records only the version. The graph needs every object, so no object is skipped.
    fn foreign(&self, head: &Head<'_>) {
        self.at_least(head.version());
    }

    fn gone(&self, last: &Meta) {
        self.collection.seen(Origin::Watch, |graph, out| graph.gone(self.source, last, out));
        self.at_least(last.resource_version);
    }

    fn bookmark(&self, version: Version) {
        self.at_least(version);
    }

    fn version(&self) -> Version {
        *self.version.lock()
    }

    fn len(&self) -> usize {
        self.collection.graph.lock().objects_of(self.source)
    }

    /// Does nothing, because monitors are never resynced.
    fn replay(&self) {}
}
