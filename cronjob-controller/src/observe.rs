//! Builds a snapshot for a key from indexed reads of the caches.

use std::collections::BTreeMap;

use common::{consistency::LedgerCache, controller::Observation, prelude::*, refs};
use jiff::Timestamp;

use crate::{CronJobController, objects::CRON_JOBS, snapshot::Snapshot};

impl CronJobController {
    pub(crate) fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        let store = self.crons.store();
        let known = store.with_metadata(&key.namespace, &key.name, |meta| meta.uid.clone());
        let caches: [&dyn LedgerCache; 2] = [&**self.jobs.store(), &**store];
        let unseen_write =
            known.as_ref().and_then(|uid| self.ledger.first_unseen_write(uid, &caches, HashSet::default));
        if let Some(behind) = unseen_write {
            return Ok(Observation::waiting_for_own_writes(behind));
        }
        // The CronJob is read after the check of the ledger, so that the CronJob is not older than the writes in the ledger.
        let Some(cron) = store.get(&key.namespace, &key.name)? else { return Ok(Observation::Gone) };
        if known.as_ref() != Some(&cron.metadata.uid) {
            // The ledger was checked for a deleted CronJob, which a new CronJob of the same name has replaced.
            return self.observe(key, now);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use common::{api::Api, gate::closed_write_gate, metrics::Metrics, prelude::*, runtime::{LoopParts, SharedValues}, settings::OperatorSettings, store::CacheEntry};
    use sandbox::Sandbox;
    use serde_json::json;

    use super::*;
    use crate::objects::CronJob;

    /// Returns a controller whose informers receive nothing, because its tests never wait.
    fn controller(clock: &Clock) -> CronJobController {
        let (_, gate) = closed_write_gate(clock.clone());
        let client = Sandbox::builder().clock(clock.clone()).build().client("test");
        let context = LoopContext {
            api: Api::new(client, clock.clone(), gate.clone(), "test"),
            recorder: EventRecorder::discarding_events("test", clock.clone()),
            settings: Arc::new(OperatorSettings::new()),
            metrics: Metrics::new(),
            sync_callbacks: None,
            write_sampler: None,
            shared_values: SharedValues::default(),
            parts: LoopParts::default(),
            clock: clock.clone(),
            write_gate: gate,
        };
        CronJobController::new(context, Queue::new(clock.clone(), BackoffSettings::default(), None))
    }

    fn cron_job(version: u64) -> CacheEntry<CronJob> {
        let cron = json!({"metadata": {"namespace": "shop", "name": "report", "uid": "u", "resourceVersion": version.to_string()},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {}}}}}});
        CacheEntry::Decoded(Arc::new(serde_json::from_value(cron).unwrap()))
    }

    /// With several threads, the cache may receive a write of this controller at any moment of `observe`.
    #[tokio::test(start_paused = true)]
    async fn a_snapshot_holds_each_write_that_the_ledger_takes_for_seen() {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 1);
        let controller = controller(&clock);
        let key = NamespacedName::new("shop", "report");
        controller.crons.store().put_entry(cron_job(1), &mut Vec::new());
        for number in 2..3000 {
            let (written, version) = (cron_job(number), ResourceVersion::parse(&number.to_string()));
            controller.ledger.record_write(&Uid::new("u"), CRON_JOBS, version);
            std::thread::scope(|scope| {
                scope.spawn(|| controller.crons.store().put_entry(written, &mut Vec::new()));
                let snapshot = loop {
                    if let Observation::Ready(snapshot) = controller.observe(&key, clock.now()).unwrap() {
                        break snapshot;
                    }
                };
                assert_eq!(snapshot.cron_job.metadata.resource_version, version);
            });
        }
    }
}
