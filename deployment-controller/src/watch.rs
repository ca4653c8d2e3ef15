//! Which event brings which Deployment to the queue.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use common::{
    api::Api,
    consistency::Ledger,
    controller::priority,
    informer::{AnyInformer, Config, Informer},
    meta::{Key, Meta, OwnerRef},
    queue::{Priority, Queue},
    refs,
    store::{Event, IndexValue, Origin, Store, by_controller},
};

use crate::objects::{DEPLOYMENTS, Deployment, Pod, REPLICA_SETS, ReplicaSet, StrategyType};

/// Position of the index of Deployments by namespace.
pub(crate) const DEPLOYMENTS_BY_NAMESPACE: usize = 0;
/// Position of the index of ReplicaSets by the uid of their controller.
pub(crate) const SETS_BY_OWNER: usize = 0;
/// Position of the index of ReplicaSets without a controller by namespace.
pub(crate) const ORPHANS_BY_NAMESPACE: usize = 1;
/// Position of the index of Pods by the uid of their controller.
pub(crate) const PODS_BY_OWNER: usize = 0;

/// How often it is looked whether the Pods have been read.
const POD_SYNC_CHECK: Duration = Duration::from_millis(50);

/// Turns events into keys. Upstream: `pkg/controller/deployment`, `addDeployment`, `addReplicaSet`, `deletePod`, ...
pub(crate) struct Watch {
    pub(crate) queue: Queue<Key>,
    pub(crate) deployments: Arc<Store<Deployment>>,
    pub(crate) sets: Arc<Store<ReplicaSet>>,
    pub(crate) ledger: Ledger,
}

impl Watch {
    /// Every event of a Deployment brings it to the queue.
    pub(crate) fn on_deployment(&self, event: &Event<Deployment>, origin: Origin) {
        if let Event::Deleted(deployment) = event {
            // Another one of that name does not answer for it.
            self.ledger.forget(&deployment.metadata.uid);
            self.queue.forget(&deployment.metadata.key());
        }
        self.queue.add(event.meta().key(), priority(origin));
    }

    /// An event of a ReplicaSet brings the Deployment it belongs, or belonged, to; that of an orphan every Deployment that
    /// may adopt it.
    pub(crate) fn on_set(&self, event: &Event<ReplicaSet>, origin: Origin) {
        let priority = priority(origin);
        match event {
            Event::Deleted(set) => self.add_owner(&set.metadata, priority),
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

    /// The end of a Pod brings its Deployment, if that waits for such: under the strategy `Recreate`.
    ///
    /// Upstream counts Pods here, those that have ended long ago as well, and so misses the last one.
    pub(crate) fn on_pod(&self, event: &Event<Pod>) {
        let pod = match event {
            Event::Deleted(pod) => &pod.metadata,
            Event::Updated { old, new } if old.runs() && !new.runs() => &new.metadata,
            Event::Unreadable(pod) => &pod.meta,
            Event::Added(_) | Event::Updated { .. } => return,
        };
        let set = |reference: &OwnerRef| {
            refs::resolve(reference, REPLICA_SETS.kind, |name| self.sets.get_readable(&pod.namespace, name))
        };
        let Some(set) = pod.controller().and_then(set) else { return };
        if let Some(deployment) = self.owner(&set.metadata).filter(|deployment| waits_for_pods(deployment)) {
            self.queue.add(deployment.metadata.key(), Priority::Normal);
        }
    }

    fn owner(&self, set: &Meta) -> Option<Arc<Deployment>> {
        let lookup = |name: &str| self.deployments.get_readable(&set.namespace, name);
        refs::resolve(set.controller()?, DEPLOYMENTS.kind, lookup)
    }

    fn add_owner(&self, set: &Meta, priority: Priority) {
        if let Some(deployment) = self.owner(set) {
            self.queue.add(deployment.metadata.key(), priority);
        }
    }

    fn add_related(&self, set: &Meta, priority: Priority) {
        if set.controller().is_some() {
            return self.add_owner(set, priority);
        }
        if set.labels.is_empty() {
            return;
        }
        let namespace = IndexValue::Text(set.namespace.clone());
        for deployment in self.deployments.readable_by_index(DEPLOYMENTS_BY_NAMESPACE, &namespace) {
            if deployment.spec.selector.compiled.matches_orphan(&set.labels) {
                self.queue.add(deployment.metadata.key(), priority);
            }
        }
    }
}

/// Whether a Deployment's next step may depend on its Pods.
pub(crate) fn waits_for_pods(deployment: &Deployment) -> bool {
    deployment.spec.strategy.kind == StrategyType::Recreate
}

/// The cache of Pods, which is filled from the first Deployment on that needs it: nothing but the strategy `Recreate` does.
pub(crate) struct PodCache {
    api: Api,
    config: Config,
    watch: Arc<Watch>,
    informer: OnceLock<Informer<Pod>>,
}

impl PodCache {
    pub(crate) fn new(api: Api, config: Config, watch: Arc<Watch>) -> Arc<Self> {
        Arc::new(Self { api, config, watch, informer: OnceLock::new() })
    }

    /// Starts filling it, once.
    pub(crate) fn start(self: &Arc<Self>) -> &Informer<Pod> {
        self.informer.get_or_init(|| {
            tokio::spawn(Self::wake_when_filled(Arc::downgrade(self), self.api.clone()));
            let watch = Arc::clone(&self.watch);
            let handler = Box::new(move |event: &Event<Pod>, _| watch.on_pod(event));
            Informer::start(self.api.clone(), self.config.clone(), &[by_controller()], vec![handler])
        })
    }

    /// Its watch, if it was started.
    pub(crate) fn informer(&self) -> Option<&Informer<Pod>> {
        self.informer.get()
    }

    /// Brings every Deployment to the queue that has waited for the Pods.
    async fn wake_when_filled(cache: Weak<Self>, api: Api) {
        loop {
            let Some(cache) = cache.upgrade() else { return };
            if cache.informer().is_some_and(AnyInformer::is_synced) {
                for deployment in cache.watch.deployments.all().iter().filter(|deployment| waits_for_pods(deployment)) {
                    cache.watch.queue.add(deployment.metadata.key(), Priority::Normal);
                }
                return;
            }
            drop(cache);
            api.clock().sleep(POD_SYNC_CHECK).await;
        }
    }
}
