//! The zones and capacity of Nodes, updated with each event of a Node.

use std::{sync::Arc, time::Duration};

use common::prelude::*;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    memory::{HintCounts, ServiceMemoryByKey},
    objects::Node,
    zones::{ZoneCapacity, ZoneCpuShares, ZonesByNode, has_overloaded_zone},
};

/// The debounce period for changes of Nodes, so that the failure of a whole zone causes one check.
const NODE_CHANGE_DEBOUNCE: Duration = Duration::from_secs(1);

/// The zones and capacity of the Nodes in the cache.
pub(crate) struct NodeTopology {
    nodes: Arc<Store<Node>>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    known: HashMap<Arc<str>, Arc<Node>>,
    zones: Arc<ZonesByNode>,
    capacity: ZoneCapacity,
    /// New Nodes, and Nodes with a new zone, since the last [`NodeTopology::take_nodes_with_new_zone`].
    moved: HashSet<Text>,
    /// The number of changes so far that can affect hints.
    changes: u64,
}

impl State {
    fn remove(&mut self, name: &str) -> Option<Arc<Node>> {
        let old = self.known.remove(name)?;
        self.capacity.remove_node(&old);
        Some(old)
    }

    fn put(&mut self, node: &Arc<Node>, origin: ChangeOrigin) {
        let old = self.remove(&node.metadata.name);
        self.capacity.add_node(node);
        if old.is_none_or(|old| old.zone != node.zone) {
            let name = Text::new(&node.metadata.name);
            Arc::make_mut(&mut self.zones).insert(name.clone(), node.zone.clone());
            // Nodes of the first list are not recorded, because every Service is synced after this list.
            if origin != ChangeOrigin::Initial {
                self.moved.insert(name);
            }
        }
        self.known.insert(Arc::clone(&node.metadata.name), Arc::clone(node));
    }

    fn forget(&mut self, name: &str) {
        if self.remove(name).is_some() {
            Arc::make_mut(&mut self.zones).remove(name);
        }
    }
}

impl NodeTopology {
    pub(crate) fn new(nodes: Arc<Store<Node>>) -> Self {
        Self { nodes, state: Mutex::default(), changed: Notify::new() }
    }

    /// Applies an event of a Node. Upstream: `pkg/controller/endpointslice`, `addNode`, `updateNode`, `deleteNode`.
    pub(crate) fn on_node(&self, event: &CacheEvent<Node>, origin: ChangeOrigin) {
        let mut state = self.state.lock();
        match event {
            CacheEvent::Added(node) => state.put(node, origin),
            CacheEvent::Updated { old, new } => {
                state.put(new, origin);
                if old.is_ready == new.is_ready && old.zone == new.zone {
                    return;
                }
            }
            CacheEvent::Deleted(node) => state.forget(&node.metadata.name),
            CacheEvent::Unreadable(node) => {
                if self.nodes.get_decoded("", &node.meta.name).is_none() {
                    state.forget(&node.meta.name);
                }
            }
        }
        state.changes += 1;
        self.changed.notify_one();
    }

    /// Returns the zone of each Node.
    pub(crate) fn zones_by_node(&self) -> Arc<ZonesByNode> {
        Arc::clone(&self.state.lock().zones)
    }

    /// Returns and clears the new Nodes and the Nodes with a new zone. Endpoints of their Pods may have the wrong zone.
    pub(crate) fn take_nodes_with_new_zone(&self) -> HashSet<Text> {
        std::mem::take(&mut self.state.lock().moved)
    }

    /// Returns the share of each zone in the CPU of all zones; `None` if it cannot be computed.
    pub(crate) fn zone_cpu_shares(&self) -> Option<ZoneCpuShares> {
        self.state.lock().capacity.zone_cpu_shares()
    }

    /// Calls `recheck` one second after a change of Nodes, once for all changes within that second. Never returns.
    pub(crate) async fn run_after_node_changes(&self, clock: &Clock, mut recheck: impl FnMut()) {
        let mut checked = 0;
        loop {
            self.changed.notified().await;
            clock.sleep(NODE_CHANGE_DEBOUNCE).await;
            let changes = self.state.lock().changes;
            if std::mem::replace(&mut checked, changes) != changes {
                recheck();
            }
        }
    }

    /// Returns the Services with hints that no longer fit the capacity of the zones.
    pub(crate) fn services_with_outdated_hints(&self, memories: &ServiceMemoryByKey) -> Vec<NamespacedName> {
        let hinted = memories.hint_counts_by_service();
        if hinted.is_empty() {
            return Vec::new();
        }
        let shares = self.zone_cpu_shares();
        let is_outdated =
            |hints: &HintCounts| hints.values().any(|counts| has_overloaded_zone(shares.as_ref(), counts));
        hinted.into_iter().filter(|(_, hints)| is_outdated(hints)).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests;
