//! The caches that the loops of this process share: one watch of a kind, however many of them read it.

use std::sync::Arc;

use common::{informer::Listened, intern::Text, runtime::Context, store::IndexValue};

use crate::objects::{CachedPod, Node, by_node};

/// Position of the index of Pods by their node.
const PODS_BY_NODE: usize = 0;

/// Nodes, and Pods by node.
pub(crate) struct Caches {
    pub(crate) nodes: Listened<Node>,
    pub(crate) pods: Listened<CachedPod>,
}

impl Caches {
    /// Those of this process; whoever asks first starts them.
    pub(crate) fn of(context: &Context) -> Arc<Self> {
        context.shared.get_or_make(|| Self {
            nodes: Listened::start(context.api.clone(), context.caches(), &[]),
            pods: Listened::start(context.api.clone(), context.caches(), &[by_node()]),
        })
    }

    /// The node of that name, if it is there and can be read.
    pub(crate) fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.store().get_readable("", name)
    }

    /// Whether there is a node of that name, readable or not.
    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.nodes.store().peek("", name, |_| ()).is_some()
    }

    /// The Pods that are assigned to a node.
    pub(crate) fn pods_of(&self, node: &str) -> Vec<Arc<CachedPod>> {
        self.pods.store().readable_by_index(PODS_BY_NODE, &IndexValue::Text(Text::new(node)))
    }
}
