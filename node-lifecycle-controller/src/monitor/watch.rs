//! Handlers of the caches of Nodes and Pods that fill the queues of the node monitor.

use std::sync::{Arc, Weak};

use common::{
    controller::priority_of_origin,
    informer::method_handler,
    meta::Key,
    object::Object as _,
    queue::Queue,
    store::{CacheEvent, ChangeOrigin},
};
use parking_lot::Mutex;

use super::upkeep::decide::is_upkeep_needed;
use crate::{
    caches::Caches,
    fleet::NodeRecords,
    objects::{CachedPod, Node, NodeName, NodeReady, PodReadyStatus},
};

/// Enqueues the nodes and Pods that an event concerns. The reference to the caches is weak, because the caches own the
/// handlers. The records already contain the new state of a node when the event of the node arrives.
pub(super) struct MonitorHandlers {
    pub(super) fleet: Arc<Mutex<NodeRecords>>,
    pub(super) caches: Weak<Caches>,
    pub(super) node_queue: Queue<Key>,
    pub(super) pod_queue: Queue<Key>,
}

impl MonitorHandlers {
    /// Adds the handlers to the caches of Nodes and Pods.
    pub(super) fn register(self, caches: &Caches) {
        let watch = Arc::new(self);
        caches.nodes.add_handler(method_handler(&watch, Self::on_node));
        caches.pods.add_handler(method_handler(&watch, Self::on_pod));
    }

    fn on_node(&self, event: &CacheEvent<Node>, origin: ChangeOrigin) {
        let (node, was_ready) = match event {
            CacheEvent::Added(node) => (node, true),
            CacheEvent::Updated { old, new } => (new, old.ready_status() == NodeReady::True),
            CacheEvent::Deleted(_) | CacheEvent::Unreadable(_) => return,
        };
        let name = &node.metadata.name;
        let newest = self.fleet.lock().node(name).map(Arc::clone);
        if newest.is_some_and(|node| is_upkeep_needed(&node)) {
            self.node_queue.add(Key::new("", name), priority_of_origin(origin));
        }
        // A failed kubelet cannot mark Pods as not ready, so this program does. A node that is `Unknown` when it is added may
        // have failed while no process was watching.
        if was_ready && node.ready_status() == NodeReady::Unknown {
            self.enqueue_ready_pods(name, origin);
        }
    }

    fn enqueue_ready_pods(&self, node: &NodeName, origin: ChangeOrigin) {
        let Some(caches) = self.caches.upgrade() else { return };
        for pod in caches.view().pods_on_node(node) {
            if pod.ready_status == PodReadyStatus::Other {
                self.pod_queue.add(pod.meta().key(), priority_of_origin(origin));
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
        let ready = self.fleet.lock().node(&pod.node_name).map(|node| node.ready_status());
        let is_new = matches!(origin, ChangeOrigin::Watch | ChangeOrigin::Relist);
        let is_lost = match ready {
            Some(NodeReady::Unknown) => true,
            Some(NodeReady::False | NodeReady::Other) => is_new,
            Some(NodeReady::True | NodeReady::Missing) | None => false,
        };
        if is_lost {
            self.pod_queue.add(pod.meta().key(), priority_of_origin(origin));
        }
    }
}
