//! Indexed reads of the caches for the snapshot of a set.

use std::collections::BTreeMap;

use common::prelude::*;

use crate::{ReplicaController, kind::SetKind, objects::ReplicaSet, snapshot::SharedPod};

impl<K: SetKind> ReplicaController<K> {
    /// Returns the Pods that a set controls, whether its selector matches them or not.
    fn owned_pods(&self, namespace: &Text, uid: &Uid) -> Vec<SharedPod> {
        let owner = IndexValue::Controller { namespace: namespace.clone(), uid: uid.clone() };
        self.pods.list_decoded_by_index(ByController, &owner)
    }

    /// Returns the UIDs of the Pods that a set controls.
    pub(crate) fn owned_pod_uids(&self, namespace: &Text, uid: &Uid) -> HashSet<Uid> {
        self.owned_pods(namespace, uid).iter().map(|pod| pod.meta().uid.clone()).collect()
    }

    /// Returns the Pods without a controller in the set's namespace. Malformed Pods are left out, as they cannot be adopted.
    pub(crate) fn adoptable_orphans(&self, set: &ReplicaSet) -> Vec<SharedPod> {
        let namespace = IndexValue::Text(set.metadata.namespace.clone());
        self.pods.list_decoded_by_index(OrphansByNamespace, &namespace)
    }

    /// Counts, by node, the active Pods of all sets with the same owner, and the orphans that these sets select.
    ///
    /// If the set has no owner, or its kind has no siblings, the result is empty; with `--tune rank-by-own-pods`, it counts the
    /// claimed Pods. Upstream scans all Pods of the namespace, and so also counts Pods of other owners that one of these sets
    /// selects; this function reads only indexes. Upstream: `getPodsRankedByRelatedPodsOnSameNode`.
    pub(crate) fn count_colocated_pods(
        &self,
        set: &ReplicaSet,
        claims: &DependentClaims<SharedPod>,
    ) -> BTreeMap<Text, usize> {
        let mut counts_by_node = BTreeMap::new();
        let mut count = |pod: &SharedPod| *counts_by_node.entry(pod.node_name.clone()).or_insert(0) += 1;
        let Some(owner) = set.metadata.controller().filter(|_| K::RANKS_BY_COLOCATION) else {
            if self.ranks_by_own_pods {
                claims.to_keep.iter().chain(&claims.to_adopt).for_each(count);
            }
            return counts_by_node;
        };
        let namespace = &set.metadata.namespace;
        let owner = IndexValue::Controller { namespace: namespace.clone(), uid: owner.uid.clone() };
        let siblings = self.watch.replica_set_store.list_decoded_by_index(ByController, &owner);
        let owned = siblings.iter().flat_map(|sibling| self.owned_pods(namespace, &sibling.meta().uid));
        for pod in owned.chain(self.adoptable_orphans(set)) {
            let is_selected = siblings.iter().any(|sibling| sibling.replica_set.selector.matches(&pod.meta().labels));
            if pod.is_active() && is_selected {
                count(&pod);
            }
        }
        counts_by_node
    }
}

#[cfg(test)]
mod tests;
