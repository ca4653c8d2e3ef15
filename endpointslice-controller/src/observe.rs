//! From a key to a snapshot: reads of caches and indexes, and nothing else.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::{Cache, Ledger},
    controller::Observed,
    meta::{Key, Uid},
    object::Unreadable,
    store::Store,
};

use crate::{
    SliceController,
    caches::{SLICES_BY_SERVICE, service_value},
    error::Error,
    objects::{CONTROLLER, Slice},
    snapshot::{MAX_NEW_PORTS, Snapshot},
};

/// After how long a Service whose caches lag is looked at again although nothing of it has happened.
pub(crate) const RECHECK: Duration = Duration::from_secs(2);

/// The slices of a Service with that value of the label `managed-by`, by name, without terminating ones.
pub(crate) fn slices_of(store: &Store<Slice>, key: &Key, managed_by: &str) -> Result<Vec<Arc<Slice>>, Unreadable> {
    let mut slices = store
        .select_by_index(SLICES_BY_SERVICE, &service_value(&key.namespace, &key.name), |meta| !meta.is_deleting())?;
    slices.retain(|slice| slice.is_managed_by(managed_by));
    Ok(slices)
}

/// Drops the record of an owner if the cache shows all its writes. A sync does so by itself; this is for owners that may
/// have had their last sync.
pub(crate) fn drop_satisfied_record(ledger: &Ledger, owner: &Uid, cache: &dyn Cache) {
    let _ = ledger.behind(owner, &[cache], Default::default);
}

/// The key waits: the index of members has not seen the Service that the cache shows. Its handler runs at any moment.
pub(crate) fn wait_for_index<S>() -> Observed<S> {
    let why = "the index of Pods has not seen this state of the Service yet".to_owned();
    Observed::Waiting { why, at_most: Duration::from_millis(10) }
}

impl SliceController {
    pub(crate) fn snapshot(&self, key: &Key) -> Result<Observed<Snapshot>, Error> {
        let Some(service) = self.members.services.store().get(&key.namespace, &key.name)? else {
            return Ok(Observed::Gone);
        };
        let uid = &service.metadata.uid;
        let mut snapshot = Snapshot {
            memory: self.memories.of(key, uid),
            service: Arc::clone(&service),
            pods: Arc::default(),
            zones: self.topology.zones(),
            slices: Vec::new(),
            ratios: None,
            max_endpoints_per_slice: self.max_endpoints_per_slice,
            max_new_ports: MAX_NEW_PORTS,
        };
        if !service.selects() {
            return Ok(Observed::Ready(snapshot));
        }
        let caches: [&dyn Cache; 1] = [&**self.slices.store()];
        if let Some((behind, left)) = self.ledger.behind(uid, &caches, Default::default) {
            return Ok(Observed::Waiting { why: behind.to_string(), at_most: left.min(RECHECK) });
        }
        let Some(pods) = self.members.pods_of(&service)? else { return Ok(wait_for_index()) };
        snapshot.pods = pods;
        snapshot.slices = slices_of(self.slices.store(), key, CONTROLLER)?;
        if service.wants_topology_hints() {
            snapshot.ratios = self.topology.ratios().map(Arc::new);
        }
        Ok(Observed::Ready(snapshot))
    }
}
