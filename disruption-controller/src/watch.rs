//! Caches, the index of the Pods of each budget, and the handlers that enqueue what an event concerns.

use std::{sync::Arc, time::Duration};

use common::{
    object::CachedObjectError,
    pods::PODS,
    prelude::*,
    selector_index::{NameSortedObjects, SelectorIndex, SelectorNames},
    store::ByNamespace,
};
use parking_lot::Mutex;

use crate::{
    objects::{Budget, Deployments, Pod, ReplicaSets, ReplicationControllers, StatefulSets, Workload},
    stale_pods::decide::time_until_stale,
};

/// Debounce of changes of Pods for each 100 Pods of a budget, because a sync visits all of them.
const POD_CHANGE_DEBOUNCE: Duration = Duration::from_millis(20);

/// The caches, and the queues to which their handlers add.
pub(crate) struct Watch {
    pub(crate) budgets: Arc<Store<Budget>>,
    pub(crate) pods: Arc<Store<Pod>>,
    pub(crate) replication_controllers: Arc<Store<Workload<ReplicationControllers>>>,
    pub(crate) replica_sets: Arc<Store<Workload<ReplicaSets>>>,
    pub(crate) deployments: Arc<Store<Workload<Deployments>>>,
    pub(crate) stateful_sets: Arc<Store<Workload<StatefulSets>>>,
    index: Mutex<SelectorIndex<Pod>>,
    budget_queue: Queue<NamespacedName>,
    stale_pod_queue: Queue<NamespacedName>,
    stale_pod_timeout: Duration,
    ledger: Ledger,
    recorder: EventRecorder,
    clock: Clock,
}

impl Watch {
    /// Starts the informers.
    pub(crate) fn start(
        context: &LoopContext,
        budget_queue: Queue<NamespacedName>,
        stale_pod_queue: Queue<NamespacedName>,
        stale_pod_timeout: Duration,
    ) -> Arc<Self> {
        let watch = Arc::new(Self {
            budgets: Arc::default(),
            pods: Arc::default(),
            replication_controllers: Arc::default(),
            replica_sets: Arc::default(),
            deployments: Arc::default(),
            stateful_sets: Arc::default(),
            index: Mutex::default(),
            budget_queue,
            stale_pod_queue,
            stale_pod_timeout,
            ledger: context.ledger(),
            recorder: context.recorder.clone(),
            clock: context.clock.clone(),
        });
        context.start_informer(Arc::clone(&watch.budgets), handler_from_method(&watch, Self::on_budget));
        context.start_informer(Arc::clone(&watch.pods), handler_from_method(&watch, Self::on_pod));
        let handler = handler_from_method(&watch, Self::on_workload);
        context.start_informer(Arc::clone(&watch.replication_controllers), handler);
        context.start_informer(Arc::clone(&watch.replica_sets), handler_from_method(&watch, Self::on_workload));
        context.start_informer(Arc::clone(&watch.deployments), handler_from_method(&watch, Self::on_workload));
        context.start_informer(Arc::clone(&watch.stateful_sets), handler_from_method(&watch, Self::on_workload));
        watch
    }

    /// Returns the Pods of a budget; `None` until the index has processed its selector.
    pub(crate) fn pods_of(&self, budget: &Budget) -> Result<Option<NameSortedObjects<Pod>>, CachedObjectError> {
        let Meta { namespace, name, .. } = &*budget.metadata;
        self.index.lock().selected_objects(namespace, name, &budget.spec.selector)
    }

    fn on_budget(&self, event: &CacheEvent<Budget>, origin: ChangeOrigin) {
        let Meta { namespace, name, uid, .. } = event.meta();
        match event.cached() {
            Some(budget) => self.index.lock().set_selector(namespace, name, &budget.spec.selector),
            None => self.index.lock().remove_selector(namespace, name),
        }
        if matches!(event, CacheEvent::Deleted(_)) {
            self.ledger.forget_owner(uid);
        }
        self.budget_queue.add(event.meta().key(), origin);
    }

    fn on_pod(&self, event: &CacheEvent<Pod>, origin: ChangeOrigin) {
        let names = self.change_index(event);
        if let Some(pod) = event.cached()
            && let Some(disruption) = pod.disruption
        {
            let delay = time_until_stale(disruption, self.stale_pod_timeout, self.clock.now());
            self.stale_pod_queue.add_debounced(pod.metadata.key(), delay);
        }
        // The first list of budgets enqueues all of them.
        if origin == ChangeOrigin::Initial {
            return;
        }
        let Meta { namespace, name, .. } = event.meta();
        for budget in &names.concerned {
            self.enqueue_debounced(NamespacedName { namespace: namespace.clone(), name: Arc::clone(budget) });
        }
        if let Some(pod) = event.cached()
            && let Some(chosen) = names.current.first().filter(|_| names.current.len() > 1)
            && !names.concerned.is_empty()
        {
            let message = format!(
                "Pod {:?}/{name:?} matches multiple PodDisruptionBudgets.  Chose {chosen:?} arbitrarily.",
                namespace.as_str()
            );
            let object = InvolvedObject::new(PODS, &pod.metadata);
            self.recorder.record_event(&object, EventType::Warning, "MultiplePodDisruptionBudgets", message);
        }
    }

    /// Updates the index after an event of a Pod, and returns the budgets that the event concerns.
    fn change_index(&self, event: &CacheEvent<Pod>) -> PodBudgets {
        let mut index = self.index.lock();
        match event {
            CacheEvent::Added(pod) => PodBudgets::all(index.add_or_replace_object(None, pod).1),
            CacheEvent::Deleted(pod) => PodBudgets::former(index.remove_object(pod)),
            CacheEvent::Unreadable(pod) => {
                let is_gone = matches!(self.pods.get(&pod.meta.namespace, &pod.meta.name), Ok(None));
                PodBudgets::former(index.apply_malformed_object_event(pod, is_gone))
            }
            CacheEvent::Updated { old, new } => {
                let (before, current) = index.add_or_replace_object(Some(old), new);
                let concerned = if changes_counts(old, new) { &before | &current } else { SelectorNames::new() };
                PodBudgets { concerned, current }
            }
        }
    }

    /// Enqueues the budgets of the namespace whose expected count is a sum over the owners, if the event can change a sum.
    fn on_workload<K: Send + Sync + 'static>(&self, event: &CacheEvent<Workload<K>>, origin: ChangeOrigin)
    where
        Workload<K>: Object,
    {
        let size = |workload: &Workload<K>| (workload.metadata.uid.clone(), workload.replicas);
        if let CacheEvent::Updated { old, new } = event
            && size(old) == size(new)
            && old.metadata.controller() == new.metadata.controller()
        {
            return;
        }
        if origin == ChangeOrigin::Initial {
            return;
        }
        let namespace = IndexValue::Text(event.meta().namespace.clone());
        for budget in self.budgets.list_decoded_by_index(ByNamespace, &namespace) {
            if budget.spec.sums_up_owners() {
                self.enqueue_debounced(budget.metadata.key());
            }
        }
    }

    /// Enqueues a budget: at once if it has less than 100 Pods, otherwise after a delay that grows with their number.
    fn enqueue_debounced(&self, key: NamespacedName) {
        let budget = self.budgets.get_decoded(&key.namespace, &key.name);
        let pods = budget.and_then(|budget| self.pods_of(&budget).ok().flatten());
        let delay = debounce_for_pods(POD_CHANGE_DEBOUNCE, pods.map_or(0, |pods| pods.len()));
        self.budget_queue.add_debounced(key, delay);
    }
}

/// The budgets that an event of a Pod concerns.
struct PodBudgets {
    /// The budgets whose counts the event may change.
    concerned: SelectorNames,
    /// The budgets that select the Pod after the event.
    current: SelectorNames,
}

impl PodBudgets {
    fn all(names: SelectorNames) -> Self {
        Self { concerned: names.clone(), current: names }
    }

    fn former(names: SelectorNames) -> Self {
        Self { concerned: names, current: SelectorNames::new() }
    }
}

/// Whether an update of a Pod changes what a budget counts.
fn changes_counts(old: &Pod, new: &Pod) -> bool {
    let counted = |pod: &Pod| (pod.is_ready, pod.metadata.is_deleting());
    counted(old) != counted(new)
        || old.metadata.uid != new.metadata.uid
        || old.metadata.labels != new.metadata.labels
        || old.metadata.controller() != new.metadata.controller()
}
