//! The caches of Nodes and Pods, which the loops of this process share: one watch of each kind.

use std::{collections::BTreeSet, sync::Arc};

use common::{
    informer::SharedInformer,
    intern::Text,
    runtime::LoopContext,
    store::{IndexValue, Store},
};

use crate::objects::{CachedPod, Node, PodsByNode, TerminatingPodsByNode};

/// The informers of Nodes and Pods, which all loops of this process share.
pub(crate) struct Caches {
    pub(crate) node_informer: SharedInformer<Node>,
    pub(crate) pod_informer: SharedInformer<CachedPod>,
}

impl Caches {
    /// Returns the caches of this process; the first call starts their watches.
    pub(crate) fn get_or_start(context: &LoopContext) -> Arc<Self> {
        context.shared_values.get_or_insert_with(|| Self {
            node_informer: SharedInformer::start(context.api.clone(), context.long_lived_cache_config()),
            pod_informer: SharedInformer::start(context.api.clone(), context.long_lived_cache_config()),
        })
    }

    /// Borrows the stores of both caches; no object is copied.
    pub(crate) fn cache_view(&self) -> CacheView<'_> {
        CacheView { node_store: self.node_informer.store(), pod_store: self.pod_informer.store() }
    }
}

/// Read access to the caches of Nodes and Pods. Every read of Pods uses an index, so no read scans all Pods.
#[derive(Clone, Copy)]
pub(crate) struct CacheView<'a> {
    pub(crate) node_store: &'a Store<Node>,
    pub(crate) pod_store: &'a Store<CachedPod>,
}

impl CacheView<'_> {
    /// Returns the cached node with this name; `None` if the node does not exist or cannot be decoded.
    pub(crate) fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.node_store.get_decoded("", name)
    }

    /// Whether a node with this name exists, even if it cannot be decoded.
    fn has_node(&self, name: &str) -> bool {
        self.node_store.with_metadata("", name, |_| ()).is_some()
    }

    /// Returns the Pods that are assigned to a node.
    pub(crate) fn pods_on_node(&self, node: &str) -> Vec<Arc<CachedPod>> {
        self.pod_store.list_decoded_by_index(PodsByNode, &IndexValue::Text(Text::new(node)))
    }

    /// Returns the names of nodes that do not exist although Pods are assigned to them.
    pub(crate) fn names_of_missing_nodes(&self) -> BTreeSet<Text> {
        text_values(self.pod_store.index_values(PodsByNode)).filter(|node| !self.has_node(node)).collect()
    }

    /// Returns the names of the nodes of terminating Pods, and an empty name if one of the Pods has no node.
    pub(crate) fn node_names_of_terminating_pods(&self) -> BTreeSet<Text> {
        text_values(self.pod_store.index_values(TerminatingPodsByNode)).collect()
    }

    /// Returns the terminating Pods that are assigned to a node; for an empty name, the terminating Pods without a node.
    pub(crate) fn terminating_pods_on_node(&self, node: &str) -> Vec<Arc<CachedPod>> {
        self.pod_store.list_decoded_by_index(TerminatingPodsByNode, &IndexValue::Text(Text::new(node)))
    }
}

fn text_values(values: Vec<IndexValue>) -> impl Iterator<Item = Text> {
    values.into_iter().filter_map(|value| if let IndexValue::Text(name) = value { Some(name) } else { None })
}
