//! The index of the Pods of each Service, shared by the loops of one process. Events of Pods enqueue the affected Services.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::{
    intern::Labels,
    object::CachedObjectError,
    prelude::*,
    selector_index::{SelectorIndex, SelectorNames},
};
use parking_lot::Mutex;

use crate::objects::{NameSortedPods, Pod, Service};

type ServicePodIndex = SelectorIndex<Pod, Labels>;

/// The index of the Pods that each Service selects, with the informers that fill it.
pub(crate) struct SharedServicePodIndex {
    pub(crate) service_informer: Arc<SharedInformer<Service>>,
    index: Arc<Mutex<ServicePodIndex>>,
    queues: Arc<Mutex<Queues>>,
}

/// The queues that receive the Services affected by a change of a Pod, each with its debounce period.
type Queues = Vec<(Queue<NamespacedName>, Duration)>;

impl SharedServicePodIndex {
    /// Returns the index of this process. The first call creates the index and the informers of Services and Pods.
    pub(crate) fn get_or_create(context: &LoopContext) -> Arc<Self> {
        // The informers are created first, because `get_or_insert_with` must not be called recursively.
        let service_informer: Arc<SharedInformer<Service>> = context.shared_informer();
        let pod_informer = context.shared_informer();
        context.shared_values.get_or_insert_with(|| {
            let (index, queues): (Arc<Mutex<ServicePodIndex>>, Arc<Mutex<Queues>>) = Default::default();
            let index_of_handler = Arc::clone(&index);
            service_informer.add_handler(Box::new(move |event, _| on_service(&mut index_of_handler.lock(), event)));
            let (index_of_handler, queues_of_handler) = (Arc::clone(&index), Arc::clone(&queues));
            let store = Arc::clone(pod_informer.store());
            pod_informer.add_handler(Box::new(move |event, origin| {
                let concerned = on_pod(&mut index_of_handler.lock(), &store, event);
                // Pods of the first list enqueue no Service, because the first list of Services enqueues every Service.
                if origin != ChangeOrigin::Initial {
                    for (queue, debounce_period) in &*queues_of_handler.lock() {
                        for key in &concerned {
                            queue.add_debounced(key.clone(), *debounce_period);
                        }
                    }
                }
            }));
            Self { service_informer, index, queues }
        })
    }

    /// Adds a queue to which every later change of a Pod adds the affected Services, with this debounce period.
    pub(crate) fn add_queue_for_affected_services(&self, queue: Queue<NamespacedName>, debounce_period: Duration) {
        self.queues.lock().push((queue, debounce_period));
    }

    /// Returns the Services that select a Pod on one of these Nodes. The cost grows with the number of all Pods.
    pub(crate) fn services_on_nodes(&self, nodes: &HashSet<Text>) -> BTreeSet<NamespacedName> {
        if nodes.is_empty() {
            return BTreeSet::new();
        }
        self.index.lock().selectors_of_objects_where(|pod| nodes.contains(&pod.node_name))
    }

    /// Returns the Pods of a Service, sorted by name; `None` until the index has processed the selector of this Service.
    pub(crate) fn pods_of_service(&self, service: &Service) -> Result<Option<NameSortedPods>, CachedObjectError> {
        if !service.has_applicable_selector() {
            return Ok(Some(NameSortedPods::default()));
        }
        let Meta { namespace, name, .. } = &service.metadata;
        self.index.lock().selected_objects(namespace, name, &service.spec.selector)
    }
}

fn on_service(index: &mut ServicePodIndex, event: &CacheEvent<Service>) {
    let Meta { namespace, name, .. } = event.meta();
    match event.cached().filter(|service| service.has_applicable_selector()) {
        Some(service) => index.set_selector(namespace, name, &service.spec.selector),
        None => index.remove_selector(namespace, name),
    }
}

/// Updates the index after an event of a Pod, and returns the affected Services.
///
/// Upstream: `staging/src/k8s.io/endpointslice/util`, `GetServicesToUpdateOnPodChange`.
fn on_pod(index: &mut ServicePodIndex, store: &Store<Pod>, event: &CacheEvent<Pod>) -> BTreeSet<NamespacedName> {
    let names = match event {
        CacheEvent::Added(pod) => index.add_or_replace_object(None, pod).1,
        CacheEvent::Deleted(pod) => index.remove_object(pod),
        CacheEvent::Unreadable(pod) => {
            let is_gone = matches!(store.get(&pod.meta.namespace, &pod.meta.name), Ok(None));
            index.apply_malformed_object_event(pod, is_gone)
        }
        CacheEvent::Updated { old, new } => {
            let (names_before, names) = index.add_or_replace_object(Some(old), new);
            affected_services(old, new, names_before, &names)
        }
    };
    let namespace = &event.meta().namespace;
    names.into_iter().map(|name| NamespacedName { namespace: namespace.clone(), name }).collect()
}

fn affected_services(old: &Pod, new: &Pod, names_before: SelectorNames, names: &SelectorNames) -> SelectorNames {
    let labels_changed = old.metadata.labels != new.metadata.labels
        || (&old.hostname, &old.subdomain) != (&new.hostname, &new.subdomain);
    let state = |pod: &Pod| (pod.metadata.deletion_timestamp, pod.is_ready, pod.is_finished);
    let state_changed = state(old) != state(new) || old.pod_ips != new.pod_ips;
    match (labels_changed, state_changed) {
        (false, false) => SelectorNames::new(),
        (false, true) => names_before,
        (true, true) => &names_before | names,
        (true, false) => &names_before ^ names,
    }
}

#[cfg(test)]
mod tests;
