//! The events of Pods and nodes that bring a Pod into the queue.

use std::sync::{Arc, Weak};

use common::{
    controller::priority,
    meta::Key,
    object::Object as _,
    queue::Queue,
    store::{Event, Origin},
};

use crate::{
    caches::Caches,
    objects::{CachedPod, Node},
};

use super::{nodes::NodeViews, timers::Timers};

/// Registers the handlers of both caches.
pub(super) fn register(caches: &Arc<Caches>, queue: &Queue<Key>, timers: &Timers, nodes: &NodeViews) {
    let watch = || Watch {
        queue: queue.clone(),
        caches: Arc::downgrade(caches),
        timers: timers.clone(),
        nodes: Arc::clone(nodes),
    };
    let (of_pods, of_nodes) = (watch(), watch());
    caches.pods.add_handler(Box::new(move |event, origin| of_pods.on_pod(event, origin)));
    caches.nodes.add_handler(Box::new(move |event, origin| of_nodes.on_node(event, origin)));
}

/// Enqueues Pods. Holds the caches weakly, because the caches hold the handlers.
struct Watch {
    queue: Queue<Key>,
    caches: Weak<Caches>,
    timers: Timers,
    nodes: NodeViews,
}

/// The Pods of a node that an event of the node concerns.
enum Concerned {
    All,
    /// Only Pods with a timer: nothing else changes on a node without `NoExecute` taints.
    WithTimer,
}

impl Watch {
    /// Enqueues a Pod that has a timer or whose node has `NoExecute` taints.
    fn on_pod(&self, event: &Event<CachedPod>, origin: Origin) {
        let (pod, is_relevant) = match event {
            Event::Added(pod) | Event::Deleted(pod) => (pod, true),
            Event::Updated { old, new } => (new, old.tolerations != new.tolerations || old.node != new.node),
            Event::Unreadable(_) => return,
        };
        if !is_relevant || pod.node.is_empty() {
            return;
        }
        let key = pod.meta().key();
        let has_timer = self.timers.has(&key);
        let is_tainted = || {
            let node = self.caches.upgrade().and_then(|caches| caches.view().node(&pod.node));
            node.is_some_and(|node| node.evicting().next().is_some())
        };
        if has_timer || is_tainted() {
            self.queue.add(key, priority(origin));
        }
    }

    /// Enqueues the Pods of a node whose `NoExecute` taints changed.
    fn on_node(&self, event: &Event<Node>, origin: Origin) {
        if origin != Origin::Resync {
            self.nodes.lock().forget(&event.meta().name);
        }
        let concerned = match event {
            Event::Added(node) if node.evicting().next().is_some() => Concerned::All,
            // A node that was re-created without its taints ends the timers of its Pods.
            Event::Added(_) => Concerned::WithTimer,
            Event::Updated { old, new } if !old.evicting().eq(new.evicting()) => Concerned::All,
            Event::Updated { .. } | Event::Deleted(_) | Event::Unreadable(_) => return,
        };
        if matches!(concerned, Concerned::WithTimer) && self.timers.is_empty() {
            return;
        }
        let Some(caches) = self.caches.upgrade() else { return };
        for pod in caches.view().pods_of(&event.meta().name) {
            let key = pod.meta().key();
            if matches!(concerned, Concerned::All) || self.timers.has(&key) {
                self.queue.add(key, priority(origin));
            }
        }
    }
}
