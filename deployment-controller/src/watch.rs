//! Handlers that map events of the caches to the keys of Deployments.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    api::Api,
    consistency::Ledger,
    controller::debounce_for_pods,
    informer::{Informer, InformerConfig},
    map::{HashMap, HashSet},
    meta::{Meta, NamespacedName, ResourceVersion, Uid},
    owners::{controlling_owner, find_potential_adopters},
    queue::{Priority, Queue},
    store::{CacheEvent, ChangeOrigin, Store},
};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::objects::{Deployment, Pod, ReplicaSet};

/// Handlers of the events of Deployments and ReplicaSets. Upstream: `pkg/controller/deployment`, `addDeployment`,
/// `addReplicaSet`, ...
pub(crate) struct EventHandlers {
    pub(crate) queue: Queue<NamespacedName>,
    pub(crate) deployments: Arc<Store<Deployment>>,
    pub(crate) ledger: Ledger,
    /// Delay from a change of a ReplicaSet's status to the sync, for every 100 Pods; see [`debounce_for_pods`].
    pub(crate) debounce_period_per_100_pods: Duration,
    /// Deployments for which this process has listed the ReplicaSets that earlier leaders may have created.
    pub(crate) deployments_with_listed_sets: Mutex<HashSet<Uid>>,
    /// ReplicaSets that no longer match the selector, but that the server has refused to release.
    pub(crate) refused_releases: Mutex<HashMap<Uid, RefusedReplicaSetRelease>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusedReplicaSetRelease {
    /// Version of the ReplicaSet at the refusal.
    pub(crate) replica_set_version: ResourceVersion,
    pub(crate) refused_at: Timestamp,
}

impl EventHandlers {
    /// Enqueues the Deployment of the event, and forgets a deleted Deployment.
    pub(crate) fn on_deployment_event(&self, event: &CacheEvent<Deployment>, origin: ChangeOrigin) {
        if let CacheEvent::Deleted(deployment) = event {
            // The memory of this Deployment must not apply to a later Deployment with the same name.
            self.forget_deployment(&deployment.metadata.uid);
            self.queue.reset_failure_count(&deployment.metadata.key());
        }
        self.queue.add(event.meta().key(), origin);
    }

    /// Drops the records of a deleted Deployment: its written versions, and the fact that its ReplicaSets were listed.
    pub(crate) fn forget_deployment(&self, deployment: &Uid) {
        self.deployments_with_listed_sets.lock().remove(deployment);
        self.ledger.forget_owner(deployment);
    }

    /// Enqueues the Deployment that owns, or owned, a ReplicaSet; for an orphan, every Deployment that may adopt it.
    pub(crate) fn on_replica_set_event(&self, event: &CacheEvent<ReplicaSet>, origin: ChangeOrigin) {
        let priority = origin;
        match event {
            CacheEvent::Deleted(set) => {
                self.refused_releases.lock().remove(&set.metadata.uid);
                self.add_owner(&set.metadata, priority);
            }
            CacheEvent::Unreadable(set) => self.add_owner(&set.meta, priority),
            // A ReplicaSet that is already being deleted when it first appears, for example after a restart, counts as deleted.
            CacheEvent::Added(set) if set.metadata.is_deleting() => self.add_owner(&set.metadata, priority),
            CacheEvent::Added(set) => self.add_owner_or_adopters(&set.metadata, priority),
            CacheEvent::Updated { old, new } => {
                let pods = usize::try_from(new.spec.replicas.max(new.status.replicas)).unwrap_or_default();
                let (old, new) = (&old.metadata, &new.metadata);
                if old.resource_version == new.resource_version {
                    return;
                }
                if new.controller().is_some() && new.is_status_change_of(old) {
                    return self.add_owner_debounced(new, debounce_for_pods(self.debounce_period_per_100_pods, pods));
                }
                let moved = old.controller() != new.controller();
                if moved {
                    self.add_owner(old, priority);
                }
                if new.controller().is_some() || moved || old.labels != new.labels {
                    self.add_owner_or_adopters(new, priority);
                }
            }
        }
    }

    fn add_owner(&self, set: &Meta, priority: Priority) {
        if let Some(deployment) = controlling_owner(&self.deployments, set) {
            self.queue.add(deployment.metadata.key(), priority);
        }
    }

    fn add_owner_debounced(&self, set: &Meta, debounce: Duration) {
        if let Some(deployment) = controlling_owner(&self.deployments, set) {
            self.queue.add_debounced(deployment.metadata.key(), debounce);
        }
    }

    fn add_owner_or_adopters(&self, set: &Meta, priority: Priority) {
        if set.controller().is_some() {
            return self.add_owner(set, priority);
        }
        let selects = |deployment: &Deployment| deployment.spec.selector.compiled.matches_orphan(&set.labels);
        for deployment in find_potential_adopters(&self.deployments, set, selects) {
            self.queue.add(deployment.metadata.key(), priority);
        }
    }
}

/// Informers of Pods, one for each Deployment that waits under `Recreate` until its old Pods have finished.
///
/// An informer reads the Pods that match the selector of the Deployment, or all Pods of the namespace if the Deployment has
/// adopted ReplicaSets with another selector. The informer stops when the wait ends.
pub(crate) struct PodInformers {
    api: Api,
    config: InformerConfig,
    queue: Queue<NamespacedName>,
    watches: Mutex<BTreeMap<NamespacedName, PodInformer>>,
}

struct PodInformer {
    owner: Uid,
    selector: String,
    pods: Arc<Informer<Pod>>,
}

impl PodInformers {
    pub(crate) fn new(api: Api, config: InformerConfig, queue: Queue<NamespacedName>) -> Self {
        Self { api, config, queue, watches: Mutex::default() }
    }

    /// Returns the informer of the Pods of a Deployment's ReplicaSets. The first call starts the informer. The first complete
    /// list and the end of each Pod enqueue the Deployment.
    pub(crate) fn get_or_start_informer(
        &self,
        deployment: &Deployment,
        sets: &[Arc<ReplicaSet>],
    ) -> Arc<Informer<Pod>> {
        let (key, owner) = (deployment.metadata.key(), &deployment.metadata.uid);
        let mut selector = deployment.spec.selector.compiled.to_string();
        if sets.iter().any(|set| *set.spec.selector != *selector) {
            // The Pods of an adopted ReplicaSet may not match this selector, so all Pods of the namespace are read.
            selector.clear();
        }
        let mut watches = self.watches.lock();
        if let Some(known) = watches.get(&key).filter(|watch| watch.owner == *owner && watch.selector == selector) {
            return Arc::clone(&known.pods);
        }
        let config = InformerConfig {
            namespace: key.namespace.to_string(),
            label_selector: selector.clone(),
            ..self.config.clone()
        };
        let (queue, of) = (self.queue.clone(), key.clone());
        let on_pod = Box::new(move |event: &CacheEvent<Pod>, _| {
            if may_end_pod(event) {
                queue.add(of.clone(), Priority::Normal);
            }
        });
        let pods = Arc::new(Informer::start(self.api.clone(), config, vec![on_pod]));
        let (queue, of, filled) = (self.queue.clone(), key.clone(), pods.wait_for_first_list());
        tokio::spawn(async move {
            if filled.await {
                queue.add(of, Priority::Normal);
            }
        });
        watches.insert(key, PodInformer { owner: owner.clone(), selector, pods: Arc::clone(&pods) });
        pods
    }

    /// Stops the informer of a Deployment that no longer waits for Pods.
    pub(crate) fn stop_informer(&self, key: &NamespacedName) {
        self.watches.lock().remove(key);
    }
}

/// Whether the event may be the end of an unfinished Pod. Upstream enqueues the Deployment only when no Pod remains, and misses
/// the end of the last old Pod if finished Pods remain.
fn may_end_pod(event: &CacheEvent<Pod>) -> bool {
    match event {
        CacheEvent::Deleted(_) | CacheEvent::Unreadable(_) => true,
        CacheEvent::Updated { old, new } => old.is_unfinished() && !new.is_unfinished(),
        CacheEvent::Added(_) => false,
    }
}

#[cfg(test)]
mod tests;
