//! Handles changes of Pods and nodes by enqueuing Pods.

use std::sync::{Arc, Weak};

use common::{
    controller::priority,
    informer::handler,
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

/// Registers handlers on the caches of Pods and nodes.
pub(super) fn register(caches: &Arc<Caches>, queue: &Queue<Key>, timers: &Timers, nodes: &NodeViews) {
    let watch = Arc::new(Watch {
        queue: queue.clone(),
        caches: Arc::downgrade(caches),
        timers: timers.clone(),
        nodes: Arc::clone(nodes),
    });
    caches.pods.add_handler(handler(&watch, Watch::on_pod));
    caches.nodes.add_handler(handler(&watch, Watch::on_node));
}

/// Receives changes and enqueues Pods. The reference to the caches is weak, because the caches own their handlers.
struct Watch {
    queue: Queue<Key>,
    caches: Weak<Caches>,
    timers: Timers,
    nodes: NodeViews,
}

impl Watch {
    /// Enqueues a changed Pod if it has a timer or if its node has `NoExecute` taints.
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

    /// Enqueues the Pods of a node with changed `NoExecute` taints. For an added node without such taints, enqueues only Pods
    /// with a timer: the node may have been re-created without its taints.
    fn on_node(&self, event: &Event<Node>, origin: Origin) {
        if origin != Origin::Resync {
            self.nodes.lock().forget(&event.meta().name);
        }
        let concerns_all = match event {
            Event::Added(node) => node.evicting().next().is_some(),
            Event::Updated { old, new } if !old.evicting().eq(new.evicting()) => true,
            Event::Updated { .. } | Event::Deleted(_) | Event::Unreadable(_) => return,
        };
        if !concerns_all && self.timers.is_empty() {
            return;
        }
        let Some(caches) = self.caches.upgrade() else { return };
        for pod in caches.view().pods_of(&event.meta().name) {
            let key = pod.meta().key();
            if concerns_all || self.timers.has(&key) {
                self.queue.add(key, priority(origin));
            }
        }
    }
}
