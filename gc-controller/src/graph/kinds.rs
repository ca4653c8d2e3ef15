//! Compact ids of kinds.

use common::prelude::*;

/// A kind as written in owner references.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group and version, for example `apps/v1`.
    pub api_version: Text,
    /// The kind as written, for example `Deployment`; references may have it in lower case.
    pub kind: Text,
}

impl Kind {
    /// Returns the kind of the owner, as written in the reference.
    pub fn of_owner(owner_ref: &OwnerRef) -> Self {
        Self { api_version: owner_ref.api_version.clone(), kind: owner_ref.kind.clone() }
    }
}

/// The id of a [`Kind`]. An id is reused only after 2^32 further kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KindId(u32);

struct Entry {
    kind: Kind,
    /// Number of monitors, nodes and references that use the kind.
    holders: u64,
}

/// The kinds that nodes, references and monitors use. References may name kinds that do not exist, so an unused kind is
/// removed.
#[derive(Default)]
pub(super) struct KindTable {
    all: HashMap<KindId, Entry>,
    numbers: HashMap<Kind, KindId>,
    next: u32,
    nameless: Kind,
}

impl KindTable {
    /// Returns the id of a kind. The id is stable while a node, a reference or a monitor uses the kind.
    pub(super) fn intern(&mut self, kind: Kind) -> KindId {
        if let Some(id) = self.numbers.get(&kind) {
            return *id;
        }
        // The ids wrap around after 2^32 kinds, so the next id may still be in use.
        while self.all.contains_key(&KindId(self.next)) {
            self.next = self.next.wrapping_add(1);
        }
        let id = KindId(self.next);
        self.next = self.next.wrapping_add(1);
        self.all.insert(id, Entry { kind: kind.clone(), holders: 0 });
        self.numbers.insert(kind, id);
        id
    }

    pub(super) fn find(&self, kind: &Kind) -> Option<KindId> {
        self.numbers.get(kind).copied()
    }

    /// Returns the kind with this id; an empty kind if the id is not in use.
    pub(super) fn get(&self, id: KindId) -> &Kind {
        self.all.get(&id).map_or(&self.nameless, |entry| &entry.kind)
    }

    /// Records a further node, reference or monitor that uses the kind.
    pub(super) fn add_use(&mut self, id: KindId) {
        if let Some(entry) = self.all.get_mut(&id) {
            entry.holders += 1;
        }
    }

    /// Ends one use of the kind, and removes the kind after its last use.
    pub(super) fn remove_use(&mut self, id: KindId) {
        let Some(entry) = self.all.get_mut(&id) else { return };
        entry.holders -= 1;
        if entry.holders == 0
            && let Some(entry) = self.all.remove(&id)
        {
            self.numbers.remove(&entry.kind);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        debug_assert_eq!(self.all.len(), self.numbers.len());
        self.all.len()
    }
}
