//! The index of the Pods of each Service, shared by the loops of one process. Events of Pods enqueue the affected Services.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::{
    informer::SharedInformer,
    intern::Text,
    map::HashSet,
    meta::NamespacedName,
    object::CachedObjectError,
    queue::Queue,
    runtime::LoopContext,
    store::{CacheEvent, ChangeOrigin, Store},
};
use parking_lot::Mutex;

use crate::{
    by_name::NameSortedPods,
    objects::{Pod, Service},
    service_pod_index::{ServiceNames, ServicePodIndex},
};

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
        let services = context.shared_informer();
        let pods = context.shared_informer();
        context.shared_values.get_or_insert_with(|| Self::new(services, pods))
    }

    fn new(services: Arc<SharedInformer<Service>>, pods: Arc<SharedInformer<Pod>>) -> Self {
        let (index, queues): (Arc<Mutex<ServicePodIndex>>, Arc<Mutex<Queues>>) = Default::default();
        let of_services = Arc::clone(&index);
        services.add_handler(Box::new(move |event, _| on_service(&mut of_services.lock(), event)));
        let (of_pods, called, store) = (Arc::clone(&index), Arc::clone(&queues), Arc::clone(pods.store()));
        pods.add_handler(Box::new(move |event, origin| {
            let concerned = on_pod(&mut of_pods.lock(), &store, event);
            // Pods of the first list enqueue no Service, because the first list of Services enqueues every Service.
            if origin != ChangeOrigin::Initial {
                for (queue, batch) in &*called.lock() {
                    for key in &concerned {
                        queue.add_debounced(key.clone(), *batch);
                    }
                }
            }
        }));
        Self { service_informer: services, index, queues }
    }

    /// Adds a queue to which every later change of a Pod adds the affected Services, with the debounce period `batch`.
    pub(crate) fn add_queue_for_affected_services(&self, queue: Queue<NamespacedName>, batch: Duration) {
        self.queues.lock().push((queue, batch));
    }

    /// Returns the Services that select a Pod on one of these Nodes.
    pub(crate) fn services_on_nodes(&self, nodes: &HashSet<Text>) -> BTreeSet<NamespacedName> {
        self.index.lock().services_on_nodes(nodes)
    }

    /// Returns the Pods of a Service, sorted by name; `None` until the index has processed the selector of this Service.
    pub(crate) fn pods_of_service(&self, service: &Service) -> Result<Option<NameSortedPods>, CachedObjectError> {
        if !service.has_applicable_selector() {
            return Ok(Some(NameSortedPods::default()));
        }
        let meta = &service.metadata;
        self.index.lock().selected_pods(&meta.namespace, &meta.name, &service.spec.selector)
    }
}

fn on_service(index: &mut ServicePodIndex, event: &CacheEvent<Service>) {
    match event {
        CacheEvent::Added(service) | CacheEvent::Updated { new: service, .. } => index.add_or_replace_service(service),
        CacheEvent::Deleted(service) => index.remove_service(&service.metadata.namespace, &service.metadata.name),
        CacheEvent::Unreadable(service) => index.remove_service(&service.meta.namespace, &service.meta.name),
    }
}

/// Updates the index after an event of a Pod, and returns the affected Services.
///
/// Upstream: `staging/src/k8s.io/endpointslice/util`, `GetServicesToUpdateOnPodChange`.
fn on_pod(index: &mut ServicePodIndex, store: &Store<Pod>, event: &CacheEvent<Pod>) -> BTreeSet<NamespacedName> {
    let names = match event {
        CacheEvent::Added(pod) => index.add_or_replace_pod(None, pod).1,
        CacheEvent::Deleted(pod) => index.remove_pod(pod),
        CacheEvent::Unreadable(pod) => {
            let is_gone = matches!(store.get(&pod.meta.namespace, &pod.meta.name), Ok(None));
            index.apply_malformed_pod_event(pod, is_gone)
        }
        CacheEvent::Updated { old, new } => {
            let (before, after) = index.add_or_replace_pod(Some(old), new);
            affected_services(old, new, before, &after)
        }
    };
    let namespace = &event.meta().namespace;
    names.into_iter().map(|name| NamespacedName { namespace: namespace.clone(), name }).collect()
}

fn affected_services(old: &Pod, new: &Pod, before: ServiceNames, after: &ServiceNames) -> ServiceNames {
    let labels_changed = old.metadata.labels != new.metadata.labels
        || (&old.hostname, &old.subdomain) != (&new.hostname, &new.subdomain);
    let state = |pod: &Pod| (pod.metadata.deletion_timestamp, pod.is_ready, pod.is_finished);
    let state_changed = state(old) != state(new) || old.pod_ips != new.pod_ips;
    match (labels_changed, state_changed) {
        (false, false) => ServiceNames::new(),
        (false, true) => before,
        (true, true) => &before | after,
        (true, false) => &before ^ after,
    }
}

#[cfg(test)]
mod tests;
