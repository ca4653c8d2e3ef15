//! Reads the caches and indexes into a snapshot.

use std::sync::Arc;

use common::{controller::Observed, io::Failed, meta::Key};

use super::{
    SliceController,
    snapshot::{MAX_NEW_PORTS, Snapshot},
};
use crate::{
    by_name::Pods,
    objects::CONTROLLER,
    observe::{slices_of, wait_for_index},
};

impl SliceController {
    pub(super) fn observe(&self, key: &Key) -> Result<Observed<Snapshot>, Failed> {
        let Some(service) = self.members.services.store().get(&key.namespace, &key.name)? else {
            return Ok(Observed::Gone);
        };
        let uid = &service.metadata.uid;
        let mut snapshot = Snapshot {
            memory: self.watch.memories.of(key, uid),
            service: Arc::clone(&service),
            pods: Pods::default(),
            zones: self.watch.topology.zones(),
            slices: Vec::new(),
            ratios: None,
            max_endpoints_per_slice: self.max_endpoints_per_slice,
            max_new_ports: MAX_NEW_PORTS,
            min_pods_of_packing: self.min_pods_of_packing,
        };
        if !service.selects() {
            return Ok(Observed::Ready(snapshot));
        }
        if let Some(behind) = self.watch.ledger.behind(uid, &[&**self.slices.store()], Default::default) {
            return Ok(Observed::behind(behind));
        }
        let Some(pods) = self.members.pods_of(&service)? else { return Ok(wait_for_index()) };
        snapshot.pods = pods;
        snapshot.slices = slices_of(self.slices.store(), key, CONTROLLER)?;
        if service.wants_topology_hints() {
            snapshot.ratios = self.watch.topology.ratios().map(Arc::new);
        }
        Ok(Observed::Ready(snapshot))
    }
}
