//! What one decision may know of the graph.

use common::meta::{OwnerRef, Uid, Version};

use super::{Graph, Identity, Kind, node::Flags};

/// An object as the graph knows it, and as much of its surroundings as decisions need.
#[derive(Clone, Debug)]
pub struct View {
    /// Which object.
    pub identity: Identity,
    /// Its kind.
    pub kind: Kind,
    /// The version that was seen, unknown of a virtual node.
    pub version: Version,
    /// Its owners.
    pub owners: Vec<OwnerRef>,
    /// What the graph says of each of them.
    pub owner_states: Vec<OwnerState>,
    /// Whether no monitor has seen it.
    pub is_virtual: bool,
    /// Whether its deletion was requested.
    pub being_deleted: bool,
    /// Whether it waits for its dependents to go.
    pub deleting_dependents: bool,
    /// Whether it has the finalizer that releases its dependents.
    pub orphans: bool,
    /// Whether it has the finalizer that lets its dependents go first.
    pub foreground: bool,
    /// How many objects refer to it.
    pub dependents: usize,
    /// Of these, how many block its foreground deletion.
    pub blocking: usize,
    /// Whether an owner waits for its dependents, and a dependent for its own: they may wait for each other.
    pub in_cycle: bool,
}

/// What the graph says of the object that a reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// It does not exist.
    Absent,
    /// A monitor has seen it just there, and not that it is being deleted.
    Present,
    /// A monitor has seen it just there, waiting for its dependents.
    Waiting,
    /// Nothing to rely on.
    Unknown,
}

/// An object that refers to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependent {
    /// Which object.
    pub identity: Identity,
    /// Its kind.
    pub kind: Kind,
}

impl Graph {
    /// What is known of the object of that uid.
    pub fn view(&mut self, uid: &Uid) -> Option<View> {
        let id = self.nodes.find(uid)?;
        let node = self.nodes.get(id);
        let owners: Vec<_> = node.owners.iter().map(|owner| owner.written(self.kinds.get(owner.kind))).collect();
        let namespace = node.namespace.clone();
        let owner_states: Vec<_> = owners.iter().map(|owner| self.owner_state(owner, &namespace)).collect();
        let in_cycle = owner_states.contains(&OwnerState::Waiting) && self.may_be_in_cycle(uid);
        let node = self.nodes.get(id);
        let deleting_dependents = node.is_deleting_dependents();
        let blocking = if deleting_dependents { node.blocking } else { 0 };
        Some(View {
            identity: node.identity(),
            kind: self.kinds.get(node.kind).clone(),
            version: node.version,
            owner_states,
            is_virtual: node.is_virtual(),
            being_deleted: node.is_being_deleted(),
            deleting_dependents,
            orphans: node.flags.has(Flags::ORPHAN),
            foreground: node.flags.has(Flags::FOREGROUND),
            dependents: node.dependents.len(),
            owners,
            blocking: blocking as usize,
            in_cycle,
        })
    }

    /// What is known of the object that `reference` of an object in `namespace` names.
    pub fn owner_state(&mut self, reference: &OwnerRef, namespace: &str) -> OwnerState {
        if self.is_absent(reference, namespace) {
            return OwnerState::Absent;
        }
        let Some(kind) = self.kinds.find(&reference.api_version, &reference.kind) else { return OwnerState::Unknown };
        let Some(node) = self.node(&reference.uid) else { return OwnerState::Unknown };
        let is_here = node.namespace.is_empty() || *node.namespace == *namespace;
        if !is_here || node.kind != kind || *node.name != *reference.name || node.is_virtual() {
            OwnerState::Unknown
        } else if node.is_deleting_dependents() {
            OwnerState::Waiting
        } else if node.is_being_deleted() {
            OwnerState::Unknown
        } else {
            OwnerState::Present
        }
    }

    /// Whether a dependent of the object of that uid waits for its own dependents to go: there may be a cycle. Costs a look
    /// at every dependent.
    pub fn may_be_in_cycle(&self, uid: &Uid) -> bool {
        let Some(id) = self.nodes.find(uid) else { return false };
        self.nodes.get(id).dependents.iter().any(|d| self.nodes.get(d).is_deleting_dependents())
    }

    /// The objects that refer to that uid.
    pub fn dependents(&self, uid: &Uid) -> Vec<Dependent> {
        let Some(id) = self.nodes.find(uid) else { return Vec::new() };
        let dependents = self.nodes.get(id).dependents.iter().map(|d| self.nodes.get(d));
        dependents.map(|d| Dependent { identity: d.identity(), kind: self.kinds.get(d.kind).clone() }).collect()
    }
}
