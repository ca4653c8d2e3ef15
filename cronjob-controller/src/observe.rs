//! From a key to a snapshot, by reads of the caches alone.

use std::{collections::BTreeMap, time::Duration};

use common::{
    consistency::Cache,
    controller::Observed,
    map::HashSet,
    meta::Key,
    refs::{self, Owner},
    store::IndexValue,
};
use jiff::Timestamp;

use crate::{CronJobController, JOBS_BY_OWNER, error::Error, objects::CRON_JOBS, snapshot::Snapshot};

/// The longest time between two checks whether the caches have caught up.
const RECHECK: Duration = Duration::from_secs(2);

impl CronJobController {
    pub(crate) fn observe(&self, key: &Key, now: Timestamp) -> Result<Observed<Snapshot>, Error> {
        let Some(cron) = self.crons.store().get(&key.namespace, &key.name)? else {
            return Ok(Observed::Gone);
        };
        let uid = &cron.metadata.uid;
        let caches: [&dyn Cache; 2] = [&**self.jobs.store(), &**self.crons.store()];
        if let Some((behind, left)) = self.ledger.behind(uid, &caches, HashSet::default) {
            return Ok(Observed::Waiting { why: behind.to_string(), at_most: left.min(RECHECK) });
        }
        let ours = |owner: &common::meta::OwnerRef| refs::resolve(owner, CRON_JOBS.kind, |_| Some(cron.clone()));
        let mut jobs = self.jobs.store().by_index(JOBS_BY_OWNER, &IndexValue::controlled_by(&cron.metadata))?;
        jobs.retain(|job| {
            job.metadata.namespace == key.namespace && job.metadata.controller().and_then(ours).is_some()
        });
        jobs.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let owner = Owner::new(CRON_JOBS, &cron.metadata);
        Ok(Observed::Ready(Snapshot { cron, owner, is_live: false, jobs, answers: BTreeMap::new(), now }))
    }
}
