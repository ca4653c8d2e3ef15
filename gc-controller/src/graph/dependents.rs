use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::slab::NodeId;

/// Maximum number of dependents in a list; larger sets are trees.
const FEW: usize = 32;

/// The dependents of an object. Uses little memory for zero or one node, the usual case, and stays fast for large sets.
#[derive(Default)]
pub(super) enum Dependents {
    #[default]
    None,
    One(NodeId),
    /// At most [`FEW`] nodes, in insertion order.
    Few(Box<SmallVec<[NodeId; 4]>>),
    /// A larger set, sorted by id.
    #[expect(clippy::box_collection, reason = "a million nodes pay for each byte here, and few have many dependents")]
    Many(Box<BTreeSet<NodeId>>),
}

const _: () = assert!(size_of::<Dependents>() <= 16);

impl Dependents {
    pub(super) fn insert(&mut self, id: NodeId) {
        match self {
            Self::None => *self = Self::One(id),
            Self::One(known) if *known == id => {}
            Self::One(known) => *self = Self::Few(Box::new(SmallVec::from_slice(&[*known, id]))),
            Self::Few(list) if list.contains(&id) => {}
            Self::Few(list) if list.len() < FEW => list.push(id),
            Self::Few(list) => *self = Self::Many(Box::new(list.iter().copied().chain([id]).collect())),
            Self::Many(all) => {
                all.insert(id);
            }
        }
    }

    pub(super) fn contains(&self, id: NodeId) -> bool {
        match self {
            Self::None => false,
            Self::One(known) => *known == id,
            Self::Few(list) => list.contains(&id),
            Self::Many(all) => all.contains(&id),
        }
    }

    pub(super) fn remove(&mut self, id: NodeId) {
        match self {
            Self::None => {}
            Self::One(known) => {
                if *known == id {
                    *self = Self::None;
                }
            }
            Self::Few(list) => {
                list.retain(|known| *known != id);
                if let [last] = list[..] {
                    *self = Self::One(last);
                }
            }
            Self::Many(all) => {
                all.remove(&id);
                if all.len() <= FEW / 2 {
                    *self = Self::Few(Box::new(all.iter().copied().collect()));
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
            Self::Few(list) => list.len(),
            Self::Many(all) => all.len(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        let (few, many) = match self {
            Self::None => (&[][..], None),
            Self::One(id) => (std::slice::from_ref(id), None),
            Self::Few(list) => (&list[..], None),
            Self::Many(all) => (&[][..], Some(all.iter())),
        };
        few.iter().chain(many.into_iter().flatten()).copied()
    }
}

#[cfg(test)]
mod tests;
