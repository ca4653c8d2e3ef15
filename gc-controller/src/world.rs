//! Builders of graphs and snapshots for tests.

use std::collections::BTreeMap;

use common::prelude::*;
use serde_json::{Value, json};

use crate::{
    collector::decide::{KindState, OwnerWithState, Snapshot},
    graph::{Graph, GraphNode, GraphNodeView, Identity, MonitorId, OwnerState, Work},
};

/// Resource of ConfigMaps, the default kind of test objects.
pub(crate) const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

#[derive(Default)]
pub(crate) struct World {
    pub(crate) graph: Graph,
    pub(crate) work: Vec<Work>,
    sources: BTreeMap<String, MonitorId>,
    version: u64,
}

/// A test object: its kind, and its metadata in JSON.
#[derive(Clone)]
pub(crate) struct TestObject {
    kind: &'static str,
    meta: Value,
}

/// Builds a ConfigMap in namespace `ns`. The UID equals the name.
pub(crate) fn test_object(name: &str) -> TestObject {
    TestObject {
        kind: "ConfigMap",
        meta: json!({"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1", "ownerReferences": [],
            "finalizers": []}),
    }
}

impl TestObject {
    pub(crate) fn kind(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }

    pub(crate) fn uid(mut self, uid: &str) -> Self {
        self.meta["uid"] = json!(uid);
        self
    }

    pub(crate) fn namespace(mut self, namespace: &str) -> Self {
        self.meta["namespace"] = json!(namespace);
        self
    }

    /// Adds a ConfigMap as owner. The UID of the owner equals its name.
    pub(crate) fn owner(self, name: &str) -> Self {
        self.owner_as("ConfigMap", name, name, false)
    }

    /// Adds a ConfigMap as owner, with a reference that blocks the owner's foreground deletion.
    pub(crate) fn blocking_owner(self, name: &str) -> Self {
        self.owner_as("ConfigMap", name, name, true)
    }

    pub(crate) fn owner_as(mut self, kind: &str, name: &str, uid: &str, blocks: bool) -> Self {
        let reference =
            json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": blocks});
        self.meta["ownerReferences"].as_array_mut().unwrap().push(reference);
        self
    }

    pub(crate) fn without_owners(mut self) -> Self {
        self.meta["ownerReferences"] = json!([]);
        self
    }

    pub(crate) fn terminating_with_finalizer(mut self, finalizer: &str) -> Self {
        self.meta["deletionTimestamp"] = json!("2026-11-21T09:00:00Z");
        self.meta["finalizers"] = json!([finalizer]);
        self
    }

    pub(crate) fn meta(&self) -> Meta {
        serde_json::from_value(self.meta.clone()).unwrap()
    }
}

impl World {
    /// Returns the monitor of a kind, and registers a new one if necessary.
    pub(crate) fn monitor(&mut self, kind: &str) -> MonitorId {
        *self.sources.entry(kind.to_owned()).or_insert_with(|| self.graph.add_monitor("v1", kind))
    }

    pub(crate) fn next_meta(&mut self, thing: &TestObject) -> Meta {
        self.version += 1;
        Meta { resource_version: ResourceVersion::parse(&self.version.to_string()), ..thing.meta() }
    }

    /// Writes the object, lets its monitor see the new version, and returns the resulting work.
    pub(crate) fn write_and_observe(&mut self, thing: &TestObject) -> Vec<String> {
        let meta = self.next_meta(thing);
        self.observe_object(thing, &meta)
    }

    /// Lets the monitor see the object with this metadata, and returns the resulting work.
    pub(crate) fn observe_object(&mut self, thing: &TestObject, meta: &Meta) -> Vec<String> {
        let source = self.monitor(thing.kind);
        self.graph.apply_object(source, meta, &mut self.work);
        self.take_work()
    }

    /// Reads these objects as a list of this kind. Completes the list if `complete` is true. Returns the resulting work.
    pub(crate) fn read_list(&mut self, kind: &str, set: &[Meta], complete: bool) -> Vec<String> {
        let source = self.monitor(kind);
        let mut seen = self.graph.begin_list(source);
        for meta in set {
            self.graph.apply_listed_object(&mut seen, meta, &mut self.work);
        }
        if complete {
            self.graph.complete_list(&seen, &mut self.work);
        }
        self.take_work()
    }

    pub(crate) fn observe_deletion(&mut self, thing: &TestObject) -> Vec<String> {
        let source = self.monitor(thing.kind);
        self.graph.apply_deletion(source, &thing.meta(), &mut self.work);
        self.take_work()
    }

    pub(crate) fn identity(&mut self, kind: &str, namespace: &str, name: &str, uid: &str) -> Identity {
        Identity {
            kind: self.graph.intern_kind("v1", kind),
            namespace: namespace.into(),
            name: name.into(),
            uid: Uid::new(uid),
        }
    }

    pub(crate) fn report_absent(&mut self, identity: &Identity) -> Vec<String> {
        self.graph.apply_absence(identity, &mut self.work);
        self.take_work()
    }

    pub(crate) fn take_work(&mut self) -> Vec<String> {
        let text = |work: Work| match work {
            Work::CheckOwners(uid) => format!("judge {uid}"),
            Work::CheckOwnersAfterBackoff(uid) => format!("later {uid}"),
            Work::Orphan(uid) => format!("orphan {uid}"),
            Work::ResetBackoff(uid) => format!("forget {uid}"),
            Work::CrossNamespaceReference(found) => format!("event {}", found.message()),
        };
        std::mem::take(&mut self.work).into_iter().map(text).collect()
    }

    /// Returns the identity of the node with this UID as `kind namespace/name`.
    pub(crate) fn location(&self, uid: &str) -> String {
        self.graph.node(&Uid::new(uid)).map_or_else(String::new, |node| {
            let identity = node.identity();
            format!("{} {}/{}", self.graph.kind(identity.kind).kind, identity.namespace, identity.name)
        })
    }

    pub(crate) fn is_virtual(&self, uid: &str) -> bool {
        self.graph.node(&Uid::new(uid)).is_some_and(GraphNode::is_virtual)
    }
}

/// Returns the view of ConfigMap `c` from a graph of these objects.
pub(crate) fn node_view_of_c(things: &[TestObject]) -> GraphNodeView {
    let mut world = World::default();
    for thing in things {
        world.write_and_observe(thing);
    }
    world.graph.node_view(&Uid::new("c")).unwrap()
}

/// Returns the first owner in `view`, with this state of its kind and this state in the graph.
pub(crate) fn first_owner(view: &GraphNodeView, kind_state: KindState, state_in_graph: OwnerState) -> OwnerWithState {
    let reference = view.owner_references[0].clone();
    OwnerWithState { reference, kind_state, resource: Some(CONFIG_MAPS), state_in_graph }
}

/// Returns a snapshot in which the object has these owners and all monitors are synced.
pub(crate) fn synced_snapshot(view: GraphNodeView, owners: Vec<OwnerWithState>) -> Snapshot {
    Snapshot {
        graph_node: view,
        resource: Some(CONFIG_MAPS),
        is_kind_unsynced: false,
        owners,
        unsynced_resources: Vec::new(),
    }
}
