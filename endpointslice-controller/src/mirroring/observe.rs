//! Reads the caches and indexes into a snapshot.

use common::{controller::Observation, io::SyncError, meta::NamespacedName};

use super::{MirroringController, snapshot::Snapshot};
use crate::{
    objects::MANAGED_BY_MIRRORING,
    observe::{ledger_owner, slices_of_service},
};

impl MirroringController {
    pub(super) fn observe(&self, key: &NamespacedName) -> Result<Observation<Snapshot>, SyncError> {
        if let Some(behind) =
            self.watch.ledger.first_unseen_write(&ledger_owner(key), &[&**self.slices.store()], Default::default)
        {
            return Ok(Observation::waiting_for_own_writes(behind));
        }
        Ok(Observation::Ready(Snapshot {
            key: key.clone(),
            endpoints: self.endpoints.store().get(&key.namespace, &key.name)?,
            service: self.services.store().get(&key.namespace, &key.name)?,
            slices: slices_of_service(self.slices.store(), key, MANAGED_BY_MIRRORING)?,
            max_endpoints_per_subset: self.max_endpoints_per_subset,
        }))
    }
}
