//! The dependents of one object.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::slab::NodeId;

/// How many dependents are kept as a list; more are kept as a tree.
const FEW: usize = 32;

/// A set of nodes: nothing on the heap for up to four, quick to change for any number.
pub(super) enum Dependents {
    /// In the order in which they came.
    Few(SmallVec<[NodeId; 4]>),
    /// In the order of their places.
    Many(BTreeSet<NodeId>),
}

impl Default for Dependents {
    fn default() -> Self {
        Self::Few(SmallVec::new())
    }
}

impl Dependents {
    pub(super) fn insert(&mut self, id: NodeId) {
        match self {
            Self::Few(list) if list.contains(&id) => {}
            Self::Few(list) if list.len() < FEW => list.push(id),
            Self::Few(list) => {
                let mut all: BTreeSet<NodeId> = list.iter().copied().collect();
                all.insert(id);
                *self = Self::Many(all);
            }
            Self::Many(all) => {
                all.insert(id);
            }
        }
    }

    pub(super) fn remove(&mut self, id: NodeId) {
        match self {
            Self::Few(list) => {
                if let Some(at) = list.iter().position(|known| *known == id) {
                    list.remove(at);
                    if list.is_empty() {
                        list.shrink_to_fit();
                    }
                }
            }
            Self::Many(all) => {
                all.remove(&id);
                if all.len() <= FEW / 2 {
                    *self = Self::Few(all.iter().copied().collect());
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Few(list) => list.is_empty(),
            Self::Many(all) => all.is_empty(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(list) => list.len(),
            Self::Many(all) => all.len(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        let (few, many) = match self {
            Self::Few(list) => (Some(list.iter()), None),
            Self::Many(all) => (None, Some(all.iter())),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn it_is_a_set(steps in proptest::collection::vec((proptest::bool::ANY, 0u32..80), 0..400)) {
            let (mut dependents, mut model) = (Dependents::default(), BTreeSet::new());
            for (insert, id) in steps {
                let id = NodeId(id);
                if insert {
                    dependents.insert(id);
                    model.insert(id);
                } else {
                    dependents.remove(id);
                    model.remove(&id);
                }
                assert_eq!(dependents.iter().collect::<BTreeSet<_>>(), model);
                assert_eq!((dependents.len(), dependents.is_empty()), (model.len(), model.is_empty()));
            }
        }
    }
}
