//! Reads the caches and indexes into a snapshot.

use std::sync::Arc;

use common::{controller::Observation, io::SyncError, meta::NamespacedName};

use super::{
    SliceController,
    snapshot::{MAX_NEW_SLICE_PORTS, Snapshot},
};
use crate::{
    by_name::NameSortedPods,
    objects::MANAGED_BY_SLICE_CONTROLLER,
    observe::{slices_of_service, wait_for_pod_index},
};

impl SliceController {
    pub(super) fn observe(&self, key: &NamespacedName) -> Result<Observation<Snapshot>, SyncError> {
        let Some(service) = self.members.service_informer.store().get(&key.namespace, &key.name)? else {
            return Ok(Observation::Gone);
        };
        let uid = &service.metadata.uid;
        let mut snapshot = Snapshot {
            memory: self.watch.memories.memory_of_service(key, uid),
            service: Arc::clone(&service),
            pods: NameSortedPods::default(),
            zones_by_node: self.watch.topology.zones_by_node(),
            slices: Vec::new(),
            zone_cpu_shares: None,
            max_endpoints_per_slice: self.max_endpoints_per_slice,
            max_new_slice_ports: MAX_NEW_SLICE_PORTS,
            min_pods_to_record_slices: self.min_pods_of_packing,
        };
        if !service.has_applicable_selector() {
            return Ok(Observation::Ready(snapshot));
        }
        if let Some(behind) = self.watch.ledger.first_unseen_write(uid, &[&**self.slices.store()], Default::default) {
            return Ok(Observation::waiting_for_own_writes(behind));
        }
        let Some(pods) = self.members.pods_of_service(&service)? else { return Ok(wait_for_pod_index()) };
        snapshot.pods = pods;
        snapshot.slices = slices_of_service(self.slices.store(), key, MANAGED_BY_SLICE_CONTROLLER)?;
        if service.has_topology_hints_enabled() {
            snapshot.zone_cpu_shares = self.watch.topology.zone_cpu_shares().map(Arc::new);
        }
        Ok(Observation::Ready(snapshot))
    }
}
