//! Handles changes of Pods and nodes by enqueuing Pods.

use std::sync::{Arc, Weak};

use common::{
    controller::informer::handler_from_method,
    meta::NamespacedName,
    object::Object as _,
    queue::Queue,
    store::{CacheEvent, ChangeOrigin},
};

use crate::{
    caches::Caches,
    objects::{CachedPod, Node},
};

use super::{nodes::SharedNodeReads, timers::DeletionTimers};

/// Registers handlers on the caches of Pods and nodes.
pub(super) fn register_handlers(
    caches: &Arc<Caches>,
    queue: &Queue<NamespacedName>,
    timers: &DeletionTimers,
    nodes: &SharedNodeReads,
) {
    let watch = Arc::new(EvictionHandlers {
        queue: queue.clone(),
        caches: Arc::downgrade(caches),
        timers: timers.clone(),
        node_reads: Arc::clone(nodes),
    });
    caches.pod_informer.add_handler(handler_from_method(&watch, EvictionHandlers::on_pod));
    caches.node_informer.add_handler(handler_from_method(&watch, EvictionHandlers::on_node));
}

/// Receives changes and enqueues Pods. The reference to the caches is weak, because the caches own their handlers.
struct EvictionHandlers {
    queue: Queue<NamespacedName>,
    caches: Weak<Caches>,
    timers: DeletionTimers,
    node_reads: SharedNodeReads,
}

impl EvictionHandlers {
    /// Enqueues a changed Pod if it has a timer or if its node has `NoExecute` taints.
    fn on_pod(&self, event: &CacheEvent<CachedPod>, origin: ChangeOrigin) {
        let (pod, is_relevant) = match event {
            CacheEvent::Added(pod) | CacheEvent::Deleted(pod) => (pod, true),
            CacheEvent::Updated { old, new } => {
                (new, old.tolerations != new.tolerations || old.node_name != new.node_name)
            }
            CacheEvent::Unreadable(_) => return,
        };
        if !is_relevant || pod.node_name.is_empty() {
            return;
        }
        let key = pod.meta().key();
        let has_timer = self.timers.contains(&key);
        let is_tainted = || {
            let node = self.caches.upgrade().and_then(|caches| caches.cache_view().node(&pod.node_name));
            node.is_some_and(|node| node.no_execute_taints().next().is_some())
        };
        if has_timer || is_tainted() {
            self.queue.add(key, origin);
        }
    }

    /// Enqueues the Pods of a node with changed `NoExecute` taints. For an added node without such taints, enqueues only Pods
    /// with a timer: the node may have been re-created without its taints.
    fn on_node(&self, event: &CacheEvent<Node>, origin: ChangeOrigin) {
        if origin != ChangeOrigin::Resync {
            self.node_reads.lock().drop_read(&event.meta().name);
        }
        let concerns_all = match event {
            CacheEvent::Added(node) => node.no_execute_taints().next().is_some(),
            CacheEvent::Updated { old, new } if !old.no_execute_taints().eq(new.no_execute_taints()) => true,
            CacheEvent::Updated { .. } | CacheEvent::Deleted(_) | CacheEvent::Unreadable(_) => return,
        };
        if !concerns_all && self.timers.is_empty() {
            return;
        }
        let Some(caches) = self.caches.upgrade() else { return };
        for pod in caches.cache_view().pods_on_node(&event.meta().name) {
            let key = pod.meta().key();
            if concerns_all || self.timers.contains(&key) {
                self.queue.add(key, origin);
            }
        }
    }
}
