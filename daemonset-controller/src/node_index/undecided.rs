use std::collections::BTreeMap;

use common::intern::Text;

/// The serial number of a change of a node or of the placement. A decision about an older change is outdated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeNumber(u64);

/// The nodes with an undecided eligibility, each with the change number of its last change.
#[derive(Default)]
pub(crate) struct NodesWithUndecidedEligibility {
    nodes: BTreeMap<Text, ChangeNumber>,
    last: ChangeNumber,
}

impl NodesWithUndecidedEligibility {
    /// Adds a node with a new change number. If the node is already in the list, its change number is replaced.
    pub(crate) fn add(&mut self, node: &Text) {
        self.last.0 += 1;
        self.nodes.insert(node.clone(), self.last);
    }

    /// Removes a node that needs no decision any more.
    pub(crate) fn remove(&mut self, node: &Text) {
        self.nodes.remove(node);
    }

    /// Removes a node if `change` is its last change. Returns whether the node was removed.
    pub(crate) fn remove_if_unchanged(&mut self, node: &Text, change: ChangeNumber) -> bool {
        let is_last = self.nodes.get(node) == Some(&change);
        if is_last {
            self.nodes.remove(node);
        }
        is_last
    }

    /// Returns the first `at_most` nodes by name, each with the change number of its last change.
    pub(crate) fn first_nodes(&self, at_most: usize) -> Vec<(Text, ChangeNumber)> {
        self.nodes.iter().take(at_most).map(|(node, change)| (node.clone(), *change)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}
