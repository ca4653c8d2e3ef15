//! Which event brings which Deployment to the queue.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    api::Api,
    consistency::Ledger,
    controller::priority,
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

/// Turns events into keys. Upstream: `pkg/controller/deployment`, `addDeployment`, `addReplicaSet`, `deletePod`, ...
pub(crate) struct Watch {
    pub(crate) queue: Queue<Key>,
    pub(crate) deployments: Arc<Store<Deployment>>,
    pub(crate) ledger: Ledger,
    /// Deployments of which it is known what predecessors of this process have made for them.
    pub(crate) explored: Mutex<HashSet<Uid>>,
    /// ReplicaSets that are not selected any more and could not be released.
    pub(crate) refused: Mutex<HashMap<Uid, Refused>>,
}

/// A ReplicaSet that could not be released.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    /// The version whose release was refused.
    pub(crate) version: Version,
    pub(crate) at: Timestamp,
}

impl Watch {
    /// Every event of a Deployment brings it to the queue.
    pub(crate) fn on_deployment(&self, event: &Event<Deployment>, origin: Origin) {
        if let Event::Deleted(deployment) = event {
            // Another one of that name does not answer for it.
            self.forget(&deployment.metadata.uid);
            self.queue.forget(&deployment.metadata.key());
        }
        self.queue.add(event.meta().key(), priority(origin));
    }

    /// Forgets what is remembered of a Deployment that is gone.
    pub(crate) fn forget(&self, deployment: &Uid) {
        self.explored.lock().remove(deployment);
        self.ledger.forget(deployment);
    }

    /// An event of a ReplicaSet brings the Deployment it belongs, or belonged, to; that of an orphan every Deployment that
    /// may adopt it.
    pub(crate) fn on_set(&self, event: &Event<ReplicaSet>, origin: Origin) {
        let priority = priority(origin);
        match event {
            Event::Deleted(set) => {
                self.refused.lock().remove(&set.metadata.uid);
                self.add_owner(&set.metadata, priority);
            }
            Event::Unreadable(set) => self.add_owner(&set.meta, priority),
            // Seen first after a restart: the same as its deletion.
            Event::Added(set) if set.metadata.is_deleting() => self.add_owner(&set.metadata, priority),
            Event::Added(set) => self.add_related(&set.metadata, priority),
            Event::Updated { old, new } => {
                let (old, new) = (&old.metadata, &new.metadata);
                if old.resource_version == new.resource_version {
                    return;
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

/// Watches of Pods, one for each Deployment that waits for the end of old ones: under the strategy `Recreate`, in a rollout.
///
/// A watch brings what the Deployment selects, unless it has adopted ReplicaSets that select something else, and ends with the
/// wait.
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

    /// The Pods of a Deployment's ReplicaSets. The first call begins to watch them; the Deployment comes to the queue when
    /// they have been read, and with the end of each.
    pub(crate) fn of(&self, deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> Arc<Informer<Pod>> {
        let (key, owner) = (deployment.metadata.key(), &deployment.metadata.uid);
        let mut selector = deployment.spec.selector.compiled.to_string();
        if sets.iter().any(|set| *set.spec.selector != *selector) {
            // An adopted ReplicaSet's Pods need not be what the Deployment selects: all of the namespace are looked at.
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

    /// Ends the watch of a Deployment that waits no more.
    pub(crate) fn end(&self, key: &Key) {
        self.watches.lock().remove(key);
    }
}

/// Whether a Pod that ran runs no more. Upstream counts Pods here, those that have ended long ago as well, and so misses the
/// last one.
fn ends(event: &Event<Pod>) -> bool {
    match event {
        Event::Deleted(_) | Event::Unreadable(_) => true,
        Event::Updated { old, new } => old.runs() && !new.runs(),
        Event::Added(_) => false,
    }
}
