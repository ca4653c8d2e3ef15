//! In shadow mode (decide everything, write nothing), runs are decided when they are due, and no Job is created.

use common::settings::OperatorSettings;
use serde_json::json;

use crate::world::{CONTROLLER_IDENTITY, TestCluster, cron_job_tick};

/// CRONJOB-72.
#[tokio::test(start_paused = true)]
async fn a_due_run_is_decided_in_time_and_not_started() {
    let world = TestCluster::with_settings(OperatorSettings::new().with_shadow_mode(true)).await;
    world.create_object(cron_job_tick("*/5 * * * *")).await;
    world.wait_seconds(179).await;
    assert_eq!(world.plans(), []);
    world.wait_seconds(400).await;
    let starts: Vec<String> = world
        .plans()
        .iter()
        .map(|(at, actions)| format!("{} {}", at.strftime("%H:%M:%S"), actions.join("; ")))
        .collect();
    assert_eq!(
        starts,
        [
            "00:05:00 create Job tick-29538725: it has been due since 2026-03-01T00:05:00Z; write the status",
            "00:10:00 create Job tick-29538730: it has been due since 2026-03-01T00:10:00Z; write the status",
        ]
    );
    assert!(world.sandbox.writes().all().iter().all(|write| write.identity != CONTROLLER_IDENTITY));
}

/// CRONJOB-72.
#[tokio::test(start_paused = true)]
async fn runs_are_decided_in_time_although_live_reads_are_missing() {
    let mut world = TestCluster::new().await;
    world.create_object(cron_job_tick("*/5 * * * *")).await;
    world.wait_seconds(185).await;
    assert_eq!(world.active_job_names().await.len(), 1);
    // `status.active` lists a Job that the cache does not hold. In shadow mode, no live read shows whether the Job exists.
    world.crash_loop();
    world.delete_job("tick-29538725").await;
    world.start_shadow();
    world.wait_seconds(600).await;
    let minutes: Vec<String> = world.plans().iter().map(|(at, _)| at.strftime("%H:%M").to_string()).collect();
    assert_eq!(minutes, ["00:05", "00:10", "00:15"], "{:?}", world.plans());
    assert_eq!(world.explain()["waiting"], json!([]));
}
