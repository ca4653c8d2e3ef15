//! Builds a snapshot for a key from indexed reads of the caches.

use std::collections::BTreeMap;

use common::{
    consistency::Cache,
    controller::Observed,
    io::Failed,
    map::HashSet,
    meta::Key,
    refs::{self, Owner},
    store::{ByController, IndexValue},
};
use jiff::Timestamp;

use crate::{CronJobController, objects::CRON_JOBS, snapshot::Snapshot};

impl CronJobController {
    pub(crate) fn observe(&self, key: &Key, now: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        let Some(cron) = self.crons.store().get(&key.namespace, &key.name)? else {
            return Ok(Observed::Gone);
        };
        let uid = &cron.metadata.uid;
        let caches: [&dyn Cache; 2] = [&**self.jobs.store(), &**self.crons.store()];
        if let Some(behind) = self.ledger.behind(uid, &caches, HashSet::default) {
            return Ok(Observed::behind(behind));
        }
        let ours = |owner: &common::meta::OwnerRef| refs::resolve(owner, CRON_JOBS.kind, |_| Some(cron.clone()));
        let mut jobs = self.jobs.store().by_index(ByController, &IndexValue::controlled_by(&cron.metadata))?;
        jobs.retain(|job| {
            job.metadata.namespace == key.namespace && job.metadata.controller().and_then(ours).is_some()
        });
        jobs.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let owner = Owner::new(CRON_JOBS, &cron.metadata);
        Ok(Observed::Ready(Snapshot { cron, owner, is_live: false, jobs, answers: BTreeMap::new(), now }))
    }
}
