//! The caches of Nodes and Pods, shared by the loops of this process: one watch of each kind.

use std::{collections::BTreeSet, sync::Arc};

use common::{
    informer::SharedInformer,
    intern::Text,
    runtime::Context,
    store::{IndexValue, Store},
};

use crate::objects::{ByNode, CachedPod, Node, TerminatingByNode};

/// The caches.
pub(crate) struct Caches {
    pub(crate) nodes: SharedInformer<Node>,
    pub(crate) pods: SharedInformer<CachedPod>,
}

impl Caches {
    /// The caches of this process; the first call starts them.
    pub(crate) fn of(context: &Context) -> Arc<Self> {
        context.shared.get_or_make(|| Self {
            nodes: SharedInformer::start(context.api.clone(), context.caches()),
            pods: SharedInformer::start(context.api.clone(), context.caches()),
        })
    }

    /// The objects of both caches.
    pub(crate) fn view(&self) -> CacheView<'_> {
        CacheView { nodes: self.nodes.store(), pods: self.pods.store() }
    }
}

/// Reads of both caches. Each costs what it returns, never a scan of all Pods.
#[derive(Clone, Copy)]
pub(crate) struct CacheView<'a> {
    pub(crate) nodes: &'a Store<Node>,
    pub(crate) pods: &'a Store<CachedPod>,
}

impl CacheView<'_> {
    /// The node of that name, if it exists and can be read.
    pub(crate) fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.get_readable("", name)
    }

    /// Whether there is a node of that name, readable or not.
    fn has_node(&self, name: &str) -> bool {
        self.nodes.peek("", name, |_| ()).is_some()
    }

    /// The Pods that are assigned to a node.
    pub(crate) fn pods_of(&self, node: &str) -> Vec<Arc<CachedPod>> {
        self.pods.readable_by_index(ByNode, &IndexValue::Text(Text::new(node)))
    }

    /// The nodes that Pods are assigned to and that do not exist.
    pub(crate) fn missing_nodes(&self) -> BTreeSet<Text> {
        names(self.pods.index_values(ByNode)).filter(|node| !self.has_node(node)).collect()
    }

    /// The nodes that terminating Pods are assigned to, and the empty name if there is a terminating Pod without a node.
    pub(crate) fn nodes_of_terminating_pods(&self) -> BTreeSet<Text> {
        names(self.pods.index_values(TerminatingByNode)).collect()
    }

    /// The terminating Pods that are assigned to a node; with an empty name those without a node.
    pub(crate) fn terminating_pods_of(&self, node: &str) -> Vec<Arc<CachedPod>> {
        self.pods.readable_by_index(TerminatingByNode, &IndexValue::Text(Text::new(node)))
    }
}

fn names(values: Vec<IndexValue>) -> impl Iterator<Item = Text> {
    values.into_iter().filter_map(|value| if let IndexValue::Text(name) = value { Some(name) } else { None })
}
