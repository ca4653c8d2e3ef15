use std::sync::Arc;

use common::prelude::*;

use super::{
    FOREGROUND_FINALIZER, KindId, MonitorId, ORPHAN_FINALIZER, dependents::Dependents, references::CompactOwnerRefs,
};

/// Kind, namespace, name and UID of an object. References with the same UID can name different identities; at most one of them
/// is the identity of an existing object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Id of the group, version and kind.
    pub kind: KindId,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Uid,
}

/// Booleans about an object, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectFlags(u8);

impl ObjectFlags {
    pub(super) const VIRTUAL: u8 = 1;
    pub(super) const BEING_DELETED: u8 = 1 << 1;
    pub(super) const DELETING_DEPENDENTS: u8 = 1 << 2;
    pub(super) const ORPHAN_FINALIZER: u8 = 1 << 3;
    pub(super) const FOREGROUND_FINALIZER: u8 = 1 << 4;

    pub(super) fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    pub(super) fn set(&mut self, bit: u8, on: bool) {
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }

    /// Whether the object is terminating and has this finalizer.
    pub(super) fn is_terminating_with(self, finalizer: u8) -> bool {
        self.has(Self::BEING_DELETED) && self.has(finalizer)
    }
}

/// An object with its owners and dependents. A virtual node stands for an object that no active monitor has seen.
#[derive(Debug)]
pub struct GraphNode {
    pub(super) uid: Uid,
    pub(super) namespace: Text,
    pub(super) name: Arc<str>,
    pub(super) version: ResourceVersion,
    pub(super) owners: CompactOwnerRefs,
    pub(super) dependents: Dependents,
    pub(super) kind: KindId,
    /// Serial number of the monitor that the object belongs to; `u32::MAX` if no monitor has ever seen the object.
    pub(super) monitor_serial_number: u32,
    /// Number of dependents with a reference that blocks the foreground deletion of this object.
    pub(super) blocking_dependent_count: u32,
    pub(super) flags: ObjectFlags,
}

// A million nodes, with their names and owners, must fit in 400 MB.
const _: () = assert!(size_of::<GraphNode>() <= 112);

impl GraphNode {
    /// Creates a virtual node without owners and dependents.
    pub(super) fn new_virtual(Identity { kind, namespace, name, uid }: Identity) -> Self {
        let (version, owners, dependents) = Default::default();
        Self {
            uid,
            namespace,
            name,
            version,
            owners,
            dependents,
            kind,
            monitor_serial_number: u32::MAX,
            blocking_dependent_count: 0,
            flags: ObjectFlags(ObjectFlags::VIRTUAL),
        }
    }

    /// Returns kind, namespace, name and UID of the object.
    pub fn identity(&self) -> Identity {
        Identity {
            kind: self.kind,
            namespace: self.namespace.clone(),
            name: Arc::clone(&self.name),
            uid: self.uid.clone(),
        }
    }

    pub(super) fn has_identity(&self, identity: &Identity) -> bool {
        self.identity() == *identity
    }

    /// Whether no active monitor has seen the object, for example if only owner references name it.
    pub fn is_virtual(&self) -> bool {
        self.flags.has(ObjectFlags::VIRTUAL)
    }

    /// Whether the object belongs to this monitor. Always false for a virtual node.
    pub(super) fn belongs_to(&self, monitor_id: MonitorId) -> bool {
        self.monitor_serial_number == monitor_id.serial_number && !self.is_virtual()
    }

    /// Whether the object is terminating.
    pub fn is_being_deleted(&self) -> bool {
        self.flags.has(ObjectFlags::BEING_DELETED)
    }

    /// Whether the object is in foreground deletion and waits for its dependents.
    pub fn is_deleting_dependents(&self) -> bool {
        self.flags.has(ObjectFlags::DELETING_DEPENDENTS)
    }

    /// Whether the node has a reference to `owner` that blocks the owner's foreground deletion.
    #[cfg(test)]
    pub(super) fn blocks_deletion_of(&self, owner: &Uid) -> bool {
        self.owners.iter().any(|o| o.uid == *owner && o.blocks_owner_deletion())
    }
}

/// Copies the version, the finalizers and the deletion state of an object to its node. The owners are not copied.
pub(super) fn copy_metadata(node: &mut GraphNode, meta: &Meta) {
    node.version = meta.resource_version;
    node.flags.set(ObjectFlags::ORPHAN_FINALIZER, meta.has_finalizer(ORPHAN_FINALIZER));
    node.flags.set(ObjectFlags::FOREGROUND_FINALIZER, meta.has_finalizer(FOREGROUND_FINALIZER));
    node.flags.set(ObjectFlags::BEING_DELETED, node.is_being_deleted() || meta.is_deleting());
}
