//! Builds a snapshot for a key from indexed reads of the caches.

use std::collections::BTreeMap;

use common::{
    consistency::LedgerCache,
    controller::Observation,
    io::SyncError,
    map::HashSet,
    meta::NamespacedName,
    refs::{self, Owner},
    store::{ByController, IndexValue},
};
use jiff::Timestamp;

use crate::{CronJobController, objects::CRON_JOBS, snapshot::Snapshot};

impl CronJobController {
    pub(crate) fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        let Some(cron) = self.crons.store().get(&key.namespace, &key.name)? else {
            return Ok(Observation::Gone);
        };
        let uid = &cron.metadata.uid;
        let caches: [&dyn LedgerCache; 2] = [&**self.jobs.store(), &**self.crons.store()];
        if let Some(behind) = self.ledger.first_unseen_write(uid, &caches, HashSet::default) {
            return Ok(Observation::waiting_for_own_writes(behind));
        }
        let ours = |owner: &common::meta::OwnerRef| refs::resolve_owner(owner, CRON_JOBS.kind, |_| Some(cron.clone()));
        let mut jobs = self.jobs.store().list_by_index(ByController, &IndexValue::for_controller(&cron.metadata))?;
        jobs.retain(|job| {
            job.metadata.namespace == key.namespace && job.metadata.controller().and_then(ours).is_some()
        });
        jobs.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let owner = Owner::new(CRON_JOBS, &cron.metadata);
        Ok(Observation::Ready(Snapshot {
            cron_job: cron,
            owner,
            was_cron_job_read_live: false,
            jobs,
            jobs_read_live: BTreeMap::new(),
            now,
        }))
    }
}
