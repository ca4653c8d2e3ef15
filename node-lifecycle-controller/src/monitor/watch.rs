//! Handlers of the caches of Nodes and Pods that fill the queues of the node monitor.

use std::sync::{Arc, Weak};

use common::{
    controller::priority,
    informer::handler,
    meta::Key,
    object::Object as _,
    queue::Queue,
    store::{Event, Origin},
};
use parking_lot::Mutex;

use super::upkeep::decide::is_needed;
use crate::{
    caches::Caches,
    fleet::Fleet,
    objects::{CachedPod, Name, Node, NodeReady, ReadyCondition},
};

/// Enqueues the nodes and Pods that an event concerns. The reference to the caches is weak, because the caches own the
/// handlers. `fleet` already contains the new state of a node when the event of the node arrives.
pub(super) struct Watch {
    pub(super) fleet: Arc<Mutex<Fleet>>,
    pub(super) caches: Weak<Caches>,
    pub(super) nodes: Queue<Key>,
    pub(super) pods: Queue<Key>,
}

impl Watch {
    /// Adds the handlers to the caches of Nodes and Pods.
    pub(super) fn register(self, caches: &Caches) {
        let watch = Arc::new(self);
        caches.nodes.add_handler(handler(&watch, Self::on_node));
        caches.pods.add_handler(handler(&watch, Self::on_pod));
    }

    fn on_node(&self, event: &Event<Node>, origin: Origin) {
        let (node, was_ready) = match event {
            Event::Added(node) => (node, true),
            Event::Updated { old, new } => (new, old.ready() == NodeReady::True),
            Event::Deleted(_) | Event::Unreadable(_) => return,
        };
        let name = &node.metadata.name;
        let newest = self.fleet.lock().node(name).map(Arc::clone);
        if newest.is_some_and(|node| is_needed(&node)) {
            self.nodes.add(Key::new("", name), priority(origin));
        }
        // The kubelet of a silent node cannot mark Pods as not ready, so this program does. A node that is `Unknown` when it is
        // added may have become silent while no process was watching.
        if was_ready && node.ready() == NodeReady::Unknown {
            self.mark_pods(name, origin);
        }
    }

    fn mark_pods(&self, node: &Name, origin: Origin) {
        let Some(caches) = self.caches.upgrade() else { return };
        for pod in caches.view().pods_of(node) {
            if pod.ready == ReadyCondition::Other {
                self.pods.add(pod.meta().key(), priority(origin));
            }
        }
    }

    /// Enqueues a Pod that was assigned to a node that is not ready. A Pod that existed before this process started is enqueued
    /// only if its node is `Unknown`; on other nodes, the kubelet keeps the condition of the Pod up to date.
    fn on_pod(&self, event: &Event<CachedPod>, origin: Origin) {
        let pod = match event {
            Event::Added(pod) => pod,
            Event::Updated { old, new } if old.node != new.node => new,
            _ => return,
        };
        if pod.node.is_empty() {
            return;
        }
        let ready = self.fleet.lock().node(&pod.node).map(|node| node.ready());
        let is_new = matches!(origin, Origin::Watch | Origin::Relist);
        let is_lost = match ready {
            Some(NodeReady::Unknown) => true,
            Some(NodeReady::False | NodeReady::Other) => is_new,
            Some(NodeReady::True | NodeReady::Absent) | None => false,
        };
        if is_lost {
            self.pods.add(pod.meta().key(), priority(origin));
        }
    }
}
