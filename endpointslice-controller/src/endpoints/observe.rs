//! Reads the caches and indexes into a snapshot.

use common::{controller::Observation, io::SyncError, meta::NamespacedName};

use super::{
    EndpointsController,
    snapshot::{ServiceWithPods, Snapshot},
};
use crate::{
    memory::ServiceMemory,
    observe::{ledger_owner, wait_for_pod_index},
};

impl EndpointsController {
    pub(super) fn observe(&self, key: &NamespacedName) -> Result<Observation<Snapshot>, SyncError> {
        let store = self.endpoints.store();
        if let Some(behind) = self.watch.ledger.first_unseen_write(&ledger_owner(key), &[&**store], Default::default) {
            return Ok(Observation::waiting_for_own_writes(behind));
        }
        let members = match self.service_pod_index.service_informer.store().get(&key.namespace, &key.name)? {
            Some(service) => {
                let Some(pods) = self.service_pod_index.pods_of_service(&service)? else {
                    return Ok(wait_for_pod_index());
                };
                let ServiceMemory { synced_state: seen, in_sync_versions: settled, .. } =
                    self.watch.memories.memory_of_service(key, &service.metadata.uid);
                Some(ServiceWithPods { service, pods, synced_state: seen, in_sync_versions: settled })
            }
            None => None,
        };
        let endpoints = store.get(&key.namespace, &key.name)?;
        Ok(Observation::Ready(Snapshot { key: key.clone(), service_with_pods: members, endpoints }))
    }
}
