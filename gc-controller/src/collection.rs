//! The graph of owners, and the queues for the work that follows from its changes.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use common::{
    controller::priority,
    events::{EventType, Recorder},
    queue::{Priority, Queue},
    store::Origin,
};
use parking_lot::Mutex;

use crate::{
    graph::{Graph, Work, WrongNamespace},
    key::ObjectKey,
    metrics::ControllerMetrics,
    parked::{Awaited, Parked, QueueId},
    place::object_ref,
};

/// The graph and the queues, shared by the monitors and the workers. The lock on the graph is never held across an `await`.
pub(crate) struct Collection {
    pub(crate) graph: Mutex<Graph>,
    pub(crate) delete: Queue<ObjectKey>,
    pub(crate) orphan: Queue<ObjectKey>,
    pub(crate) parked: Parked,
    /// True until this process leads. A standby drops the work that follows from changes: it has no workers, so the keys of
    /// deleted objects would stay in its queues. Changes only under the lock of `graph`.
    stands_by: AtomicBool,
    recorder: Recorder,
    metrics: ControllerMetrics,
}

impl Collection {
    pub(crate) fn new(
        delete: Queue<ObjectKey>,
        orphan: Queue<ObjectKey>,
        recorder: Recorder,
        metrics: ControllerMetrics,
        stands_by: bool,
    ) -> Self {
        let (graph, parked, stands_by) = (Mutex::default(), Parked::default(), AtomicBool::new(stands_by));
        Self { graph, delete, orphan, parked, stands_by, recorder, metrics }
    }

    /// Enqueues all work that follows from the graph. Called when this process becomes the leader.
    pub(crate) async fn take_over(&self) {
        let mut part = 0;
        loop {
            let mut work = Vec::new();
            let more = {
                let graph = self.graph.lock();
                self.stands_by.store(false, Ordering::Release);
                graph.todo(part, &mut work)
            };
            self.ask_for(work, Priority::Low);
            if !more {
                return;
            }
            part += 1;
            tokio::task::yield_now().await;
        }
    }

    /// Enqueues the objects that were parked until `awaited`. Called when this condition has become true.
    pub(crate) fn wake(&self, awaited: &Awaited) {
        for (queue, key) in self.parked.take(awaited) {
            match queue {
                QueueId::Delete => self.delete.add(key, Priority::Low),
                QueueId::Orphan => self.orphan.add(key, Priority::Low),
            }
        }
    }

    /// Applies a change that a monitor reports. The origin of the change determines the priority of the work.
    pub(crate) fn seen(&self, origin: Origin, change: impl FnOnce(&mut Graph, &mut Vec<Work>)) {
        self.change(priority(origin), change);
    }

    /// Changes the graph, and enqueues the resulting work. A standby drops the work.
    pub(crate) fn change(&self, priority: Priority, change: impl FnOnce(&mut Graph, &mut Vec<Work>)) {
        let mut work = Vec::new();
        self.metrics.changes.add();
        self.metrics.changes.get(Duration::ZERO);
        let stands_by = {
            let mut graph = self.graph.lock();
            change(&mut graph, &mut work);
            self.stands_by.load(Ordering::Acquire)
        };
        self.metrics.changes.done(Duration::ZERO);
        if !stands_by {
            self.ask_for(work, priority);
        }
    }

    fn ask_for(&self, work: Vec<Work>, priority: Priority) {
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
        let object = object_ref(&found.dependent, &found.kind);
        self.recorder.event(&object, EventType::Warning, "OwnerRefInvalidNamespace", found.message());
    }
}
