//! Kinds, each with a small number.

use common::{intern::Text, map::HashMap};

/// A kind as owner references name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// Group and version.
    pub api_version: Text,
    /// Kind.
    pub kind: Text,
}

/// The number of a [`Kind`]. No other kind gets it while or after it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KindId(u32);

struct Entry {
    kind: Kind,
    /// How many monitors, nodes and references there are of it.
    holders: u64,
}

/// All kinds that something in the graph is of or names. Anybody can name kinds that do not exist: who is named by nobody
/// any more is forgotten.
#[derive(Default)]
pub(super) struct Kinds {
    all: HashMap<KindId, Entry>,
    numbers: HashMap<Kind, KindId>,
    next: u32,
    nameless: Kind,
}

impl Kinds {
    /// The number of a kind, for as long as something holds it.
    pub(super) fn id(&mut self, api_version: &Text, kind: &Text) -> KindId {
        let kind = Kind { api_version: api_version.clone(), kind: kind.clone() };
        if let Some(id) = self.numbers.get(&kind) {
            return *id;
        }
        // After four thousand million kinds the numbers begin anew.
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

    /// The kind of a number that something holds.
    pub(super) fn get(&self, id: KindId) -> &Kind {
        self.all.get(&id).map_or(&self.nameless, |entry| &entry.kind)
    }

    /// Something is of that kind or names it from now on.
    pub(super) fn hold(&mut self, id: KindId) {
        if let Some(entry) = self.all.get_mut(&id) {
            entry.holders += 1;
        }
    }

    /// It is or does no longer.
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
