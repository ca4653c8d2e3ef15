//! What there is to do, told from the graph alone: whoever takes over need not have kept what changes asked for.

use super::{Graph, Node, Work, node::Flags, slab::NodeId};

impl Graph {
    /// What is to be looked at among the nodes of one part of the graph; false if there is no such part. The parts are few
    /// and small: between two of them others may have the graph.
    pub fn todo(&self, part: usize, out: &mut Vec<Work>) -> bool {
        let Some(nodes) = self.nodes.part(part) else { return false };
        for (id, node) in nodes {
            if node.is_virtual() || node.is_deleting_dependents() && !node.flags.waits_for(Flags::ORPHAN) {
                out.push(Work::Judge(node.uid.clone()));
            } else if node.flags.waits_for(Flags::ORPHAN) {
                out.push(Work::Orphan(node.uid.clone()));
            } else if !node.is_being_deleted() && self.is_doubtful(id, node, out) {
                out.push(Work::Judge(node.uid.clone()));
            }
        }
        true
    }

    /// Whether an owner is missing, is another one than the reference says, or waits for its dependents to go.
    fn is_doubtful(&self, id: NodeId, node: &Node, out: &mut Vec<Work>) -> bool {
        let (mut doubtful, mut going) = (false, false);
        for reference in node.owners.iter() {
            let Some(owner) = self.nodes.find(&reference.uid) else {
                going = true;
                continue;
            };
            if !doubtful {
                let (doubt, event) = self.doubt(owner, id, reference, &node.namespace);
                doubtful = doubt;
                out.extend(event);
            }
            going |= self.nodes.get(owner).is_deleting_dependents();
        }
        doubtful || going
    }
}
