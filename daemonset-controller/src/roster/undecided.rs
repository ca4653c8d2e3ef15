//! The nodes whose eligibility is to be decided.

use std::collections::BTreeMap;

use common::intern::Text;

/// The number of a change of a node or of the placement, after which the eligibility of a node must be decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change(u64);

/// The nodes whose eligibility must be decided, each with its last change.
#[derive(Default)]
pub(crate) struct Undecided {
    nodes: BTreeMap<Text, Change>,
    last: Change,
}

impl Undecided {
    /// Adds a node because of a new change.
    pub(crate) fn add(&mut self, node: &Text) {
        self.last.0 += 1;
        self.nodes.insert(node.clone(), self.last);
    }

    /// Removes a node without a decision.
    pub(crate) fn remove(&mut self, node: &Text) {
        self.nodes.remove(node);
    }

    /// Removes a node that was decided because of `change`. Returns `false` if the node has changed again or was removed.
    pub(crate) fn settle(&mut self, node: &Text, change: Change) -> bool {
        let is_last = self.nodes.get(node) == Some(&change);
        if is_last {
            self.nodes.remove(node);
        }
        is_last
    }

    /// Returns the first nodes by name, at most `at_most`.
    pub(crate) fn first(&self, at_most: usize) -> Vec<(Text, Change)> {
        self.nodes.iter().take(at_most).map(|(node, change)| (node.clone(), *change)).collect()
    }

    /// Number of undecided nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}
