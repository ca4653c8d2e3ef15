//! Kinds, each with a small number.

use common::{intern::Text, map::HashMap};

/// A kind as written in owner references.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group and version, for example `apps/v1`.
    pub api_version: Text,
    /// The kind as written, for example `Deployment`; references may have it in lower case.
    pub kind: Text,
}

/// The number of a [`Kind`]. A number is reused only after 2^32 further kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KindId(u32);

struct Entry {
    kind: Kind,
    /// Number of monitors, nodes and references that use the kind.
    holders: u64,
}

/// The kinds in use by nodes, references and monitors. References may name kinds that do not exist, so a kind without users is
/// removed.
#[derive(Default)]
pub(super) struct Kinds {
    all: HashMap<KindId, Entry>,
    numbers: HashMap<Kind, KindId>,
    next: u32,
    nameless: Kind,
}

impl Kinds {
    /// Returns the number of a kind. The number is stable while the kind has users.
    pub(super) fn id(&mut self, api_version: &Text, kind: &Text) -> KindId {
        let kind = Kind { api_version: api_version.clone(), kind: kind.clone() };
        if let Some(id) = self.numbers.get(&kind) {
            return *id;
        }
        // The numbers wrap around after 2^32 kinds, so a number may still be in use.
        while self.all.contains_key(&KindId(self.next)) {
            self.next = self.next.wrapping_add(1);
        }
        let id = KindId(self.next);
        self.next = self.next.wrapping_add(1);
        self.all.insert(id, Entry { kind: kind.clone(), holders: 0 });
        self.numbers.insert(kind, id);
        id
    }

    pub(super) fn find(&self, api_version: &Text, kind: &Text) -> Option<KindId> {
        self.numbers.get(&Kind { api_version: api_version.clone(), kind: kind.clone() }).copied()
    }

    /// Returns the kind with this number; an empty kind if the number is not in use.
    pub(super) fn get(&self, id: KindId) -> &Kind {
        self.all.get(&id).map_or(&self.nameless, |entry| &entry.kind)
    }

    /// Adds a user of the kind.
    pub(super) fn hold(&mut self, id: KindId) {
        if let Some(entry) = self.all.get_mut(&id) {
            entry.holders += 1;
        }
    }

    /// Removes a user of the kind, and the kind itself after the last one.
    pub(super) fn release(&mut self, id: KindId) {
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
