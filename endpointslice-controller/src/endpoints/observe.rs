//! Reads the caches and indexes into a snapshot.

use common::{controller::Observed, io::Failed, meta::Key};

use super::{
    EndpointsController,
    snapshot::{Members, Snapshot},
};
use crate::{
    memory::Memory,
    observe::{record, wait_for_index},
};

impl EndpointsController {
    pub(super) fn observe(&self, key: &Key) -> Result<Observed<Snapshot>, Failed> {
        let store = self.endpoints.store();
        if let Some(behind) = self.watch.ledger.behind(&record(key), &[&**store], Default::default) {
            return Ok(Observed::behind(behind));
        }
        let members = match self.members.services.store().get(&key.namespace, &key.name)? {
            Some(service) => {
                let Some(pods) = self.members.pods_of(&service)? else { return Ok(wait_for_index()) };
                let Memory { seen, settled, .. } = self.watch.memories.of(key, &service.metadata.uid);
                Some(Members { service, pods, seen, settled })
            }
            None => None,
        };
        let endpoints = store.get(&key.namespace, &key.name)?;
        Ok(Observed::Ready(Snapshot { key: key.clone(), members, endpoints }))
    }
}
