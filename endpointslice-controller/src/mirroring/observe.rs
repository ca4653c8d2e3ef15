//! Reads the caches and indexes into a snapshot.

use common::{controller::Observed, io::Failed, meta::Key};

use super::{MirroringController, snapshot::Snapshot};
use crate::{
    objects::MIRRORING,
    observe::{record, slices_of},
};

impl MirroringController {
    pub(super) fn observe(&self, key: &Key) -> Result<Observed<Snapshot>, Failed> {
        if let Some(behind) = self.watch.ledger.behind(&record(key), &[&**self.slices.store()], Default::default) {
            return Ok(Observed::behind(behind));
        }
        Ok(Observed::Ready(Snapshot {
            key: key.clone(),
            endpoints: self.endpoints.store().get(&key.namespace, &key.name)?,
            service: self.services.store().get(&key.namespace, &key.name)?,
            slices: slices_of(self.slices.store(), key, MIRRORING)?,
            max_endpoints_per_subset: self.max_endpoints_per_subset,
        }))
    }
}
