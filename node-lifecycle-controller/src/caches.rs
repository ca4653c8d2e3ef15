//! The caches of Nodes and Pods, which the loops of this process share: one watch of each kind.

use std::{collections::BTreeSet, sync::Arc};

use common::prelude::*;

use crate::objects::{CachedPod, Node, PodsByNode, TerminatingPodsByNode};

/// The caches of Nodes and Pods. Every read of Pods uses an index, so no read scans all Pods. Clones share the caches.
#[derive(Clone)]
pub(crate) struct Caches {
    pub(crate) node_store: Arc<Store<Node>>,
    pub(crate) pod_store: Arc<Store<CachedPod>>,
}

impl Caches {
    pub(crate) fn new(node_informer: &SharedInformer<Node>, pod_informer: &SharedInformer<CachedPod>) -> Self {
        Self { node_store: Arc::clone(node_informer.store()), pod_store: Arc::clone(pod_informer.store()) }
    }

    /// Returns the cached node with this name; `None` if the node does not exist or cannot be decoded.
    pub(crate) fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.node_store.get_decoded("", name)
    }

    /// Returns the cached Pod with this key; `None` if the Pod does not exist or cannot be decoded.
    pub(crate) fn pod(&self, key: &NamespacedName) -> Option<Arc<CachedPod>> {
        self.pod_store.get_decoded(&key.namespace, &key.name)
    }

    pub(crate) fn pods_on_node(&self, node: &str) -> Vec<Arc<CachedPod>> {
        self.pod_store.list_decoded_by_index(PodsByNode, &IndexValue::Text(Text::new(node)))
    }

    /// Returns the names of nodes that do not exist although Pods are assigned to them. A node that cannot be decoded exists.
    pub(crate) fn names_of_missing_nodes(&self) -> BTreeSet<Text> {
        let is_missing = |node: &Text| self.node_store.with_metadata("", node, |_| ()).is_none();
        text_values(self.pod_store.index_values(PodsByNode)).filter(is_missing).collect()
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
