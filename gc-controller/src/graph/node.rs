//! One object in the graph.

use std::{fmt, sync::Arc};

use common::{
    intern::Text,
    meta::{Meta, OwnerRef, Owners, Uid, Version},
};

use super::{FOREGROUND, KindId, ORPHAN, dependents::Dependents};

/// Which object: where it is and who it is. Two references to one uid can name different places; at most one is right.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Group, version and kind.
    pub kind: KindId,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: Text,
    /// Name.
    pub name: Text,
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
}

/// An object.
pub struct Node {
    pub(super) uid: Uid,
    pub(super) namespace: Text,
    pub(super) name: Arc<str>,
    pub(super) version: Version,
    pub(super) owners: Owners,
    pub(super) dependents: Dependents,
    pub(super) kind: KindId,
    pub(super) flags: Flags,
}

// A million of them, with their names and what the monitors keep, are to fit in 400 MB.
const _: () = assert!(size_of::<Node>() <= 128);

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {}", self.namespace, self.name, self.uid)
    }
}

impl Node {
    /// A node for what a reference of an object in `namespace` names.
    pub(super) fn virtual_owner(kind: KindId, namespace: &Text, reference: &OwnerRef) -> Self {
        let mut flags = Flags::default();
        flags.set(Flags::VIRTUAL, true);
        Self {
            uid: reference.uid.clone(),
            namespace: namespace.clone(),
            name: Arc::from(&*reference.name),
            version: Version::UNKNOWN,
            owners: Owners::default(),
            dependents: Dependents::default(),
            kind,
            flags,
        }
    }

    /// A node for an object that a monitor of `kind` has seen, without its owners.
    pub(super) fn observed(kind: KindId, meta: &Meta) -> Self {
        Self {
            uid: meta.uid.clone(),
            namespace: meta.namespace.clone(),
            name: Arc::clone(&meta.name),
            version: Version::UNKNOWN,
            owners: Owners::default(),
            dependents: Dependents::default(),
            kind,
            flags: Flags::default(),
        }
    }

    /// Which object it is.
    pub fn identity(&self) -> Identity {
        Identity {
            kind: self.kind,
            namespace: self.namespace.clone(),
            name: (&*self.name).into(),
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

    /// Whether its deletion was requested.
    pub fn is_being_deleted(&self) -> bool {
        self.flags.has(Flags::BEING_DELETED)
    }

    /// Whether it waits for its dependents to go.
    pub fn is_deleting_dependents(&self) -> bool {
        self.flags.has(Flags::DELETING_DEPENDENTS)
    }

    /// Its owner references as last seen.
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Whether it has a reference to `owner` that blocks the owner's foreground deletion.
    pub(super) fn blocks(&self, owner: &Uid) -> bool {
        self.owners.iter().any(|o| o.uid == *owner && o.block_owner_deletion == Some(true))
    }
}

/// Whether the object is going and waits for a finalizer.
pub(super) fn waits_for(meta: &Meta, finalizer: &str) -> bool {
    meta.is_deleting() && meta.finalizers.iter().any(|f| f == finalizer)
}

/// Takes over what a monitor sees of the object, owners aside.
pub(super) fn refresh(node: &mut Node, meta: &Meta) {
    node.version = meta.resource_version;
    let has = |finalizer: &str| meta.finalizers.iter().any(|f| f == finalizer);
    node.flags.set(Flags::ORPHAN, has(ORPHAN));
    node.flags.set(Flags::FOREGROUND, has(FOREGROUND));
    if meta.is_deleting() {
        node.flags.set(Flags::BEING_DELETED, true);
    }
}
