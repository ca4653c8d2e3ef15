//! The caches of Nodes and Pods, shared by the loops of this process: one watch of each kind.

use std::{collections::BTreeSet, sync::Arc};

use common::{
    informer::SharedInformer,
    intern::Text,
    object::Object,
    runtime::Context,
    store::{Has, IndexValue, Store},
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
        self.pods(ByNode, node)
    }

    /// The nodes that Pods are assigned to and that do not exist.
    pub(crate) fn missing_nodes(&self) -> BTreeSet<Text> {
        self.pod_nodes(ByNode).filter(|node| !self.has_node(node)).collect()
    }

    /// The nodes that terminating Pods are assigned to, and the empty name if there is a terminating Pod without a node.
    pub(crate) fn nodes_of_terminating_pods(&self) -> BTreeSet<Text> {
        self.pod_nodes(TerminatingByNode).collect()
    }

    /// The terminating Pods that are assigned to a node; with an empty name those without a node.
    pub(crate) fn terminating_pods_of(&self, node: &str) -> Vec<Arc<CachedPod>> {
        self.pods(TerminatingByNode, node)
    }

    fn pods<I, At>(&self, index: I, value: &str) -> Vec<Arc<CachedPod>>
    where
        <CachedPod as Object>::Indexes: Has<I, At>,
    {
        self.pods.readable_by_index(index, &IndexValue::Text(Text::new(value)))
    }

    fn pod_nodes<I, At>(&self, index: I) -> impl Iterator<Item = Text> + use<I, At>
    where
        <CachedPod as Object>::Indexes: Has<I, At>,
    {
        let text = |value| if let IndexValue::Text(text) = value { Some(text) } else { None };
        self.pods.index_values(index).into_iter().filter_map(text)
    }
}
