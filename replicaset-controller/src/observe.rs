//! Builds a snapshot for a key from indexed reads of the caches.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    consistency::{LedgerCache, UnseenWrite},
    controller::{Observation, STALE_CACHE_RECHECK_INTERVAL},
    intern::Text,
    io::SyncError,
    meta::{NamespacedName, Uid},
    refs::{self, DependentClaims, Owner},
    store::{ByController, IndexValue, OrphansByNamespace},
};
use jiff::Timestamp;

use crate::{
    ReplicaController,
    kind::SetKind,
    objects::ReplicaSet,
    snapshot::{DecisionSettings, SharedPod, Snapshot, UnobservedWrite},
};

impl<K: SetKind> ReplicaController<K> {
    pub(crate) fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        let store = self.sets.store();
        let known = store.with_metadata(&key.namespace, &key.name, |meta| meta.uid.clone());
        let blocked = match known.as_ref().and_then(|uid| self.unobserved_write(&key.namespace, uid)) {
            Some((behind @ UnseenWrite::VersionNotReached { .. }, left)) if self.limits.waits_for_own_writes => {
                return Ok(Observation::waiting_for_own_writes((behind, left)));
            }
            Some((behind @ UnseenWrite::Conflicts { .. }, left)) => {
                return Ok(Observation::waiting_for_own_writes((behind, left)));
            }
            Some((behind @ UnseenWrite::VersionNotReached { .. }, left)) => Some(UnobservedWrite {
                write_description: behind.to_string(),
                max_wait: left.min(STALE_CACHE_RECHECK_INTERVAL),
            }),
            Some((behind, at_most)) => {
                Some(UnobservedWrite { write_description: behind.to_string(), max_wait: at_most })
            }
            None => None,
        };
        // The set is read after the check of the ledger, so that the set is not older than the writes in the ledger.
        let Some(set) = store.get(&key.namespace, &key.name)? else { return Ok(Observation::Gone) };
        let set = Arc::clone(set.replica_set());
        let uid = &set.metadata.uid;
        if known.as_ref() != Some(uid) {
            // The ledger was checked for a deleted set, which a new set of the same name has replaced.
            return self.observe(key, now);
        }
        let owned = self.pods.store().list_by_index(ByController, &IndexValue::for_controller(&set.metadata))?;
        let owner = Owner::new(K::RESOURCE, &set.metadata);
        let orphans = self.adoptable_orphans(&set);
        let terminating = owned.iter().filter(|pod| pod.is_terminating());
        let terminating = terminating.filter(|pod| set.selector.matches(&pod.meta().labels)).count();
        let active = owned.into_iter().chain(orphans).filter(|pod| pod.is_active());
        // A malformed selector claims nothing, and the plan reports it.
        let claims: DependentClaims<SharedPod> =
            refs::claim_dependents(&owner, &set.selector, active, |_| true).unwrap_or_default();
        let ranked = set.replicas > 0 && claims.to_keep.len() + claims.to_adopt.len() > set.replicas;
        let colocated = if ranked { self.count_colocated_pods(&set, &claims) } else { BTreeMap::new() };
        let pause = self.pod_creation_pauses.current_pause(uid, set.metadata.generation);
        let failing = self.backoff.as_ref().and_then(|backoff| backoff.backoff_of_set(uid));
        let limits =
            DecisionSettings { drops_terminating_replicas: self.drops_terminating_replicas(&set), ..self.limits };
        Ok(Observation::Ready(Snapshot {
            set,
            owner,
            claims,
            terminating_pod_count: terminating,
            pod_creation_pause: pause,
            colocated_pod_counts_by_node: colocated,
            unobserved_write: blocked,
            failed_pod_backoff: failing,
            decision_settings: limits,
            now,
        }))
    }

    /// Returns the writes of this process that the caches do not show yet, and how long to wait for them.
    fn unobserved_write(&self, namespace: &Text, uid: &Uid) -> Option<(UnseenWrite, Duration)> {
        let caches: [&dyn LedgerCache; 2] = [&**self.pods.store(), &**self.sets.store()];
        self.ledger.first_unseen_write(uid, &caches, || {
            self.owned_pods(namespace, uid).iter().map(|pod| pod.meta().uid.clone()).collect()
        })
    }

    /// Returns the Pods that a set controls, whether its selector matches them or not.
    pub(crate) fn owned_pods(&self, namespace: &Text, uid: &Uid) -> Vec<SharedPod> {
        let owner = IndexValue::Controller { namespace: namespace.clone(), uid: uid.clone() };
        self.pods.store().list_decoded_by_index(ByController, &owner)
    }

    /// Returns the Pods without a controller in the set's namespace. Malformed Pods are left out, as they cannot be adopted.
    fn adoptable_orphans(&self, set: &ReplicaSet) -> Vec<SharedPod> {
        let namespace = IndexValue::Text(set.metadata.namespace.clone());
        self.pods.store().list_decoded_by_index(OrphansByNamespace, &namespace)
    }

    /// Counts, by node, the active Pods of all sets with the same owner, and the orphans that these sets select.
    ///
    /// If the set has no owner, or its kind has no siblings, the result is empty; with `--tune rank-by-own-pods`, it counts the
    /// claimed Pods. Upstream scans all Pods of the namespace, and so also counts Pods of other owners that one of these sets
    /// selects; this function reads only indexes. Upstream: `getPodsRankedByRelatedPodsOnSameNode`.
    fn count_colocated_pods(&self, set: &ReplicaSet, claims: &DependentClaims<SharedPod>) -> BTreeMap<Text, usize> {
        let mut count = BTreeMap::new();
        let Some(owner) = set.metadata.controller().filter(|_| K::RANKS_BY_COLOCATION) else {
            if self.ranks_by_own_pods {
                claims
                    .to_keep
                    .iter()
                    .chain(&claims.to_adopt)
                    .for_each(|pod| *count.entry(pod.node_name.clone()).or_insert(0) += 1);
            }
            return count;
        };
        let namespace = &set.metadata.namespace;
        let owner = IndexValue::Controller { namespace: namespace.clone(), uid: owner.uid.clone() };
        let siblings = self.sets.store().list_decoded_by_index(ByController, &owner);
        let siblings: Vec<&ReplicaSet> = siblings.iter().map(|sibling| &**sibling.replica_set()).collect();
        let owned = siblings.iter().flat_map(|sibling| self.owned_pods(namespace, &sibling.metadata.uid));
        for pod in owned.chain(self.adoptable_orphans(set)) {
            let selects = |sibling: &&ReplicaSet| sibling.selector.matches(&pod.meta().labels);
            if pod.is_active() && siblings.iter().any(selects) {
                *count.entry(pod.node_name.clone()).or_insert(0) += 1;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests;
