//! The graph and the queues that its changes fill.

use std::time::Duration;

use common::{
    controller::priority,
    events::{EventType, ObjectRef, Recorder},
    meta::{Uid, Version},
    queue::{Priority, Queue},
    store::{Event, Origin},
};
use parking_lot::Mutex;

use crate::{
    graph::{Graph, Identity, KindId, Work, WrongNamespace},
    key::ObjectKey,
    metrics::ControllerMetrics,
    objects::Partial,
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

    /// A monitor of `kind` has seen a change.
    pub(crate) fn on_event(&self, kind: KindId, event: &Event<Partial>, origin: Origin) {
        self.change(priority(origin), |graph, out| match event {
            Event::Added(object) => graph.put(kind, &object.metadata, None, out),
            Event::Updated { old, new } => graph.put(kind, &new.metadata, Some(&old.metadata), out),
            Event::Deleted(object) => graph.gone(kind, &object.metadata, out),
            // Its metadata is all that is ever read of an object: there are no such.
            Event::Unreadable(_) => {}
        });
    }

    /// The server says that there is no such object.
    pub(crate) fn absent(&self, identity: &Identity) {
        self.change(Priority::Normal, |graph, out| graph.absent(identity, out));
    }

    /// Nothing watches that kind any more.
    pub(crate) fn unwatched(&self, kind: KindId) {
        self.change(Priority::Low, |graph, out| graph.unwatched(kind, out));
    }

    /// Objects are to be looked at.
    pub(crate) fn judge(&self, uids: Vec<Uid>) {
        for uid in uids {
            self.delete.add(ObjectKey(uid), Priority::Normal);
        }
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
            name: found.dependent.name.clone(),
            uid: found.dependent.uid.clone(),
            version: Version::UNKNOWN,
        };
        self.recorder.event(&object, EventType::Warning, "OwnerRefInvalidNamespace", found.message());
    }
}
