//! Handlers of the caches of Nodes and Pods that fill the queues of the node monitor.

use std::sync::{Arc, Weak};

use common::{
    controller::informer::handler_from_method,
    meta::NamespacedName,
    object::Object as _,
    queue::Queue,
    store::{CacheEvent, ChangeOrigin},
};
use parking_lot::Mutex;

use super::taints_and_labels::decide::needs_taint_or_label_change;
use crate::{
    caches::Caches,
    node_records::NodeRecords,
    objects::{CachedPod, Node, NodeName, NodeReadyStatus, PodReadyStatus},
};

/// Enqueues the nodes and Pods that an event concerns. The reference to the caches is weak, because the caches own the
/// handlers. The records already contain the new state of a node when the event of the node arrives.
pub(super) struct MonitorHandlers {
    pub(super) node_records: Arc<Mutex<NodeRecords>>,
    pub(super) caches: Weak<Caches>,
    pub(super) node_queue: Queue<NamespacedName>,
    pub(super) pod_queue: Queue<NamespacedName>,
}

impl MonitorHandlers {
    /// Adds the handlers to the caches of Nodes and Pods.
    pub(super) fn register(self, caches: &Caches) {
        let watch = Arc::new(self);
        caches.node_informer.add_handler(handler_from_method(&watch, Self::on_node));
        caches.pod_informer.add_handler(handler_from_method(&watch, Self::on_pod));
    }

    fn on_node(&self, event: &CacheEvent<Node>, origin: ChangeOrigin) {
        let (node, was_ready) = match event {
            CacheEvent::Added(node) => (node, true),
            CacheEvent::Updated { old, new } => (new, old.ready_status() == NodeReadyStatus::True),
            CacheEvent::Deleted(_) | CacheEvent::Unreadable(_) => return,
        };
        let name = &node.metadata.name;
        let newest = self.node_records.lock().node(name).map(Arc::clone);
        if newest.is_some_and(|node| needs_taint_or_label_change(&node)) {
            self.node_queue.add(NamespacedName::new("", name), origin);
        }
        // A failed kubelet cannot mark Pods as not ready, so this program does. A node that is `Unknown` when it is added may
        // have failed while no process was watching.
        if was_ready && node.ready_status() == NodeReadyStatus::Unknown {
            self.enqueue_ready_pods(name, origin);
        }
    }

    fn enqueue_ready_pods(&self, node: &NodeName, origin: ChangeOrigin) {
        let Some(caches) = self.caches.upgrade() else { return };
        for pod in caches.cache_view().pods_on_node(node) {
            if pod.ready_status == PodReadyStatus::Other {
                self.pod_queue.add(pod.meta().key(), origin);
            }
        }
    }

    /// Enqueues a Pod that was assigned to a node that is not ready. A Pod that existed before this process started is enqueued
    /// only if its node is `Unknown`; on other nodes, the kubelet keeps the condition of the Pod up to date.
    fn on_pod(&self, event: &CacheEvent<CachedPod>, origin: ChangeOrigin) {
        let pod = match event {
            CacheEvent::Added(pod) => pod,
            CacheEvent::Updated { old, new } if old.node_name != new.node_name => new,
            _ => return,
        };
        if pod.node_name.is_empty() {
            return;
        }
        let ready = self.node_records.lock().node(&pod.node_name).map(|node| node.ready_status());
        let is_new = matches!(origin, ChangeOrigin::Watch | ChangeOrigin::Relist);
        let is_lost = match ready {
            Some(NodeReadyStatus::Unknown) => true,
            Some(NodeReadyStatus::False | NodeReadyStatus::Other) => is_new,
            Some(NodeReadyStatus::True | NodeReadyStatus::Missing) | None => false,
        };
        if is_lost {
            self.pod_queue.add(pod.meta().key(), origin);
        }
    }
}
