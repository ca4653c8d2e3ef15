//! Tests of the deletion of finished Jobs, and of the Jobs that `status.active` lists.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{CONTROLLER_IDENTITY, CRON_JOBS_RESOURCE, JOBS, NAMESPACE, TestCluster, cron_job_tick};

async fn five_ended() -> TestCluster {
    let world = TestCluster::new().await;
    let mut object = cron_job_tick("*/5 * * * *");
    object["spec"]["successfulJobsHistoryLimit"] = json!(2);
    object["spec"]["failedJobsHistoryLimit"] = json!(1);
    world.create_object(object).await;
    world.wait_seconds(190).await;
    for (minutes, kind) in [(25, "Complete"), (30, "Failed"), (35, "Complete"), (40, "Failed"), (45, "Complete")] {
        world.finish_job(&format!("tick-295387{minutes}"), kind).await;
        world.wait_seconds(300).await;
    }
    world
}

/// CRONJOB-46, CRONJOB-53, CRONJOB-60.
#[tokio::test(start_paused = true)]
async fn the_oldest_complete_and_failed_jobs_are_deleted() {
    let world = five_ended().await;
    let jobs = world.sandbox.list(JOBS, Some(NAMESPACE)).await.unwrap();
    let kept: Vec<&str> = jobs.iter().map(|job| job["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(kept, ["tick-29538735", "tick-29538740", "tick-29538745", "tick-29538750"]);
    assert_eq!(world.active_job_names().await, ["tick-29538750"]);
    assert_eq!(world.event_count("Normal SuccessfulDelete Deleted job tick-29538725").await, 1);
    assert_eq!(world.event_count("Normal SuccessfulDelete Deleted job tick-29538730").await, 1);
    assert_eq!(world.event_count("Normal SawCompletedJob").await, 5);
    assert_eq!(world.request_count("delete", JOBS), 2);
}

/// CRONJOB-58, CRONJOB-78.
#[tokio::test(start_paused = true)]
async fn a_finished_job_released_by_a_user_is_kept_although_the_cache_is_stale() {
    let world = five_ended().await;
    // When this Job completes, there is one complete Job too many. The user releases the oldest Job while the watch lags.
    world.sandbox.faults().delay_watch(CONTROLLER_IDENTITY, "jobs", Duration::from_secs(20));
    world.finish_job("tick-29538750", "Complete").await;
    world.wait_seconds(5).await;
    let patch = json!({"metadata": {"ownerReferences": null}});
    world.sandbox.merge(JOBS, Some(NAMESPACE), "tick-29538735", None, patch).await.unwrap();
    world.wait_seconds(120).await;
    let kept = world.sandbox.get(JOBS, Some(NAMESPACE), "tick-29538735").await.unwrap();
    assert_eq!(kept["metadata"]["deletionTimestamp"], Value::Null);
}

/// CRONJOB-9, CRONJOB-48.
#[tokio::test(start_paused = true)]
async fn a_missing_job_leaves_the_status_after_a_live_read() {
    let world = TestCluster::new().await;
    world.create_object(cron_job_tick("*/5 * * * *")).await;
    world.wait_seconds(190).await;
    world.delete_job("tick-29538725").await;
    world.wait_seconds(5).await;
    assert_eq!(world.active_job_names().await, Vec::<String>::new());
    assert_eq!(world.event_count("Normal MissingJob Active job went missing: tick-29538725").await, 1);
    assert_eq!(world.request_count("get", JOBS), 1);
    world.wait_seconds(60).await;
    assert_eq!(world.scheduled_times().await, Vec::<String>::new(), "the run is not started again");
}

/// CRONJOB-43.
#[tokio::test(start_paused = true)]
async fn an_unrecorded_manual_job_is_reported_and_not_recorded() {
    let world = TestCluster::new().await;
    let cron = world.create_object(cron_job_tick("0 0 1 1 *")).await;
    let spec = cron["spec"]["jobTemplate"]["spec"].clone();
    world
        .create_object(
            json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec, "metadata": {"name": "mine", "namespace": NAMESPACE,
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick",
                "uid": cron["metadata"]["uid"], "controller": true}]}}),
        )
        .await;
    world.wait_seconds(30).await;
    let event = "Warning UnexpectedJob Saw a job that the controller did not create or forgot: mine";
    assert_eq!(world.event_count(event).await, 1);
    assert_eq!(world.active_job_names().await, Vec::<String>::new());
    assert!(world.request_count("get", CRON_JOBS_RESOURCE) >= 1, "the CronJob is read live first");
}

/// CRONJOB-3, CRONJOB-74.
#[tokio::test(start_paused = true)]
async fn jobs_of_an_earlier_cron_job_of_the_same_name_are_left_alone() {
    let world = five_ended().await;
    world.sandbox.delete(CRON_JOBS_RESOURCE, Some(NAMESPACE), "tick").await.unwrap();
    world.sandbox.requests().clear();
    let mut object = cron_job_tick("0 0 1 1 *");
    object["spec"]["successfulJobsHistoryLimit"] = json!(0);
    world.create_object(object).await;
    world.wait_seconds(60).await;
    assert_eq!(world.request_count("delete", JOBS), 0, "the Jobs belong to an earlier CronJob of the same name");
    assert_eq!(world.event_count("Warning UnexpectedJob").await, 0);
}

/// CRONJOB-52.
#[tokio::test(start_paused = true)]
async fn a_settled_cron_job_gets_no_writes() {
    let world = TestCluster::new().await;
    world.create_object(cron_job_tick("0 0 1 1 *")).await;
    world.wait_seconds(5).await;
    world.sandbox.writes().clear();
    world.wait_seconds(100_000).await;
    let writes = world.sandbox.writes().all();
    assert!(
        writes.is_empty(),
        "{:?}",
        writes.iter().map(|w| format!("{} {} {}", w.verb, w.resource, w.name)).collect::<Vec<_>>()
    );
}
