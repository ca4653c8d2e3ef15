//! Builders of graphs and snapshots for tests.

use std::collections::BTreeMap;

use common::{
    meta::{Meta, Uid, Version},
    object::Resource,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    collector::snapshot::{Owner, OwnerKind, Snapshot},
    graph::{Graph, Identity, Node, OwnerState, Source, View, Work},
};

/// Resource of ConfigMaps, the default kind of test objects.
pub(crate) const MAPS: Resource =
    Resource { group: "", version: "v1", plural: "configmaps", kind: "ConfigMap", namespaced: true };

/// A graph, and the work that followed from its last changes.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) graph: Graph,
    pub(crate) work: Vec<Work>,
    sources: BTreeMap<String, Source>,
    version: u64,
}

/// A test object: its kind, and its metadata in JSON.
#[derive(Clone)]
pub(crate) struct Thing {
    kind: &'static str,
    meta: Value,
}

/// Builds a ConfigMap in namespace `ns` whose UID equals its name.
pub(crate) fn thing(name: &str) -> Thing {
    Thing {
        kind: "ConfigMap",
        meta: json!({"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1", "ownerReferences": [],
            "finalizers": []}),
    }
}

impl Thing {
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

    /// Adds a ConfigMap as owner; its UID equals its name.
    pub(crate) fn owner(self, name: &str) -> Self {
        self.owner_as("ConfigMap", name, name, false)
    }

    /// Adds a ConfigMap as owner, with a reference that blocks the owner's foreground deletion.
    pub(crate) fn blocking(self, name: &str) -> Self {
        self.owner_as("ConfigMap", name, name, true)
    }

    pub(crate) fn owner_as(mut self, kind: &str, name: &str, uid: &str, blocks: bool) -> Self {
        let reference =
            json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": blocks});
        if let Some(list) = self.meta["ownerReferences"].as_array_mut() {
            list.push(reference);
        }
        self
    }

    pub(crate) fn without_owners(mut self) -> Self {
        self.meta["ownerReferences"] = json!([]);
        self
    }

    /// Makes the object terminating, with this finalizer.
    pub(crate) fn waiting_for(mut self, finalizer: &str) -> Self {
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
    pub(crate) fn source(&mut self, kind: &str) -> Source {
        if let Some(source) = self.sources.get(kind) {
            return *source;
        }
        let source = self.graph.source("v1", kind);
        self.sources.insert(kind.to_owned(), source);
        source
    }

    /// Returns the metadata of the object with the next version.
    pub(crate) fn written(&mut self, thing: &Thing) -> Meta {
        self.version += 1;
        Meta { resource_version: Version::parse(&self.version.to_string()), ..thing.meta() }
    }

    /// Writes the object, lets its monitor see the new version, and returns the resulting work.
    pub(crate) fn put(&mut self, thing: &Thing) -> Vec<String> {
        let meta = self.written(thing);
        self.see(thing, &meta)
    }

    /// Lets the monitor see the object with this metadata, and returns the resulting work.
    pub(crate) fn see(&mut self, thing: &Thing, meta: &Meta) -> Vec<String> {
        let source = self.source(thing.kind);
        self.graph.put(source, meta, &mut self.work);
        self.take()
    }

    /// Reads a full set (a complete list) of this kind, and completes it if `complete` is true. Returns the resulting work.
    pub(crate) fn full_set(&mut self, kind: &str, set: &[Meta], complete: bool) -> Vec<String> {
        let source = self.source(kind);
        let mut seen = self.graph.begin(source);
        for meta in set {
            self.graph.include(&mut seen, meta, &mut self.work);
        }
        if complete {
            self.graph.complete(&seen, &mut self.work);
        }
        self.take()
    }

    pub(crate) fn gone(&mut self, thing: &Thing) -> Vec<String> {
        let source = self.source(thing.kind);
        self.graph.gone(source, &thing.meta(), &mut self.work);
        self.take()
    }

    pub(crate) fn identity(&mut self, kind: &str, namespace: &str, name: &str, uid: &str) -> Identity {
        Identity {
            kind: self.graph.kind_id("v1", kind),
            namespace: namespace.into(),
            name: name.into(),
            uid: Uid::new(uid),
        }
    }

    pub(crate) fn absent(&mut self, identity: &Identity) -> Vec<String> {
        self.graph.absent(identity, &mut self.work);
        self.take()
    }

    /// Returns the work of the last change as texts.
    pub(crate) fn take(&mut self) -> Vec<String> {
        let text = |work: Work| match work {
            Work::Judge(uid) => format!("judge {uid}"),
            Work::JudgeLater(uid) => format!("later {uid}"),
            Work::Orphan(uid) => format!("orphan {uid}"),
            Work::Forget(uid) => format!("forget {uid}"),
            Work::WrongNamespace(found) => format!("event {}", found.message()),
        };
        std::mem::take(&mut self.work).into_iter().map(text).collect()
    }

    /// Returns the identity of the node with this UID as `kind namespace/name`.
    pub(crate) fn place(&self, uid: &str) -> String {
        self.graph.node(&Uid::new(uid)).map_or_else(String::new, |node| {
            let identity = node.identity();
            format!("{} {}/{}", self.graph.kind(identity.kind).kind, identity.namespace, identity.name)
        })
    }

    pub(crate) fn is_virtual(&self, uid: &str) -> bool {
        self.graph.node(&Uid::new(uid)).is_some_and(Node::is_virtual)
    }
}

/// Returns the view of ConfigMap `c` from a graph of these objects.
pub(crate) fn view(things: &[Thing]) -> View {
    let mut world = World::default();
    for thing in things {
        world.put(thing);
    }
    world.graph.view(&Uid::new("c")).unwrap()
}

/// Returns the first owner in `view`, with this state of its kind and this state in the graph.
pub(crate) fn owner(view: &View, kind: OwnerKind, state: OwnerState) -> Owner {
    Owner { reference: view.owners[0].clone(), kind, resource: Some(MAPS), state }
}

/// Returns a snapshot in which the object has these owners and all monitors are synced.
pub(crate) fn snapshot(view: View, owners: Vec<Owner>) -> Snapshot {
    let now = Timestamp::UNIX_EPOCH;
    Snapshot { now, view, resource: Some(MAPS), unseen: false, owners, unsynced: Vec::new() }
}
