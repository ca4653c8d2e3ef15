//! The graph of owners, and the queues for the work that follows from its changes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use common::{gate::WriteGate, prelude::*};
use parking_lot::Mutex;

use crate::{
    graph::{Graph, Work},
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
    pub(crate) metrics: ControllerMetrics,
}

impl CollectorState {
    pub(crate) fn new(
        [delete_queue, orphan_queue]: [Queue<ObjectKey>; 2],
        recorder: EventRecorder,
        metrics: ControllerMetrics,
        is_standby: bool,
    ) -> Self {
        let (graph, parked_objects) = (Mutex::default(), ParkedObjects::default());
        let is_standby = AtomicBool::new(is_standby);
        Self { graph, delete_queue, orphan_queue, parked_objects, is_standby, recorder, metrics }
    }

    /// Waits until this process becomes the leader, then enqueues all pending work, which is derived from the graph.
    pub(crate) async fn take_over(self: Arc<Self>, write_gate: WriteGate) {
        write_gate.wait_until_leading().await;
        for part in 0.. {
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
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn enqueue_parked_objects(&self, condition: &WaitCondition) {
        for (queue_id, key) in self.parked_objects.take_objects_waiting_for(condition) {
            match queue_id {
                QueueId::Delete => self.delete_queue.add(key, Priority::Low),
                QueueId::Orphan => self.orphan_queue.add(key, Priority::Low),
            }
        }
    }

    /// Changes the graph, and enqueues the resulting work with this priority, or with the priority of this origin. A standby drops
    /// the work.
    pub(crate) fn apply_change(&self, priority: impl Into<Priority>, change: impl FnOnce(&mut Graph, &mut Vec<Work>)) {
        let mut work = Vec::new();
        self.metrics.graph_change_metrics.count_added_key();
        self.metrics.graph_change_metrics.record_queue_time(Duration::ZERO);
        let is_standby = {
            let mut graph = self.graph.lock();
            change(&mut graph, &mut work);
            self.is_standby.load(Ordering::Acquire)
        };
        self.metrics.graph_change_metrics.record_work_time(Duration::ZERO);
        if !is_standby {
            self.enqueue_work(work, priority.into());
        }
    }

    fn enqueue_work(&self, work: Vec<Work>, priority: Priority) {
        for work in work {
            match work {
                Work::CheckOwners(uid) => self.delete_queue.add(ObjectKey(uid), priority),
                Work::CheckOwnersAfterBackoff(uid) => self.delete_queue.add_rate_limited(ObjectKey(uid)),
                Work::Orphan(uid) => self.orphan_queue.add(ObjectKey(uid), priority),
                Work::ResetBackoff(uid) => self.delete_queue.reset_failure_count(&ObjectKey(uid)),
                Work::CrossNamespaceReference(reference) => {
                    let object = event_reference(&reference.dependent, &reference.dependent_kind);
                    let message = reference.message();
                    self.recorder.record_event(&object, EventType::Warning, "OwnerRefInvalidNamespace", message);
                }
            }
        }
    }
}
