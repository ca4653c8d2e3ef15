//! What one monitor sees, put into the graph as it comes: nothing else keeps it.

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

/// The sink of one resource: its objects go into the graph of owners.
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

/// Objects of a full set count as soon as they are read: they are as they are said to be, whether or not the rest comes.
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

    /// Every object concerns the graph.
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

    /// Nobody asks for it: no monitor is resynced.
    fn replay(&self) {}
}
