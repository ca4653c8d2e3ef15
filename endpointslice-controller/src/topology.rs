//! The Nodes, as far as endpoints and hints depend on them, kept up to date Node by Node.

use std::{sync::Arc, time::Duration};

use common::{
    clock::Clock,
    intern::Text,
    map::{HashMap, HashSet},
    meta::Key,
    store::{Event, Origin, Store},
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    memory::{Hints, Memories},
    objects::Node,
    zones::{Capacity, Ratios, Zones, is_overloaded},
};

/// How long changes of Nodes are gathered before hints are checked: a zone that fails is one check, not one for each Node.
const NODE_CHANGES: Duration = Duration::from_secs(1);

/// The zones and the capacity of the Nodes in the cache.
pub(crate) struct Topology {
    nodes: Arc<Store<Node>>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    known: HashMap<Arc<str>, Arc<Node>>,
    zones: Arc<Zones>,
    capacity: Capacity,
    /// The Nodes that came, or came to another zone, since [`Topology::take_moved`].
    moved: HashSet<Text>,
    /// Counts the changes that hints may depend on.
    changes: u64,
}

impl State {
    fn remove(&mut self, name: &str) -> Option<Arc<Node>> {
        let old = self.known.remove(name)?;
        self.capacity.remove(&old);
        Some(old)
    }

    fn put(&mut self, node: &Arc<Node>, origin: Origin) {
        let old = self.remove(&node.metadata.name);
        self.capacity.add(node);
        if old.is_none_or(|old| old.zone != node.zone) {
            let name = Text::new(&node.metadata.name);
            Arc::make_mut(&mut self.zones).insert(name.clone(), node.zone.clone());
            // Every Service is synced after the first list in any case.
            if origin != Origin::Initial {
                self.moved.insert(name);
            }
        }
        self.known.insert(Arc::clone(&node.metadata.name), Arc::clone(node));
    }

    fn forget(&mut self, name: &str) {
        if self.remove(name).is_some() {
            Arc::make_mut(&mut self.zones).remove(&name.into());
        }
    }
}

impl Topology {
    pub(crate) fn new(nodes: Arc<Store<Node>>) -> Self {
        Self { nodes, state: Mutex::default(), changed: Notify::new() }
    }

    /// Takes an event of a Node in. Upstream: `pkg/controller/endpointslice`, `addNode`, `updateNode`, `deleteNode`.
    pub(crate) fn on_node(&self, event: &Event<Node>, origin: Origin) {
        let mut state = self.state.lock();
        match event {
            Event::Added(node) => state.put(node, origin),
            Event::Updated { old, new } => {
                state.put(new, origin);
                if old.is_ready == new.is_ready && old.zone == new.zone {
                    return;
                }
            }
            Event::Deleted(node) => state.forget(&node.metadata.name),
            Event::Unreadable(node) => {
                if self.nodes.get_readable("", &node.meta.name).is_none() {
                    state.forget(&node.meta.name);
                }
            }
        }
        state.changes += 1;
        self.changed.notify_one();
    }

    /// The zones of all Nodes.
    pub(crate) fn zones(&self) -> Arc<Zones> {
        Arc::clone(&self.state.lock().zones)
    }

    /// The Nodes that came, or came to another zone, since the last call. Endpoints of their Pods may name the wrong zone.
    pub(crate) fn take_moved(&self) -> HashSet<Text> {
        std::mem::take(&mut self.state.lock().moved)
    }

    /// The zones' shares of the CPU; `None` if they are unknown.
    pub(crate) fn ratios(&self) -> Option<Ratios> {
        self.state.lock().capacity.ratios()
    }

    /// Calls `recheck` a while after Nodes have changed, once for all changes until then. Never ends.
    pub(crate) async fn recheck_after_changes(&self, clock: &Clock, mut recheck: impl FnMut()) {
        let mut checked = 0;
        loop {
            self.changed.notified().await;
            clock.sleep(NODE_CHANGES).await;
            let changes = self.state.lock().changes;
            if std::mem::replace(&mut checked, changes) != changes {
                recheck();
            }
        }
    }

    /// The Services whose hints no longer fit the capacity of the zones.
    pub(crate) fn overloaded(&self, memories: &Memories) -> Vec<Key> {
        let hinted = memories.with_hints();
        if hinted.is_empty() {
            return Vec::new();
        }
        let ratios = self.ratios();
        let is_outdated = |hints: &Hints| hints.values().any(|counts| is_overloaded(ratios.as_ref(), counts));
        hinted.into_iter().filter(|(_, hints)| is_outdated(hints)).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use common::meta::Version;
    use serde_json::json;

    use super::*;

    fn node(index: usize, zone: &str, ready: &str) -> Node {
        serde_json::from_value(json!({"metadata": {"name": format!("n{index}"), "uid": format!("n{index}"),
            "resourceVersion": "1", "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"allocatable": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": ready}]}}))
        .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_zone_of_a_thousand_nodes_that_fails_is_one_check() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let topology = Topology::new(Arc::default());
        let nodes: Vec<Arc<Node>> = (0..2_000).map(|n| Arc::new(node(n, ["a", "b"][n % 2], "True"))).collect();
        for new in &nodes {
            topology.on_node(&Event::Added(Arc::clone(new)), Origin::Initial);
        }
        assert!(topology.ratios().is_some());
        let checks = Cell::new(0);
        let checking = topology.recheck_after_changes(&clock, || checks.set(checks.get() + 1));
        let failing = async {
            clock.sleep(Duration::from_secs(10)).await;
            assert_eq!(checks.get(), 1, "after the first list");
            for (index, old) in nodes.iter().enumerate().filter(|(index, _)| index % 2 == 0) {
                let (old, new) = (Arc::clone(old), Arc::new(node(index, "a", "False")));
                topology.on_node(&Event::Updated { old, new }, Origin::Watch);
            }
            clock.sleep(Duration::from_secs(10)).await;
        };
        tokio::select! { () = checking => {}, () = failing => {} }
        assert_eq!(checks.get(), 2);
        assert_eq!(topology.ratios(), None, "one zone is left");
    }

    #[test]
    fn a_node_has_moved_when_it_comes_and_when_its_zone_changes() {
        let topology = Topology::new(Arc::default());
        let put = |old: Option<Node>, new: Node, origin: Origin| {
            let new = Arc::new(new);
            let event = match old.map(Arc::new) {
                Some(old) => Event::Updated { old, new },
                None => Event::Added(new),
            };
            topology.on_node(&event, origin);
            topology.take_moved().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(put(None, node(0, "a", "True"), Origin::Initial), [""; 0]);
        assert_eq!(put(None, node(1, "", "True"), Origin::Watch), ["n1"]);
        assert_eq!(put(Some(node(1, "", "True")), node(1, "", "False"), Origin::Watch), [""; 0]);
        assert_eq!(put(Some(node(1, "", "False")), node(1, "b", "False"), Origin::Watch), ["n1"]);
        topology.on_node(&Event::Deleted(Arc::new(node(1, "b", "False"))), Origin::Watch);
        assert!(topology.take_moved().is_empty(), "its Pods still serve");
        assert_eq!(put(None, node(1, "b", "True"), Origin::Relist), ["n1"], "a sync may have left its Pods out");
    }

    #[tokio::test(start_paused = true)]
    async fn capacity_follows_every_node() {
        let topology = Topology::new(Arc::default());
        let store: Store<Node> = Store::default();
        let tell = |nodes: Vec<Node>, version: &str| {
            for event in &store.fill(nodes, Version::parse(version)) {
                topology.on_node(event, Origin::Relist);
            }
        };
        tell(vec![node(0, "a", "True"), node(1, "b", "True")], "2");
        let two = topology.ratios();
        assert!(two.is_some());
        assert_eq!(topology.zones().zone_of(&"n1".into()).map(common::intern::Text::as_str), Some("b"));
        tell(vec![node(0, "a", "True")], "3");
        assert_eq!((topology.ratios(), topology.zones().zone_of(&"n1".into())), (None, None));
        tell(vec![node(0, "a", "True"), node(1, "b", "True"), node(2, "", "True")], "4");
        assert_eq!(topology.ratios(), None, "a Node without a zone");
        tell(vec![node(0, "a", "True"), node(1, "b", "True")], "5");
        assert_eq!(topology.ratios(), two);
    }
}
