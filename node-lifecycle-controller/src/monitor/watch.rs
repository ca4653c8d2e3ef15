//! The events that the node monitor learns from, and those that bring keys into its queues.

use std::sync::{Arc, Weak};

use common::{
    clock::Clock,
    controller::priority,
    informer::Listened,
    meta::Key,
    object::Object as _,
    queue::Queue,
    store::{Event, Origin},
};
use parking_lot::Mutex;

use crate::{
    caches::Caches,
    decide::upkeep,
    objects::{CachedPod, LEASE_NAMESPACE, Lease, Node, NodeReady, ReadyCondition},
};

use super::fleet::{Fleet, Name};

/// Whether an event proves that this process sees: a replay of the cache does not.
fn is_news(origin: Origin) -> bool {
    origin != Origin::Resync
}

/// What handlers write to. Holds the caches weakly, because the caches hold the handlers.
#[derive(Clone)]
pub(super) struct Watch {
    pub(super) fleet: Arc<Mutex<Fleet>>,
    pub(super) clock: Clock,
    pub(super) caches: Weak<Caches>,
    pub(super) leases: Weak<Listened<Lease>>,
    pub(super) nodes: Queue<Key>,
    pub(super) pods: Queue<Key>,
}

impl Watch {
    /// Registers the handlers of all caches.
    pub(super) fn register(self, caches: &Caches, leases: &Listened<Lease>) {
        let (of_leases, of_nodes, of_pods) = (self.clone(), self.clone(), self);
        leases.listen(Box::new(move |event, origin| of_leases.on_lease(event, origin)));
        caches.nodes.listen(Box::new(move |event, origin| of_nodes.on_node(event, origin)));
        caches.pods.listen(Box::new(move |event, origin| of_pods.on_pod(event, origin)));
    }

    fn on_lease(&self, event: &Event<Lease>, origin: Origin) {
        let now = self.clock.instant();
        let mut fleet = self.fleet.lock();
        if is_news(origin) {
            fleet.sight.note(now);
        }
        if let Event::Added(lease) | Event::Updated { new: lease, .. } = event {
            fleet.renewed(&lease.meta().name, lease.renewed(), now);
        }
    }

    fn on_node(&self, event: &Event<Node>, origin: Origin) {
        let now = self.clock.instant();
        let name: &Name = &event.meta().name;
        let mut fleet = self.fleet.lock();
        if is_news(origin) {
            fleet.sight.note(now);
        }
        let was_ready = fleet.node(name).map(|node| node.ready());
        let node = match event {
            Event::Added(node) | Event::Updated { new: node, .. } => node,
            // A node that cannot be read is not judged.
            Event::Deleted(_) | Event::Unreadable(_) => return fleet.forget(name),
        };
        let lease = self.leases.upgrade().and_then(|leases| leases.store().get_readable(LEASE_NAMESPACE, name));
        fleet.see(node, lease.map(|lease| lease.renewed()), now);
        let newest = fleet.node(name).map(Arc::clone);
        drop(fleet);
        if newest.is_some_and(|node| upkeep::is_needed(&node)) {
            self.nodes.add(Key::new("", name), priority(origin));
        }
        // Nobody else marks the Pods of a node that fell silent, or did while nobody watched.
        let is_lost = node.ready() == NodeReady::Unknown
            && match event {
                Event::Updated { old, .. } => old.ready() == NodeReady::True || was_ready == Some(NodeReady::True),
                _ => true,
            };
        if is_lost {
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

    /// Enqueues a Pod that was assigned to a node which is not ready. A Pod that was there before this process is enqueued
    /// only if its node is silent: its kubelet sees to it otherwise.
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
