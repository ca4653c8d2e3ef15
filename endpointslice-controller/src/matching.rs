//! Which Services an event of a Pod concerns.

use std::collections::BTreeSet;

use common::{
    meta::{Key, Meta},
    store::{Event, Store},
};

use crate::{
    caches::{SERVICES_BY_SELECTOR, label_value},
    objects::{Pod, Service},
};

/// The Services whose selector selects an object with these labels.
fn services_of(services: &Store<Service>, meta: &Meta) -> BTreeSet<Key> {
    let mut found = BTreeSet::new();
    for (key, value) in meta.labels.iter() {
        // A Service is filed under one label of its selector: whoever it selects has that label.
        let some = services.readable_by_index(SERVICES_BY_SELECTOR, &label_value(&meta.namespace, key, value));
        let selects = |service: &Service| meta.labels.contains_all(&service.spec.selector);
        found.extend(some.iter().filter(|service| selects(service)).map(|service| service.metadata.key()));
    }
    found
}

/// The Services that an event of a Pod concerns.
///
/// Upstream: `staging/src/k8s.io/endpointslice/util`, `GetServicesToUpdateOnPodChange`.
pub(crate) fn concerned(services: &Store<Service>, event: &Event<Pod>) -> BTreeSet<Key> {
    let (old, new) = match event {
        Event::Added(pod) | Event::Deleted(pod) => return services_of(services, &pod.metadata),
        Event::Unreadable(pod) => return services_of(services, &pod.meta),
        Event::Updated { old, new } => (old, new),
    };
    let labels = old.metadata.labels != new.metadata.labels
        || (&old.hostname, &old.subdomain) != (&new.hostname, &new.subdomain);
    let state = |pod: &Pod| (pod.metadata.deleted, pod.is_ready, pod.is_over);
    let state = state(old) != state(new) || old.ips != new.ips;
    match (labels, state) {
        (false, false) => BTreeSet::new(),
        (false, true) => services_of(services, &new.metadata),
        (true, changed) => {
            let (before, after) = (services_of(services, &old.metadata), services_of(services, &new.metadata));
            if changed { &before | &after } else { &before ^ &after }
        }
    }
}
