//! Builds a snapshot for a key from indexed reads of the caches.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    consistency::{Behind, Cache},
    controller::{Observed, RECHECK},
    intern::Text,
    io::Failed,
    meta::{Key, Uid},
    refs::{self, Claims, Owner},
    store::{ByController, IndexValue, OrphansByNamespace},
};
use jiff::Timestamp;

use crate::{
    ReplicaController,
    kind::Kind,
    objects::ReplicaSet,
    snapshot::{Blocked, Limits, PodRef, Snapshot},
};

impl<K: Kind> ReplicaController<K> {
    pub(crate) fn observe(&self, key: &Key, now: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        let store = self.sets.store();
        let known = store.peek(&key.namespace, &key.name, |meta| meta.uid.clone());
        let blocked = match known.as_ref().and_then(|uid| self.behind(&key.namespace, uid)) {
            Some((behind @ Behind::Write { .. }, left)) if self.limits.reads_own_writes => {
                return Ok(Observed::behind((behind, left)));
            }
            Some((behind @ Behind::Conflicts { .. }, left)) => return Ok(Observed::behind((behind, left))),
            Some((behind @ Behind::Write { .. }, left)) => {
                Some(Blocked { why: behind.to_string(), at_most: left.min(RECHECK) })
            }
            Some((behind, at_most)) => Some(Blocked { why: behind.to_string(), at_most }),
            None => None,
        };
        // The set is read after the check of the ledger, so that it is not older than the writes in the ledger.
        let Some(set) = store.get(&key.namespace, &key.name)? else { return Ok(Observed::Gone) };
        let set = Arc::clone(set.set());
        let uid = &set.metadata.uid;
        if known.as_ref() != Some(uid) {
            // A new set of the same name has replaced the set that the ledger was checked for.
            return self.observe(key, now);
        }
        let owned = self.pods.store().by_index(ByController, &IndexValue::controlled_by(&set.metadata))?;
        let owner = Owner::new(K::RESOURCE, &set.metadata);
        let orphans = self.orphans(&set);
        let terminating = owned.iter().filter(|pod| pod.is_terminating());
        let terminating = terminating.filter(|pod| set.selector.matches(&pod.meta().labels)).count();
        let active = owned.into_iter().chain(orphans).filter(|pod| pod.is_active());
        // A malformed selector claims nothing, and the plan reports it.
        let claims: Claims<PodRef> = refs::claim(&owner, &set.selector, active, |_| true).unwrap_or_default();
        let ranked = set.replicas > 0 && claims.keep.len() + claims.adopt.len() > set.replicas;
        let colocated = if ranked { self.colocated(&set, &claims) } else { BTreeMap::new() };
        let terminating_namespace = self.refused.contains(uid);
        let failing = self.backoff.as_ref().and_then(|backoff| backoff.failing(uid));
        let limits = Limits { terminating_dropped: self.terminating_dropped(&set), ..self.limits };
        Ok(Observed::Ready(Snapshot {
            set,
            owner,
            claims,
            terminating,
            terminating_namespace,
            colocated,
            blocked,
            failing,
            limits,
            now,
        }))
    }

    /// Returns the writes of this process that the caches do not show yet, and how long to wait for them.
    fn behind(&self, namespace: &Text, uid: &Uid) -> Option<(Behind, Duration)> {
        let caches: [&dyn Cache; 2] = [&**self.pods.store(), &**self.sets.store()];
        self.ledger
            .behind(uid, &caches, || self.children(namespace, uid).iter().map(|pod| pod.meta().uid.clone()).collect())
    }

    /// Returns the Pods that a set controls, whether its selector matches them or not.
    pub(crate) fn children(&self, namespace: &Text, uid: &Uid) -> Vec<PodRef> {
        let owner = IndexValue::Controller { namespace: namespace.clone(), uid: uid.clone() };
        self.pods.store().readable_by_index(ByController, &owner)
    }

    /// Returns the Pods of the namespace without a controller. Malformed Pods are left out, because they cannot be adopted.
    fn orphans(&self, set: &ReplicaSet) -> Vec<PodRef> {
        let namespace = IndexValue::Text(set.metadata.namespace.clone());
        self.pods.store().readable_by_index(OrphansByNamespace, &namespace)
    }

    /// Counts, by node, the active Pods of all sets with the same owner, and the orphans that they select.
    ///
    /// Without an owner, and for kinds without siblings, the result is empty, or with `--tune rank-by-own-pods` counts the
    /// claimed Pods. Upstream scans all Pods of the namespace and so also counts Pods of other owners that such a set selects;
    /// this function reads only indexes. Upstream: `getPodsRankedByRelatedPodsOnSameNode`.
    fn colocated(&self, set: &ReplicaSet, claims: &Claims<PodRef>) -> BTreeMap<Text, usize> {
        let mut count = BTreeMap::new();
        let Some(owner) = set.metadata.controller().filter(|_| K::RANKS_BY_COLOCATION) else {
            if self.ranks_by_own_pods {
                claims
                    .keep
                    .iter()
                    .chain(&claims.adopt)
                    .for_each(|pod| *count.entry(pod.node.clone()).or_insert(0) += 1);
            }
            return count;
        };
        let namespace = &set.metadata.namespace;
        let owner = IndexValue::Controller { namespace: namespace.clone(), uid: owner.uid.clone() };
        let siblings = self.sets.store().readable_by_index(ByController, &owner);
        let siblings: Vec<&ReplicaSet> = siblings.iter().map(|sibling| &**sibling.set()).collect();
        let owned = siblings.iter().flat_map(|sibling| self.children(namespace, &sibling.metadata.uid));
        for pod in owned.chain(self.orphans(set)) {
            let selects = |sibling: &&ReplicaSet| sibling.selector.matches(&pod.meta().labels);
            if pod.is_active() && siblings.iter().any(selects) {
                *count.entry(pod.node.clone()).or_insert(0) += 1;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests;
