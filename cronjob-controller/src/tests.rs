use common::{
    api::Api,
    gate::closed_write_gate,
    metrics::Metrics,
    prelude::*,
    runtime::{LoopParts, SharedValues},
    settings::OperatorSettings,
    store::CacheEntry,
};
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
