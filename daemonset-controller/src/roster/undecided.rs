//! The nodes whose eligibility is to be decided.

use std::collections::BTreeMap;

use common::intern::Text;

/// A change that asks for the eligibility of a node: of the node, or of the placement. Each has a number of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change(u64);

/// The nodes whose eligibility is to be decided, each with the last change that asks for it.
#[derive(Default)]
pub(crate) struct Undecided {
    nodes: BTreeMap<Text, Change>,
    last: Change,
}

impl Undecided {
    /// Asks for the eligibility of a node because of a new change.
    pub(crate) fn add(&mut self, node: &Text) {
        self.last.0 += 1;
        self.nodes.insert(node.clone(), self.last);
    }

    /// Asks for it no more.
    pub(crate) fn remove(&mut self, node: &Text) {
        self.nodes.remove(node);
    }

    /// Ends the question of a change. Returns `false` if the node was not asked for, or has changed again since.
    pub(crate) fn settle(&mut self, node: &Text, change: Change) -> bool {
        let is_last = self.nodes.get(node) == Some(&change);
        if is_last {
            self.nodes.remove(node);
        }
        is_last
    }

    /// The first nodes, at most so many.
    pub(crate) fn first(&self, at_most: usize) -> Vec<(Text, Change)> {
        self.nodes.iter().take(at_most).map(|(node, change)| (node.clone(), *change)).collect()
    }

    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}
