//! Reads the caches and indexes into a snapshot.

use common::{controller::Observation, io::SyncError, meta::Key};

use super::{
    EndpointsController,
    snapshot::{ServiceMembers, Snapshot},
};
use crate::{
    memory::ServiceMemory,
    observe::{ledger_owner, wait_for_index},
};

impl EndpointsController {
    pub(super) fn observe(&self, key: &Key) -> Result<Observation<Snapshot>, SyncError> {
        let store = self.endpoints.store();
        if let Some(behind) = self.watch.ledger.unseen_write(&ledger_owner(key), &[&**store], Default::default) {
            return Ok(Observation::waiting_for_own_writes(behind));
        }
        let members = match self.members.services.store().get(&key.namespace, &key.name)? {
            Some(service) => {
                let Some(pods) = self.members.pods_of_service(&service)? else { return Ok(wait_for_index()) };
                let ServiceMemory { synced_state: seen, settled_versions: settled, .. } =
                    self.watch.memories.memory_of(key, &service.metadata.uid);
                Some(ServiceMembers { service, pods, synced_state: seen, settled_versions: settled })
            }
            None => None,
        };
        let endpoints = store.get(&key.namespace, &key.name)?;
        Ok(Observation::Ready(Snapshot { key: key.clone(), members, endpoints }))
    }
}
