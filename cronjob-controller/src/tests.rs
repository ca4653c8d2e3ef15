use common::{prelude::*, settings::OperatorSettings, store::CacheEntry};
use serde_json::json;
use testkit::context_without_server;

use super::*;
use crate::objects::CronJob;

fn controller(clock: &Clock) -> CronJobController {
    let context = context_without_server(clock, OperatorSettings::new());
    CronJobController::new(&context, Queue::new(clock.clone(), BackoffSettings::default(), None))
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
    controller.watch.cron_jobs.put_entry(cron_job(1), &mut Vec::new());
    for number in 2..3000 {
        let (written, version) = (cron_job(number), ResourceVersion::parse(&number.to_string()));
        controller.watch.ledger.record_write(&Uid::new("u"), CRON_JOBS, version);
        std::thread::scope(|scope| {
            scope.spawn(|| controller.watch.cron_jobs.put_entry(written, &mut Vec::new()));
            let snapshot = loop {
                match controller.observe(&key, clock.now()) {
                    Ok(snapshot) => break snapshot,
                    Err(NoSnapshot::Waiting { .. }) => {}
                    Err(failed) => panic!("{failed:?}"),
                }
            };
            assert_eq!(snapshot.cron_job.metadata.resource_version, version);
        });
    }
}
