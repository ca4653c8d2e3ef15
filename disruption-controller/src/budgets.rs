//! The loop that writes the statuses of budgets.

pub mod decide;

mod act;

use std::{sync::Arc, time::Duration};

use common::{discovery::DiscoveredResources, object::CachedObjectError, pods::PODS, prelude::*};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use self::decide::{CachedKind, CountedPods, Failure, OwnerSize, Plan, Snapshot, count_pods};
use crate::{
    objects::{BUDGETS, Budget, Pod, Workload, WorkloadKind},
    watch::Watch,
};

/// How long discovery is used. Upstream resets its mapper at this interval.
const DISCOVERY_LIFETIME: SignedDuration = SignedDuration::from_secs(30);

/// Delay after which a budget is synced again if the index has not processed its selector, and no event enqueues it.
const INDEX_RECHECK_DELAY: Duration = Duration::from_secs(1);

/// Caches and memory of the loop.
pub struct BudgetController {
    watch: Arc<Watch>,
    ledger: Ledger,
    recorder: EventRecorder,
    /// The last discovery, and the time at which it began.
    discovery: Mutex<Option<(Timestamp, Arc<DiscoveredResources>)>>,
}

impl BudgetController {
    pub(crate) fn new(context: &LoopContext, watch: Arc<Watch>) -> Self {
        Self { watch, ledger: context.ledger(), recorder: context.recorder.clone(), discovery: Mutex::default() }
    }

    /// Returns the last discovery if it is recent.
    fn recent_discovery(&self, now: Timestamp) -> Option<Arc<DiscoveredResources>> {
        let last = self.discovery.lock();
        let age = |began: Timestamp| now.duration_since(began);
        let (_, found) = last.as_ref().filter(|(began, _)| age(*began) <= DISCOVERY_LIFETIME)?;
        Some(Arc::clone(found))
    }

    fn record_discovery(&self, began: Timestamp, discovered: &Arc<DiscoveredResources>) {
        *self.discovery.lock() = Some((began, Arc::clone(discovered)));
    }

    fn report_pods_not_deleted(&self, budget: &Budget, pods: &[Arc<Pod>]) {
        let message = format!("Pod was expected by PDB {} to be deleted but it wasn't", budget.metadata.key());
        for pod in pods {
            let object = InvolvedObject::new(PODS, &pod.metadata);
            self.recorder.record_event(&object, EventType::Warning, "NotDeleted", message.clone());
        }
    }

    /// Counts the Pods of a budget, and looks up their owners.
    fn count(&self, budget: &Budget, now: Timestamp) -> Result<Result<CountedPods, Failure>, NoSnapshot> {
        if let Some(error) = budget.spec.selector.validation_error() {
            return Ok(Err(Failure::of_pods(SyncErrorClass::Malformed, error.to_string())));
        }
        let pods = match self.watch.pods_of(budget) {
            Ok(pods) => {
                pods.ok_or_else(|| NoSnapshot::waiting_because("the index lacks the selector", INDEX_RECHECK_DELAY))?
            }
            Err(error) => return Ok(Err(Failure::of_pods(SyncErrorClass::Unreadable, error.to_string()))),
        };
        let census = count_pods(budget, &pods, now);
        let unreadable =
            |error: CachedObjectError| Failure::of_expected_count(SyncErrorClass::Unreadable, error.to_string());
        let size = |owner: &OwnerRef| self.size_of(&budget.metadata.namespace, owner).map_err(unreadable);
        let sizes = census.owners.iter().map(|owner| size(&owner.reference)).collect();
        Ok(Ok(CountedPods { census, sizes }))
    }

    /// Returns the size of an owner; `None` if the caches lack it.
    fn size_of(&self, namespace: &Text, owner: &OwnerRef) -> Result<Option<OwnerSize>, CachedObjectError> {
        let Watch { replication_controllers, replica_sets, deployments, stateful_sets, .. } = &*self.watch;
        Ok(match CachedKind::of(owner) {
            Some(CachedKind::ReplicationController) => find(replication_controllers, namespace, owner)?.map(size),
            Some(CachedKind::StatefulSet) => find(stateful_sets, namespace, owner)?.map(size),
            Some(CachedKind::ReplicaSet) => {
                let Some(set) = find(replica_sets, namespace, owner)? else { return Ok(None) };
                let controller = set.metadata.controller();
                let controller = controller.filter(|owner| CachedKind::of(owner) == Some(CachedKind::Deployment));
                let deployment = controller.map(|owner| find(deployments, namespace, owner)).transpose()?.flatten();
                Some(deployment.map_or_else(|| size(set), size))
            }
            Some(CachedKind::Deployment) | None => None,
        })
    }
}

/// Returns the object with the name and the UID of a reference; `None` if the cache lacks it.
fn find<K: WorkloadKind>(
    store: &Store<Workload<K>>,
    namespace: &Text,
    reference: &OwnerRef,
) -> Result<Option<Arc<Workload<K>>>, CachedObjectError> {
    Ok(store.get(namespace, &reference.name)?.filter(|workload| workload.metadata.uid == reference.uid))
}

fn size<K>(workload: Arc<Workload<K>>) -> OwnerSize {
    OwnerSize { uid: workload.metadata.uid.clone(), replicas: workload.replicas }
}

impl Controller for BudgetController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let no_children = |_: &Uid| HashSet::default();
        let (budget, _) = self.ledger.read(&self.watch.budgets, key, WaitPolicy::AllWrites, no_children)?;
        let pods = self.count(&budget, now)?;
        Ok(Snapshot { budget, pods, discovered: self.recent_discovery(now), now })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        act::act(snapshot, plan, io).await
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(BUDGETS, &snapshot.budget.metadata)
    }

    /// Drops the ledger record of a budget that was deleted during the sync, because no later event would drop the record.
    fn after_sync(&self, snapshot: &Snapshot) {
        let budget = &snapshot.budget.metadata;
        if !self.watch.budgets.contains_object(budget) {
            self.ledger.forget_owner(&budget.uid);
        }
    }
}
