//! One object in the graph.

use std::{fmt, sync::Arc};

use common::{
    intern::Text,
    meta::{Meta, Uid, Version},
};

use super::{
    FOREGROUND, KindId, ORPHAN, Source,
    dependents::Dependents,
    references::{Reference, References},
};
use crate::objects::has_finalizer;

/// Which object: where it is and who it is. Two references to one uid can name different places; at most one is right.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Group, version and kind.
    pub kind: KindId,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: Text,
    /// Name.
    pub name: Arc<str>,
    /// Uid.
    pub uid: Uid,
}

/// What is known of an object besides its place. A bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Flags(u8);

impl Flags {
    pub(super) const VIRTUAL: u8 = 1;
    pub(super) const BEING_DELETED: u8 = 1 << 1;
    pub(super) const DELETING_DEPENDENTS: u8 = 1 << 2;
    pub(super) const ORPHAN: u8 = 1 << 3;
    pub(super) const FOREGROUND: u8 = 1 << 4;

    pub(super) fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    pub(super) fn set(&mut self, bit: u8, on: bool) {
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }

    /// Whether the object is going and waits for that finalizer.
    pub(super) fn waits_for(self, finalizer: u8) -> bool {
        self.has(Self::BEING_DELETED) && self.has(finalizer)
    }
}

/// An object.
pub struct Node {
    pub(super) uid: Uid,
    pub(super) namespace: Text,
    pub(super) name: Arc<str>,
    pub(super) version: Version,
    pub(super) owners: References,
    pub(super) dependents: Dependents,
    pub(super) kind: KindId,
    /// The number of the monitor that has seen it.
    pub(super) source: u32,
    /// How many of the dependents block its foreground deletion.
    pub(super) blocking: u32,
    pub(super) flags: Flags,
}

// A million of them, with their names and owners, are to fit in 400 MB.
const _: () = assert!(size_of::<Node>() <= 112);

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {}", self.namespace, self.name, self.uid)
    }
}

impl Node {
    /// A node for what a reference of an object in `namespace` names.
    pub(super) fn virtual_owner(namespace: &Text, reference: &Reference) -> Self {
        Self::new(reference.identity(namespace.clone()), u32::MAX, Flags(Flags::VIRTUAL))
    }

    /// A node for an object that the monitor of that number has seen, without its owners.
    pub(super) fn observed(identity: Identity, source: u32) -> Self {
        Self::new(identity, source, Flags::default())
    }

    fn new(Identity { kind, namespace, name, uid }: Identity, source: u32, flags: Flags) -> Self {
        let (version, owners, dependents) = Default::default();
        Self { uid, namespace, name, version, owners, dependents, kind, source, blocking: 0, flags }
    }

    /// Which object it is.
    pub fn identity(&self) -> Identity {
        Identity {
            kind: self.kind,
            namespace: self.namespace.clone(),
            name: Arc::clone(&self.name),
            uid: self.uid.clone(),
        }
    }

    /// Whether it is exactly that object.
    pub(super) fn is(&self, identity: &Identity) -> bool {
        self.kind == identity.kind
            && self.uid == identity.uid
            && *self.name == *identity.name
            && self.namespace == identity.namespace
    }

    /// Whether no monitor has seen it.
    pub fn is_virtual(&self) -> bool {
        self.flags.has(Flags::VIRTUAL)
    }

    /// Whether that monitor has seen it.
    pub(super) fn is_from(&self, source: Source) -> bool {
        self.source == source.number && !self.is_virtual()
    }

    /// Whether its deletion was requested.
    pub fn is_being_deleted(&self) -> bool {
        self.flags.has(Flags::BEING_DELETED)
    }

    /// Whether it waits for its dependents to go.
    pub fn is_deleting_dependents(&self) -> bool {
        self.flags.has(Flags::DELETING_DEPENDENTS)
    }

    /// Whether it has a reference to `owner` that blocks the owner's foreground deletion.
    #[cfg(test)]
    pub(super) fn blocks(&self, owner: &Uid) -> bool {
        self.owners.iter().any(|o| o.uid == *owner && o.blocks())
    }
}

/// Takes over what a monitor sees of the object, owners aside.
pub(super) fn refresh(node: &mut Node, meta: &Meta) {
    node.version = meta.resource_version;
    node.flags.set(Flags::ORPHAN, has_finalizer(meta, ORPHAN));
    node.flags.set(Flags::FOREGROUND, has_finalizer(meta, FOREGROUND));
    if meta.is_deleting() {
        node.flags.set(Flags::BEING_DELETED, true);
    }
}
