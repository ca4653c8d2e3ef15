//! The graph of owners: every object of the cluster by UID, with its owners and its dependents.
//!
//! - Each object has one node. A node is *virtual* while no active monitor has seen its object, for example if only owner
//!   references name the object.
//! - Changes arrive through [`Graph::apply_object`], [`Graph::apply_deletion`] and [`Graph::apply_absence`], and lists of all
//!   objects of a monitor through [`Graph::begin_list`] and the methods that take its result. Each method reports the
//!   resulting [`Work`], sends no requests, and depends only on the graph.
//! - The graph is the only cache of the objects that monitors have seen. Nodes are small: kinds, namespaces and lists of owners
//!   are shared, and a single dependent is stored inline.
//! - A change costs time proportional to the number of owners of its object. Only the start or the end of the deletion of an
//!   owner costs more: it visits the dependents of the owner once.
//!
//! Upstream: `pkg/controller/garbagecollector`, `graph_builder.go` and `graph.go`.

mod absent;
mod apply;
mod dependents;
mod dot;
mod kinds;
mod node;
mod references;
mod slab;
mod source;
mod todo;
mod view;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use common::prelude::*;
use smallvec::SmallVec;

use absent::AbsentObjects;
use kinds::KindTable;
use slab::{GraphNodeId, Slab};
use source::MonitorCounters;

pub use kinds::{Kind, KindId};
pub use node::{GraphNode, Identity};
pub use source::{ListedObjects, MonitorId};
pub use view::{Dependent, GraphNodeView, OwnerState};

/// The finalizer of an object in foreground deletion.
pub const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// The finalizer of an object that is deleted with the policy `Orphan`: its dependents are released first.
pub const ORPHAN_FINALIZER: &str = "orphan";

/// Maximum number of remembered owners that do not exist. Upstream remembers 500, fewer than the owners in a mass deletion.
const ABSENT_CAPACITY: usize = 20_000;

/// Work that follows from a change of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Decide from the state of the object's owners whether to delete the object.
    CheckOwners(Uid),
    /// Decide from the state of the object's owners whether to delete the object, after a back-off.
    CheckOwnersAfterBackoff(Uid),
    /// Remove the references to the object from all its dependents.
    Orphan(Uid),
    /// Reset the back-off of the object, because its failures concern the previous identity of its node.
    ResetBackoff(Uid),
    /// Record an Event about an owner reference across namespaces.
    CrossNamespaceReference(Box<CrossNamespaceReference>),
}

/// An invalid owner reference, which names an object in another namespace than the namespace of the dependent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrossNamespaceReference {
    /// The object with the reference.
    pub dependent: Identity,
    /// Group, version and kind of the dependent.
    pub dependent_kind: Kind,
    /// The reference in the dependent.
    pub reference: OwnerRef,
}

impl CrossNamespaceReference {
    /// Returns the message of the Event, in the words of upstream.
    pub fn message(&self) -> String {
        let (namespace, owner) = (&self.dependent.namespace, &self.reference);
        format!(
            "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace \"{namespace}\"",
            owner.api_version, owner.kind, owner.name, owner.uid
        )
    }
}

/// All objects of the cluster by UID, with their owners and their dependents.
#[derive(Default)]
pub struct Graph {
    kinds: KindTable,
    nodes: Slab,
    /// The counters of each active monitor, by the serial number of the monitor.
    active_monitors: HashMap<u32, MonitorCounters>,
    next_serial_number: u32,
    /// Further monitors of objects that several monitors see, for example of objects that are served in two groups. The monitor
    /// that the object belongs to is not listed.
    others: HashMap<GraphNodeId, SmallVec<[MonitorId; 1]>>,
    absent: AbsentObjects,
}

impl Graph {
    /// Returns the id of a kind. The id is valid while a node, a reference or a monitor in the graph uses the kind.
    pub fn intern_kind(&mut self, api_version: &str, kind: &str) -> KindId {
        self.kinds.intern(Kind { api_version: api_version.into(), kind: kind.into() })
    }

    /// Returns the kind with this id; an empty kind if the id is not in use.
    pub fn kind(&self, id: KindId) -> &Kind {
        self.kinds.get(id)
    }

    /// Registers a new monitor for objects of this kind.
    pub fn add_monitor(&mut self, api_version: &str, kind: &str) -> MonitorId {
        let kind = self.intern_kind(api_version, kind);
        self.kinds.add_use(kind);
        let serial_number = self.next_serial_number;
        self.next_serial_number += 1;
        self.active_monitors.insert(serial_number, MonitorCounters::default());
        MonitorId { kind, serial_number }
    }

    /// Returns the number of objects that belong to this monitor. An object that several monitors see belongs to one of them.
    pub fn object_count(&self, monitor_id: MonitorId) -> usize {
        self.active_monitors.get(&monitor_id.serial_number).map_or(0, |counters| counters.object_count as usize)
    }

    /// Returns the number of nodes, including virtual nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the graph has no node, not even a virtual one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts the virtual nodes. Visits every node.
    pub fn virtual_node_count(&self) -> usize {
        self.nodes.nodes_with_ids().filter(|(_, node)| node.is_virtual()).count()
    }

    /// Returns the node with this UID, which may be virtual.
    pub fn node(&self, uid: &Uid) -> Option<&GraphNode> {
        self.nodes.find(uid).map(|id| self.nodes.get(id))
    }

    /// Records that no object has this identity. UIDs are never reused, so the record never becomes wrong.
    pub fn remember_absent_object(&mut self, identity: Identity) {
        self.absent.insert(identity);
    }

    /// Whether the owner in `owner_ref` is known not to exist. `namespace` is the namespace of the dependent.
    fn is_known_absent(&mut self, owner_ref: &OwnerRef, namespace: &str) -> bool {
        let Some(kind) = self.kinds.find(&Kind::of_owner(owner_ref)) else { return false };
        let name = (&*owner_ref.name).into();
        let mut identity = Identity { kind, namespace: "".into(), name, uid: owner_ref.uid.clone() };
        if self.absent.contains(&identity) {
            return true;
        }
        identity.namespace = namespace.into();
        !namespace.is_empty() && self.absent.contains(&identity)
    }

    /// Returns the identity of an object that a monitor of `kind` has seen.
    fn identity_of(kind: KindId, meta: &Meta) -> Identity {
        Identity { kind, namespace: meta.namespace.clone(), name: Arc::clone(&meta.name), uid: meta.uid.clone() }
    }
}
