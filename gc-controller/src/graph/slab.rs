//! Storage of the graph's nodes, with an index by UID.

use std::hash::BuildHasher as _;

use common::{map::SeededHashState, meta::Uid};
use hashbrown::HashTable;

use super::GraphNode;

/// Index of a node in the slab, valid until the node is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct GraphNodeId(pub(super) u32);

/// Number of nodes in one block. The slab grows by whole blocks, so its growth copies no nodes.
const NODES_PER_BLOCK: usize = 4096;

#[derive(Default)]
pub(super) struct Slab {
    blocks: Vec<Vec<Option<GraphNode>>>,
    free: Vec<GraphNodeId>,
    by_uid: HashTable<GraphNodeId>,
    /// Number of reads of nodes, by which tests measure the cost of a change.
    #[cfg(test)]
    looks: std::cell::Cell<u64>,
}

fn hash(uid: &Uid) -> u64 {
    SeededHashState::default().hash_one(uid)
}

/// Returns the node with this id. The node exists, because the graph keeps no ids of removed nodes.
fn at(node_blocks: &[Vec<Option<GraphNode>>], id: GraphNodeId) -> &GraphNode {
    let index = id.0 as usize;
    match &node_blocks[index / NODES_PER_BLOCK][index % NODES_PER_BLOCK] {
        Some(node) => node,
        None => unreachable!("an id without a node"),
    }
}

impl Slab {
    #[cfg(test)]
    pub(super) fn number_of_reads(&self) -> u64 {
        self.looks.get()
    }

    pub(super) fn len(&self) -> usize {
        self.by_uid.len()
    }

    pub(super) fn find(&self, uid: &Uid) -> Option<GraphNodeId> {
        self.by_uid.find(hash(uid), |id| at(&self.blocks, *id).uid == *uid).copied()
    }

    pub(super) fn get(&self, id: GraphNodeId) -> &GraphNode {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        at(&self.blocks, id)
    }

    pub(super) fn get_mut(&mut self, id: GraphNodeId) -> &mut GraphNode {
        match self.slot(id) {
            Some(node) => node,
            None => unreachable!("an id without a node"),
        }
    }

    fn slot(&mut self, GraphNodeId(index): GraphNodeId) -> &mut Option<GraphNode> {
        &mut self.blocks[index as usize / NODES_PER_BLOCK][index as usize % NODES_PER_BLOCK]
    }

    /// Adds a node. The slab must not contain its UID.
    pub(super) fn insert(&mut self, node: GraphNode) -> GraphNodeId {
        let hashed = hash(&node.uid);
        let id = if let Some(id) = self.free.pop() {
            *self.slot(id) = Some(node);
            id
        } else {
            if self.blocks.last().is_none_or(|block| block.len() == NODES_PER_BLOCK) {
                self.blocks.push(Vec::with_capacity(if self.blocks.is_empty() { 0 } else { NODES_PER_BLOCK }));
            }
            let block = self.blocks.len() - 1;
            self.blocks[block].push(Some(node));
            GraphNodeId((block * NODES_PER_BLOCK + self.blocks[block].len() - 1) as u32)
        };
        let blocks = &self.blocks;
        self.by_uid.insert_unique(hashed, id, |id| hash(&at(blocks, *id).uid));
        id
    }

    pub(super) fn remove(&mut self, id: GraphNodeId) -> Option<GraphNode> {
        let hashed = hash(&self.get(id).uid);
        if let Ok(entry) = self.by_uid.find_entry(hashed, |known| *known == id) {
            entry.remove();
        }
        self.free.push(id);
        self.slot(id).take()
    }

    /// Returns all nodes with their ids, in the order of the ids.
    pub(super) fn nodes_with_ids(&self) -> impl Iterator<Item = (GraphNodeId, &GraphNode)> {
        let all = self.blocks.iter().flatten().enumerate();
        all.filter_map(|(at, node)| Some((GraphNodeId(at as u32), node.as_ref()?)))
    }

    /// Returns the nodes of one block with their ids; `None` after the last block.
    pub(super) fn nodes_of_block(&self, block: usize) -> Option<impl Iterator<Item = (GraphNodeId, &GraphNode)>> {
        let nodes = (block * NODES_PER_BLOCK..).zip(self.blocks.get(block)?);
        Some(nodes.filter_map(|(at, node)| Some((GraphNodeId(at as u32), node.as_ref()?))))
    }
}
