use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::slab::GraphNodeId;

/// Maximum number of dependents in a list; larger sets are trees.
const MAX_LIST_LEN: usize = 32;

/// The dependents of an object. Uses little memory for zero or one node, the usual case, and is fast for large sets.
#[derive(Debug, Default)]
pub(super) enum Dependents {
    #[default]
    None,
    One(GraphNodeId),
    /// At most [`MAX_LIST_LEN`] nodes, in insertion order.
    SmallList(Box<SmallVec<[GraphNodeId; 4]>>),
    /// A larger set, sorted by id.
    #[expect(clippy::box_collection, reason = "a million nodes pay for each byte here, and few have many dependents")]
    Tree(Box<BTreeSet<GraphNodeId>>),
}

const _: () = assert!(size_of::<Dependents>() <= 16);

impl Dependents {
    pub(super) fn insert(&mut self, id: GraphNodeId) {
        match self {
            Self::None => *self = Self::One(id),
            Self::One(known) if *known == id => {}
            Self::One(known) => *self = Self::SmallList(Box::new(SmallVec::from_slice(&[*known, id]))),
            Self::SmallList(list) if list.contains(&id) => {}
            Self::SmallList(list) if list.len() < MAX_LIST_LEN => list.push(id),
            Self::SmallList(list) => *self = Self::Tree(Box::new(list.iter().copied().chain([id]).collect())),
            Self::Tree(all) => {
                all.insert(id);
            }
        }
    }

    pub(super) fn contains(&self, id: GraphNodeId) -> bool {
        match self {
            Self::None => false,
            Self::One(known) => *known == id,
            Self::SmallList(list) => list.contains(&id),
            Self::Tree(all) => all.contains(&id),
        }
    }

    pub(super) fn remove(&mut self, id: GraphNodeId) {
        match self {
            Self::One(known) if *known == id => *self = Self::None,
            Self::None | Self::One(_) => {}
            Self::SmallList(list) => {
                list.retain(|known| *known != id);
                if let [last] = list[..] {
                    *self = Self::One(last);
                }
            }
            Self::Tree(all) => {
                all.remove(&id);
                if all.len() <= MAX_LIST_LEN / 2 {
                    *self = Self::SmallList(Box::new(all.iter().copied().collect()));
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::SmallList(list) => list.len(),
            Self::Tree(all) => all.len(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = GraphNodeId> + '_ {
        let (few, many) = match self {
            Self::None => (&[][..], None),
            Self::One(id) => (std::slice::from_ref(id), None),
            Self::SmallList(list) => (&list[..], None),
            Self::Tree(all) => (&[][..], Some(all.iter())),
        };
        few.iter().chain(many.into_iter().flatten()).copied()
    }
}

#[cfg(test)]
mod tests;
