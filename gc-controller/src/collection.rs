//! The graph of owners, and the queues for the work that follows from its changes.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use common::{
    controller::events::{EventRecorder, EventType},
    queue::{Priority, Queue},
    store::ChangeOrigin,
};
use parking_lot::Mutex;

use crate::{
    graph::{CrossNamespaceReference, Graph, Work},
    key::ObjectKey,
    metrics::ControllerMetrics,
    parked::{ParkedObjects, QueueId, WaitCondition},
    place::event_reference,
};

/// The graph and the queues, shared by the monitors and the workers. The lock on the graph is never held across an `await`.
pub(crate) struct CollectorState {
    pub(crate) graph: Mutex<Graph>,
    pub(crate) delete_queue: Queue<ObjectKey>,
    pub(crate) orphan_queue: Queue<ObjectKey>,
    pub(crate) parked_objects: ParkedObjects,
    /// True until this process leads. A standby drops the work that follows from changes, because it has no workers, and the
    /// keys of deleted objects would remain in its queues. Written only under the lock of `graph`.
    is_standby: AtomicBool,
    recorder: EventRecorder,
    metrics: ControllerMetrics,
}

impl CollectorState {
    pub(crate) fn new(
        delete: Queue<ObjectKey>,
        orphan: Queue<ObjectKey>,
        recorder: EventRecorder,
        metrics: ControllerMetrics,
        stands_by: bool,
    ) -> Self {
        let (graph, parked, stands_by) = (Mutex::default(), ParkedObjects::default(), AtomicBool::new(stands_by));
        Self {
            graph,
            delete_queue: delete,
            orphan_queue: orphan,
            parked_objects: parked,
            is_standby: stands_by,
            recorder,
            metrics,
        }
    }

    /// Enqueues all pending work, which is derived from the graph. Called when this process becomes the leader.
    pub(crate) async fn take_over(&self) {
        let mut part = 0;
        loop {
            let mut work = Vec::new();
            let more = {
                let graph = self.graph.lock();
                self.is_standby.store(false, Ordering::Release);
                graph.add_pending_work(part, &mut work)
            };
            self.enqueue_work(work, Priority::Low);
            if !more {
                return;
            }
            part += 1;
            tokio::task::yield_now().await;
        }
    }

    /// Enqueues the parked objects that wait for `awaited`. Called when this wait condition has become true.
    pub(crate) fn enqueue_parked_objects(&self, awaited: &WaitCondition) {
        for (queue, key) in self.parked_objects.take_objects_waiting_for(awaited) {
            match queue {
                QueueId::Delete => self.delete_queue.add(key, Priority::Low),
                QueueId::Orphan => self.orphan_queue.add(key, Priority::Low),
            }
        }
    }

    /// Applies a change that a monitor reports. The origin of the change determines the priority of the work.
    pub(crate) fn apply_monitor_change(&self, origin: ChangeOrigin, change: impl FnOnce(&mut Graph, &mut Vec<Work>)) {
        self.apply_change(origin, change);
    }

    /// Changes the graph, and enqueues the resulting work. A standby drops the work.
    pub(crate) fn apply_change(&self, priority: Priority, change: impl FnOnce(&mut Graph, &mut Vec<Work>)) {
        let mut work = Vec::new();
        self.metrics.graph_change_metrics.count_added_key();
        self.metrics.graph_change_metrics.record_queue_time(Duration::ZERO);
        let stands_by = {
            let mut graph = self.graph.lock();
            change(&mut graph, &mut work);
            self.is_standby.load(Ordering::Acquire)
        };
        self.metrics.graph_change_metrics.record_work_time(Duration::ZERO);
        if !stands_by {
            self.enqueue_work(work, priority);
        }
    }

    fn enqueue_work(&self, work: Vec<Work>, priority: Priority) {
        for work in work {
            match work {
                Work::CheckOwners(uid) => self.delete_queue.add(ObjectKey(uid), priority),
                Work::CheckOwnersAfterBackoff(uid) => self.delete_queue.add_rate_limited(ObjectKey(uid)),
                Work::Orphan(uid) => self.orphan_queue.add(ObjectKey(uid), priority),
                Work::ResetBackoff(uid) => self.delete_queue.reset_failure_count(&ObjectKey(uid)),
                Work::CrossNamespaceReference(found) => self.report_wrong_namespace(&found),
            }
        }
    }

    fn report_wrong_namespace(&self, found: &CrossNamespaceReference) {
        let object = event_reference(&found.dependent, &found.dependent_kind);
        self.recorder.record_event(&object, EventType::Warning, "OwnerRefInvalidNamespace", found.message());
    }
}
