//! The graph and the queues that its changes fill.

use std::time::Duration;

use common::{
    controller::priority,
    events::{EventType, ObjectRef, Recorder},
    meta::Version,
    queue::{Priority, Queue},
    store::Origin,
};
use parking_lot::Mutex;

use crate::{
    graph::{Graph, Identity, Source, Work, WrongNamespace},
    key::ObjectKey,
    metrics::ControllerMetrics,
};

/// What monitors and workers share. Nobody waits while holding the graph.
pub(crate) struct Collection {
    pub(crate) graph: Mutex<Graph>,
    pub(crate) delete: Queue<ObjectKey>,
    pub(crate) orphan: Queue<ObjectKey>,
    recorder: Recorder,
    metrics: ControllerMetrics,
}

impl Collection {
    pub(crate) fn new(
        delete: Queue<ObjectKey>,
        orphan: Queue<ObjectKey>,
        recorder: Recorder,
        metrics: ControllerMetrics,
    ) -> Self {
        Self { graph: Mutex::default(), delete, orphan, recorder, metrics }
    }

    /// A monitor has seen something.
    pub(crate) fn seen(&self, origin: Origin, change: impl FnOnce(&mut Graph, &mut Vec<Work>)) {
        self.change(priority(origin), change);
    }

    /// The server says that there is no such object.
    pub(crate) fn absent(&self, identity: &Identity) {
        self.change(Priority::Normal, |graph, out| graph.absent(identity, out));
    }

    /// A monitor is no more.
    pub(crate) fn unwatched(&self, source: Source) {
        self.change(Priority::Low, |graph, out| graph.unwatched(source, out));
    }

    fn change(&self, priority: Priority, change: impl FnOnce(&mut Graph, &mut Vec<Work>)) {
        let mut work = Vec::new();
        self.metrics.changes.add();
        self.metrics.changes.get(Duration::ZERO);
        change(&mut self.graph.lock(), &mut work);
        self.metrics.changes.done(Duration::ZERO);
        for work in work {
            match work {
                Work::Judge(uid) => self.delete.add(ObjectKey(uid), priority),
                Work::JudgeLater(uid) => self.delete.add_rate_limited(ObjectKey(uid)),
                Work::Orphan(uid) => self.orphan.add(ObjectKey(uid), priority),
                Work::Forget(uid) => self.delete.forget(&ObjectKey(uid)),
                Work::WrongNamespace(found) => self.tell(&found),
            }
        }
    }

    fn tell(&self, found: &WrongNamespace) {
        let object = ObjectRef {
            api_version: found.kind.api_version.clone(),
            kind: found.kind.kind.clone(),
            namespace: found.dependent.namespace.clone(),
            name: (&*found.dependent.name).into(),
            uid: found.dependent.uid.clone(),
            version: Version::UNKNOWN,
        };
        self.recorder.event(&object, EventType::Warning, "OwnerRefInvalidNamespace", found.message());
    }
}
