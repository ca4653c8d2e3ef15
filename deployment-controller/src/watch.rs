//! Handlers that map events of the caches to the keys of Deployments.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    api::Api,
    consistency::Ledger,
    controller::{debounce, priority},
    informer::{Config, Informer},
    map::{HashMap, HashSet},
    meta::{Key, Meta, Uid, Version},
    owners::{adopters_of, owner_of},
    queue::{Priority, Queue},
    store::{Event, Origin, Store},
};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::objects::{Deployment, Pod, ReplicaSet};

/// Handlers of the events of Deployments and ReplicaSets. Upstream: `pkg/controller/deployment`, `addDeployment`,
/// `addReplicaSet`, ...
pub(crate) struct Watch {
    pub(crate) queue: Queue<Key>,
    pub(crate) deployments: Arc<Store<Deployment>>,
    pub(crate) ledger: Ledger,
    /// Delay from a change of a ReplicaSet's status to the sync, for every 100 Pods; see [`debounce`].
    pub(crate) batch: Duration,
    /// Deployments for which this process has listed the ReplicaSets that earlier leaders may have created.
    pub(crate) explored: Mutex<HashSet<Uid>>,
    /// ReplicaSets that no longer match the selector and whose release the server refused.
    pub(crate) refused: Mutex<HashMap<Uid, Refused>>,
}

/// A release that the server refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    /// Version of the ReplicaSet at the refusal.
    pub(crate) version: Version,
    pub(crate) at: Timestamp,
}

impl Watch {
    /// Enqueues the Deployment of every event.
    pub(crate) fn on_deployment(&self, event: &Event<Deployment>, origin: Origin) {
        if let Event::Deleted(deployment) = event {
            // What is known of this Deployment must not apply to a later Deployment of the same name.
            self.forget(&deployment.metadata.uid);
            self.queue.forget(&deployment.metadata.key());
        }
        self.queue.add(event.meta().key(), priority(origin));
    }

    /// Drops what is remembered about a deleted Deployment: its written versions, and that its ReplicaSets were listed.
    pub(crate) fn forget(&self, deployment: &Uid) {
        self.explored.lock().remove(deployment);
        self.ledger.forget(deployment);
    }

    /// Enqueues the Deployment that owns, or owned, a ReplicaSet. An orphan enqueues every Deployment that may adopt it.
    pub(crate) fn on_set(&self, event: &Event<ReplicaSet>, origin: Origin) {
        let priority = priority(origin);
        match event {
            Event::Deleted(set) => {
                self.refused.lock().remove(&set.metadata.uid);
                self.add_owner(&set.metadata, priority);
            }
            Event::Unreadable(set) => self.add_owner(&set.meta, priority),
            // A ReplicaSet that is already being deleted when it first appears, for example after a restart, counts as deleted.
            Event::Added(set) if set.metadata.is_deleting() => self.add_owner(&set.metadata, priority),
            Event::Added(set) => self.add_related(&set.metadata, priority),
            Event::Updated { old, new } => {
                let pods = usize::try_from(new.spec.replicas.max(new.status.replicas)).unwrap_or_default();
                let (old, new) = (&old.metadata, &new.metadata);
                if old.resource_version == new.resource_version {
                    return;
                }
                if new.controller().is_some() && new.is_status_change_of(old) {
                    return self.add_owner_debounced(new, debounce(self.batch, pods));
                }
                let moved = old.controller() != new.controller();
                if moved {
                    self.add_owner(old, priority);
                }
                if new.controller().is_some() || moved || old.labels != new.labels {
                    self.add_related(new, priority);
                }
            }
        }
    }

    fn add_owner(&self, set: &Meta, priority: Priority) {
        if let Some(deployment) = owner_of(&self.deployments, set) {
            self.queue.add(deployment.metadata.key(), priority);
        }
    }

    fn add_owner_debounced(&self, set: &Meta, debounce: Duration) {
        if let Some(deployment) = owner_of(&self.deployments, set) {
            self.queue.add_debounced(deployment.metadata.key(), debounce);
        }
    }

    fn add_related(&self, set: &Meta, priority: Priority) {
        if set.controller().is_some() {
            return self.add_owner(set, priority);
        }
        let selects = |deployment: &Deployment| deployment.spec.selector.compiled.matches_orphan(&set.labels);
        for deployment in adopters_of(&self.deployments, set, selects) {
            self.queue.add(deployment.metadata.key(), priority);
        }
    }
}

/// Informers of Pods, one for each Deployment that waits for the end of its old Pods under the strategy `Recreate`.
///
/// An informer reads the Pods that match the selector of the Deployment, or all Pods of the namespace if the Deployment has
/// adopted ReplicaSets with another selector. The informer stops when the wait ends.
pub(crate) struct PodWatches {
    api: Api,
    config: Config,
    queue: Queue<Key>,
    watches: Mutex<BTreeMap<Key, PodWatch>>,
}

struct PodWatch {
    owner: Uid,
    selector: String,
    pods: Arc<Informer<Pod>>,
}

impl PodWatches {
    pub(crate) fn new(api: Api, config: Config, queue: Queue<Key>) -> Self {
        Self { api, config, queue, watches: Mutex::default() }
    }

    /// Returns the informer of the Pods of a Deployment's ReplicaSets. The first call starts the informer. The first complete
    /// list and the end of each Pod enqueue the Deployment.
    pub(crate) fn of(&self, deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> Arc<Informer<Pod>> {
        let (key, owner) = (deployment.metadata.key(), &deployment.metadata.uid);
        let mut selector = deployment.spec.selector.compiled.to_string();
        if sets.iter().any(|set| *set.spec.selector != *selector) {
            // The Pods of an adopted ReplicaSet may not match the selector of the Deployment: read all Pods of the namespace.
            selector.clear();
        }
        let mut watches = self.watches.lock();
        if let Some(known) = watches.get(&key).filter(|watch| watch.owner == *owner && watch.selector == selector) {
            return Arc::clone(&known.pods);
        }
        let config = Config { namespace: key.namespace.to_string(), labels: selector.clone(), ..self.config.clone() };
        let (queue, of) = (self.queue.clone(), key.clone());
        let on_pod = Box::new(move |event: &Event<Pod>, _| {
            if ends(event) {
                queue.add(of.clone(), Priority::Normal);
            }
        });
        let pods = Arc::new(Informer::start(self.api.clone(), config, vec![on_pod]));
        let (queue, of, filled) = (self.queue.clone(), key.clone(), pods.first_set());
        tokio::spawn(async move {
            if filled.await {
                queue.add(of, Priority::Normal);
            }
        });
        watches.insert(key, PodWatch { owner: owner.clone(), selector, pods: Arc::clone(&pods) });
        pods
    }

    /// Stops the informer of a Deployment that no longer waits for Pods.
    pub(crate) fn end(&self, key: &Key) {
        self.watches.lock().remove(key);
    }
}

/// Returns whether the event may be the end of an unfinished Pod. Upstream enqueues the Deployment only when no Pod remains,
/// and misses the end of the last old Pod if finished Pods remain.
fn ends(event: &Event<Pod>) -> bool {
    match event {
        Event::Deleted(_) | Event::Unreadable(_) => true,
        Event::Updated { old, new } => old.runs() && !new.runs(),
        Event::Added(_) => false,
    }
}

#[cfg(test)]
mod tests;
