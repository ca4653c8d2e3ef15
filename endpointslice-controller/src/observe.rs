//! From a key to a snapshot: reads of caches, and nothing else.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::Cache,
    controller::Observed,
    meta::Key,
    object::Unreadable,
    store::{IndexValue, Store},
};

use crate::{
    SliceController,
    caches::{PODS_BY_NAMESPACE, SLICES_BY_SERVICE, service_value},
    error::Error,
    objects::{CONTROLLER, Pod, Service, Slice},
    snapshot::{Member, Place, Snapshot},
};

/// After how long a Service whose caches lag is looked at again although nothing of it has happened.
pub(crate) const RECHECK: Duration = Duration::from_secs(2);

/// The slices that `writer` keeps for a Service, by name, without those that are going.
pub(crate) fn slices_of(store: &Store<Slice>, key: &Key, writer: &str) -> Result<Vec<Arc<Slice>>, Unreadable> {
    let mut slices = store
        .select_by_index(SLICES_BY_SERVICE, &service_value(&key.namespace, &key.name), |meta| !meta.is_deleting())?;
    slices.retain(|slice| slice.is_managed_by(writer));
    Ok(slices)
}

/// The Pods that a Service selects, by name.
pub(crate) fn pods_of(store: &Store<Pod>, service: &Service) -> Result<Vec<Arc<Pod>>, Unreadable> {
    let namespace = IndexValue::Text(service.metadata.namespace.clone());
    store.select_by_index(PODS_BY_NAMESPACE, &namespace, |meta| meta.labels.contains_all(&service.spec.selector))
}

impl SliceController {
    pub(crate) fn look(&self, key: &Key) -> Result<Observed<Snapshot>, Error> {
        let Some(service) = self.services.store().get(&key.namespace, &key.name)? else {
            return Ok(Observed::Gone);
        };
        let uid = &service.metadata.uid;
        let memory = self.memories.of(key, uid);
        let most = self.most;
        if !service.selects() {
            let (members, slices) = (Vec::new(), Vec::new());
            return Ok(Observed::Ready(Snapshot { service, members, slices, memory, ratios: None, most }));
        }
        let children = || slices_of(self.slices.store(), key, CONTROLLER).unwrap_or_default();
        let uids = || children().iter().map(|slice| slice.metadata.uid.clone()).collect();
        let caches: [&dyn Cache; 1] = [&**self.slices.store()];
        if let Some((behind, left)) = self.ledger.behind(uid, &caches, uids) {
            return Ok(Observed::Waiting { why: behind.to_string(), at_most: left.min(RECHECK) });
        }
        let slices = slices_of(self.slices.store(), key, CONTROLLER)?;
        let pods = pods_of(self.pods.store(), &service)?;
        let members = pods.into_iter().map(|pod| Member { place: self.place(&pod), pod }).collect();
        let ratios = if service.wants_topology_hints() { self.topology.ratios() } else { None };
        Ok(Observed::Ready(Snapshot { service, members, slices, memory, ratios, most }))
    }

    fn place(&self, pod: &Pod) -> Place {
        self.nodes.store().get_readable("", &pod.node).map_or(Place::Unknown, Place::On)
    }
}
