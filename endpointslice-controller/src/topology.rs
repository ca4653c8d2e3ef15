//! The zones and capacity of Nodes, updated with each event of a Node.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::prelude::*;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    memory::ServiceMemoryByKey,
    objects::Node,
    zones::{EndpointCountsByZone, ZoneCapacity, ZoneCpuShares, ZonesByNode, has_overloaded_zone},
};

/// The debounce period for changes of Nodes, so that the failure of a whole zone causes one check.
const NODE_CHANGE_DEBOUNCE: Duration = Duration::from_secs(1);

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
    /// Replaces the state of a Node; `None` removes the Node.
    fn set_node(&mut self, name: &Arc<str>, node: Option<&Arc<Node>>, origin: ChangeOrigin) {
        let old = self.known.remove(name);
        if let Some(old) = &old {
            self.capacity.remove_node(old);
        }
        let Some(node) = node else {
            if old.is_some() {
                Arc::make_mut(&mut self.zones).remove(&**name);
            }
            return;
        };
        self.capacity.add_node(node);
        if old.is_none_or(|old| old.zone != node.zone) {
            let name = Text::new(name);
            Arc::make_mut(&mut self.zones).insert(name.clone(), node.zone.clone());
            // Nodes of the first list are not recorded, because every Service is synced after this list.
            if origin != ChangeOrigin::Initial {
                self.moved.insert(name);
            }
        }
        self.known.insert(Arc::clone(name), Arc::clone(node));
    }
}

impl NodeTopology {
    pub(crate) fn new(nodes: Arc<Store<Node>>) -> Self {
        Self { nodes, state: Mutex::default(), changed: Notify::new() }
    }

    /// Applies an event of a Node. Upstream: `pkg/controller/endpointslice`, `addNode`, `updateNode`, `deleteNode`.
    pub(crate) fn on_node(&self, event: &CacheEvent<Node>, origin: ChangeOrigin) {
        let mut state = self.state.lock();
        let name = &event.meta().name;
        if !matches!(event, CacheEvent::Unreadable(_)) || self.nodes.get_decoded("", name).is_none() {
            state.set_node(name, event.cached(), origin);
        }
        if let CacheEvent::Updated { old, new } = event
            && (old.is_ready, &old.zone) == (new.is_ready, &new.zone)
        {
            return;
        }
        state.changes += 1;
        self.changed.notify_one();
    }

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
    pub(crate) fn services_with_outdated_hints(&self, memories: &ServiceMemoryByKey) -> BTreeSet<NamespacedName> {
        let shares = self.zone_cpu_shares();
        let is_outdated = |counts: &EndpointCountsByZone| has_overloaded_zone(shares.as_ref(), counts);
        memories.services_where(|memory| memory.hint_counts.values().any(is_outdated))
    }
}

#[cfg(test)]
mod tests;
