//! The part of the graph that one decision reads.

use common::meta::{OwnerRef, ResourceVersion, Uid};

use super::{Graph, Identity, Kind, node::ObjectFlags};

/// An object of the graph, and the facts about its owners and dependents that decisions need.
#[derive(Clone, Debug)]
pub struct GraphNodeView {
    /// Kind, location and UID of the object.
    pub identity: Identity,
    /// Group, version and kind of the object.
    pub kind: Kind,
    /// The last `resourceVersion` that a monitor has seen; unknown if no monitor has seen the object.
    pub version: ResourceVersion,
    /// Owner references, in the order of `metadata.ownerReferences`.
    pub owner_references: Vec<OwnerRef>,
    /// State of each owner, in the order of `owners`.
    pub owner_states: Vec<OwnerState>,
    /// Whether the object is virtual: no active monitor has seen it, for example because only owner references name it.
    pub is_virtual: bool,
    /// Whether the object is terminating.
    pub is_being_deleted: bool,
    /// Whether the object is in foreground deletion and waits for its dependents.
    pub is_deleting_dependents: bool,
    /// Whether the object has the finalizer [`ORPHAN_FINALIZER`](super::ORPHAN_FINALIZER).
    pub has_orphan_finalizer: bool,
    /// Whether the object has the finalizer [`FOREGROUND_FINALIZER`](super::FOREGROUND_FINALIZER).
    pub has_foreground_finalizer: bool,
    /// Number of objects with a reference to this object.
    pub dependent_count: usize,
    /// Number of dependents that block the foreground deletion; 0 if no foreground deletion has begun.
    pub blocking_dependent_count: usize,
    /// Whether an owner and a dependent of this object are both in foreground deletion, and may wait for each other.
    pub may_be_in_cycle: bool,
}

/// State in the graph of the owner in a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// The owner does not exist.
    Absent,
    /// A monitor has seen the owner exactly as the reference names it, and the owner is not terminating.
    Present,
    /// A monitor has seen the owner exactly as the reference names it, and the owner waits for its dependents.
    WaitingForDependents,
    /// The graph cannot tell whether the owner exists.
    Unknown,
}

/// An object with an owner reference to another object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependent {
    /// Kind, location and UID of the dependent.
    pub identity: Identity,
    /// Group, version and kind of the dependent.
    pub kind: Kind,
}

impl Graph {
    /// Returns the object with this UID, and the facts about its owners and dependents.
    pub fn node_view(&mut self, uid: &Uid) -> Option<GraphNodeView> {
        let id = self.nodes.find(uid)?;
        let node = self.nodes.get(id);
        let owner_references: Vec<_> = node.owners.iter().map(|o| o.to_owner_ref(self.kinds.get(o.kind))).collect();
        let namespace = node.namespace.clone();
        let owner_states: Vec<_> = owner_references.iter().map(|owner| self.owner_state(owner, &namespace)).collect();
        let may_be_in_cycle = owner_states.contains(&OwnerState::WaitingForDependents) && self.may_be_in_cycle(uid);
        let node = self.nodes.get(id);
        let is_deleting_dependents = node.is_deleting_dependents();
        let blocking_dependent_count = if is_deleting_dependents { node.blocking_dependent_count as usize } else { 0 };
        Some(GraphNodeView {
            identity: node.identity(),
            kind: self.kinds.get(node.kind).clone(),
            version: node.version,
            owner_states,
            is_virtual: node.is_virtual(),
            is_being_deleted: node.is_being_deleted(),
            is_deleting_dependents,
            has_orphan_finalizer: node.flags.has(ObjectFlags::ORPHAN_FINALIZER),
            has_foreground_finalizer: node.flags.has(ObjectFlags::FOREGROUND_FINALIZER),
            dependent_count: node.dependents.len(),
            owner_references,
            blocking_dependent_count,
            may_be_in_cycle,
        })
    }

    /// Returns the state of the owner in `owner_ref`. `namespace` is the namespace of the dependent.
    pub fn owner_state(&mut self, owner_ref: &OwnerRef, namespace: &str) -> OwnerState {
        if self.is_known_absent(owner_ref, namespace) {
            return OwnerState::Absent;
        }
        let Some(kind) = self.kinds.find(&Kind::of_owner(owner_ref)) else { return OwnerState::Unknown };
        let Some(node) = self.node(&owner_ref.uid) else { return OwnerState::Unknown };
        let is_here = node.namespace.is_empty() || *node.namespace == *namespace;
        if !is_here || node.kind != kind || *node.name != *owner_ref.name || node.is_virtual() {
            OwnerState::Unknown
        } else if node.is_deleting_dependents() {
            OwnerState::WaitingForDependents
        } else if node.is_being_deleted() {
            OwnerState::Unknown
        } else {
            OwnerState::Present
        }
    }

    /// Whether a dependent of this object is in foreground deletion, as in a cycle. Visits every dependent.
    pub fn may_be_in_cycle(&self, uid: &Uid) -> bool {
        let Some(id) = self.nodes.find(uid) else { return false };
        self.nodes.get(id).dependents.iter().any(|d| self.nodes.get(d).is_deleting_dependents())
    }

    /// Returns the objects with a reference to this UID.
    pub fn dependents(&self, uid: &Uid) -> Vec<Dependent> {
        let Some(id) = self.nodes.find(uid) else { return Vec::new() };
        let dependents = self.nodes.get(id).dependents.iter().map(|d| self.nodes.get(d));
        dependents.map(|d| Dependent { identity: d.identity(), kind: self.kinds.get(d.kind).clone() }).collect()
    }
}
