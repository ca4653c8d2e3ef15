use std::collections::BTreeMap;

use common::intern::Text;

/// The serial number of a change of a node or of the placement. A decision about an older change is outdated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeNumber(u64);

/// The nodes with an undecided eligibility, each with the number of its last change.
#[derive(Default)]
pub(crate) struct NodesWithUndecidedEligibility {
    nodes: BTreeMap<Text, ChangeNumber>,
    last: ChangeNumber,
}

impl NodesWithUndecidedEligibility {
    /// Adds a node, or gives it the number of a new change.
    pub(crate) fn add(&mut self, node: &Text) {
        self.last.0 += 1;
        self.nodes.insert(node.clone(), self.last);
    }

    /// Removes a node that needs no decision any more.
    pub(crate) fn remove(&mut self, node: &Text) {
        self.nodes.remove(node);
    }

    /// Removes a node that was decided after `change`. Returns `false` if the node has changed since then or was removed.
    pub(crate) fn remove_if_unchanged(&mut self, node: &Text, change: ChangeNumber) -> bool {
        let is_last = self.nodes.get(node) == Some(&change);
        if is_last {
            self.nodes.remove(node);
        }
        is_last
    }

    /// Returns at most `at_most` nodes with their last changes, ordered by name.
    pub(crate) fn first_nodes(&self, at_most: usize) -> Vec<(Text, ChangeNumber)> {
        self.nodes.iter().take(at_most).map(|(node, change)| (node.clone(), *change)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}
