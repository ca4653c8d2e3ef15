//! Handlers that map events of the caches to the keys of Deployments.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{informer::InformerConfig, object::CachedObjectError, prelude::*};
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
    /// Informers of Pods, one for each Deployment that waits under `Recreate` until its old Pods have finished.
    pub(crate) pod_informers: Mutex<HashMap<Uid, PodInformer>>,
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

    /// Drops the records of a deleted Deployment: its written versions, and the fact that its ReplicaSets were listed. Stops the
    /// informer of its Pods.
    pub(crate) fn forget_deployment(&self, deployment: &Uid) {
        self.pod_informers.lock().remove(deployment);
        self.deployments_with_listed_sets.lock().remove(deployment);
        self.ledger.forget_owner(deployment);
    }

    /// Enqueues the Deployment that owns, or owned, a ReplicaSet; for an orphan, every Deployment that may adopt it.
    pub(crate) fn on_replica_set_event(&self, event: &CacheEvent<ReplicaSet>, origin: ChangeOrigin) {
        if let CacheEvent::Deleted(set) = event {
            self.refused_releases.lock().remove(&set.metadata.uid);
        }
        let debounce = match event {
            CacheEvent::Updated { old, new } if new.metadata.is_status_change_of(&old.metadata) => {
                let pods = usize::try_from(new.spec.replicas.max(new.status.replicas)).unwrap_or_default();
                Some(debounce_for_pods(self.debounce_period_per_100_pods, pods))
            }
            _ => None,
        };
        // A change of the status alone concerns no adopters.
        let selects = |deployment: &Deployment, labels: &_| deployment.spec.selector.compiled.matches_orphan(labels);
        for deployment in find_concerned_owners(&self.deployments, event, selects) {
            match debounce {
                Some(debounce) => self.queue.add_debounced(deployment.metadata.key(), debounce),
                None => self.queue.add(deployment.metadata.key(), origin),
            }
        }
    }

    /// Counts the unfinished Pods of each ReplicaSet; `None` if the Pods have not been read yet.
    pub(crate) fn count_unfinished_pods(
        &self,
        deployment: &Deployment,
        sets: &[Arc<ReplicaSet>],
    ) -> Result<Option<BTreeMap<Uid, usize>>, CachedObjectError> {
        let informers = self.pod_informers.lock();
        let started = informers.get(&deployment.metadata.uid).filter(|started| started.selects(deployment, sets));
        let Some(filled) = started.filter(|started| started.informer.is_synced()) else { return Ok(None) };
        let pods = Arc::clone(filled.informer.store());
        drop(informers);
        let count_unfinished = |set: &Arc<ReplicaSet>| {
            let pods = pods.list_by_index(ByController, &IndexValue::for_controller(&set.metadata))?;
            Ok((set.metadata.uid.clone(), pods.iter().filter(|pod| pod.is_unfinished()).count()))
        };
        sets.iter().map(count_unfinished).collect::<Result<_, _>>().map(Some)
    }

    /// Starts the informer of the Pods of a Deployment's ReplicaSets, unless it is running. The first complete list and the end
    /// of each Pod enqueue the Deployment.
    ///
    /// Neither the loop nor the ledger waits for this informer, because it starts after the beginning of this leader's term.
    /// Pods have no periodic resync, because each Pod that finishes or is deleted enqueues its Deployment.
    pub(crate) fn start_pod_informer(&self, context: &LoopContext, deployment: &Deployment, sets: &[Arc<ReplicaSet>]) {
        let mut informers = self.pod_informers.lock();
        if informers.get(&deployment.metadata.uid).is_some_and(|started| started.selects(deployment, sets)) {
            return;
        }
        let (key, selector) = (deployment.metadata.key(), pod_selector(deployment, sets));
        let config = InformerConfig {
            namespace: key.namespace.to_string(),
            label_selector: selector.clone(),
            ..context.short_lived_cache_config()
        };
        let (queue, deployment_key) = (self.queue.clone(), key.clone());
        let on_pod = Box::new(move |event: &CacheEvent<Pod>, _| {
            if may_end_pod(event) {
                queue.add(deployment_key.clone(), Priority::Normal);
            }
        });
        let informer = Informer::start(context.api.clone(), config, vec![on_pod]);
        let (queue, first_list) = (self.queue.clone(), informer.wait_for_first_list());
        tokio::spawn(async move {
            if first_list.await {
                queue.add(key, Priority::Normal);
            }
        });
        informers.insert(deployment.metadata.uid.clone(), PodInformer { selector, informer });
    }
}

/// A running informer of the Pods of one Deployment. It stops when it is dropped.
pub(crate) struct PodInformer {
    selector: String,
    informer: Informer<Pod>,
}

impl PodInformer {
    /// Whether the informer reads all Pods of these ReplicaSets.
    fn selects(&self, deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> bool {
        self.selector == pod_selector(deployment, sets)
    }
}

/// Returns the selector of the Deployment. It is empty, so that it selects all Pods of the namespace, if the Deployment has
/// adopted a ReplicaSet with another selector.
fn pod_selector(deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> String {
    let selector = deployment.spec.selector.compiled.to_string();
    if sets.iter().all(|set| *set.spec.selector == *selector) { selector } else { String::new() }
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
