//! Pending work, derived from the graph at the take-over. A standby can therefore drop the work that changes cause.

use super::{Graph, GraphNode, Work, node::ObjectFlags, slab::GraphNodeId};

impl Graph {
    /// Adds the work for the nodes of one block of the slab. Returns false after the last block. The caller can release the
    /// lock on the graph between two blocks.
    pub fn add_pending_work(&self, part: usize, work: &mut Vec<Work>) -> bool {
        let Some(nodes) = self.nodes.nodes_of_block(part) else { return false };
        for (id, node) in nodes {
            if node.is_virtual()
                || node.is_deleting_dependents() && !node.flags.is_terminating_with(ObjectFlags::ORPHAN_FINALIZER)
            {
                work.push(Work::CheckOwners(node.uid.clone()));
            } else if node.flags.is_terminating_with(ObjectFlags::ORPHAN_FINALIZER) {
                work.push(Work::Orphan(node.uid.clone()));
            } else if !node.is_being_deleted() && self.is_doubtful(id, node, work) {
                work.push(Work::CheckOwners(node.uid.clone()));
            }
        }
        true
    }

    /// Whether an owner is missing, differs from its reference, or waits for its dependents. Adds Events about
    /// references across namespaces to `work`.
    fn is_doubtful(&self, id: GraphNodeId, node: &GraphNode, work: &mut Vec<Work>) -> bool {
        let (mut doubtful, mut needs_check) = (false, false);
        for reference in node.owners.iter() {
            let Some(owner) = self.nodes.find(&reference.uid) else {
                needs_check = true;
                continue;
            };
            if !doubtful {
                let (doubt, event) = self.find_contradiction(owner, id, reference, &node.namespace);
                doubtful = doubt;
                work.extend(event);
            }
            needs_check |= self.nodes.get(owner).is_deleting_dependents();
        }
        doubtful || needs_check
    }
}
