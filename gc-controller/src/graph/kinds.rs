//! Kinds, each with a small number.

use common::{intern::Text, map::HashMap};

/// A kind as owner references name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// Group and version.
    pub api_version: Text,
    /// Kind.
    pub kind: Text,
}

/// The number of a [`Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KindId(u32);

/// All kinds met so far. Grows with the kinds that objects and references name, and never shrinks.
#[derive(Default)]
pub(super) struct Kinds {
    all: Vec<Kind>,
    numbers: HashMap<Kind, KindId>,
}

impl Kinds {
    pub(super) fn id(&mut self, api_version: &str, kind: &str) -> KindId {
        let kind = Kind { api_version: Text::new(api_version), kind: Text::new(kind) };
        if let Some(id) = self.numbers.get(&kind) {
            return *id;
        }
        let id = KindId(self.all.len() as u32);
        self.all.push(kind.clone());
        self.numbers.insert(kind, id);
        id
    }

    pub(super) fn find(&self, api_version: &Text, kind: &Text) -> Option<KindId> {
        self.numbers.get(&Kind { api_version: api_version.clone(), kind: kind.clone() }).copied()
    }

    pub(super) fn get(&self, id: KindId) -> &Kind {
        &self.all[id.0 as usize]
    }
}
