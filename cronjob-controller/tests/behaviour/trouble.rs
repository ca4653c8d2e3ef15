//! Tests of the CronJob loop with lost answers, crashes, refused requests and a stale cache.

use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{CONTROLLER_IDENTITY, CRON_JOBS_RESOURCE, JOBS, NAMESPACE, TestCluster, cron_job_tick};

/// CRONJOB-40, CRONJOB-68.
#[tokio::test(start_paused = true)]
async fn a_creation_without_an_answer_is_found_and_recorded() {
    let world = TestCluster::new().await;
    world.create_object(cron_job_tick("*/5 * * * *")).await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::CutAfter).identity(CONTROLLER_IDENTITY).verb("create").resource("jobs").times(1));
    world.wait_seconds(190).await;
    assert_eq!((world.scheduled_times().await.len(), world.active_job_names().await.len()), (1, 1));
    assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:05:00Z");
}

/// CRONJOB-50, CRONJOB-68.
#[tokio::test(start_paused = true)]
async fn a_crash_before_the_record_does_not_start_a_run_twice() {
    let mut world = TestCluster::new().await;
    world.create_object(cron_job_tick("*/5 * * * *")).await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::CutBefore).identity(CONTROLLER_IDENTITY).verb("patch").resource("cronjobs/status"));
    world.wait_seconds(181).await;
    assert_eq!((world.scheduled_times().await.len(), world.active_job_names().await.len()), (1, 0));
    world.crash_loop();
    world.sandbox.faults().clear();
    world.start_loop();
    world.wait_seconds(5).await;
    assert_eq!(
        (world.scheduled_times().await.len(), world.active_job_names().await),
        (1, vec!["tick-29538725".to_owned()])
    );
    assert_eq!(world.event_count("Warning UnexpectedJob").await, 0, "the Job belongs to the due run");
}

/// CRONJOB-41, CRONJOB-84.
#[tokio::test(start_paused = true)]
async fn a_name_taken_by_an_unrelated_job_costs_only_that_run() {
    let world = TestCluster::new().await;
    let cron = world.create_object(cron_job_tick("*/5 * * * *")).await;
    let spec = cron["spec"]["jobTemplate"]["spec"].clone();
    world
        .create_object(json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec,
            "metadata": {"name": "tick-29538725", "namespace": NAMESPACE}}))
        .await;
    world.wait_seconds(190).await;
    assert_eq!(world.active_job_names().await, Vec::<String>::new());
    assert!(world.request_count("create", JOBS) <= 2, "the creation is not repeated");
    world.wait_seconds(300).await;
    assert_eq!(world.active_job_names().await, ["tick-29538730"]);
}

/// CRONJOB-62, CRONJOB-66.
#[tokio::test(start_paused = true)]
async fn a_refused_creation_is_reported_and_retried() {
    let world = TestCluster::new().await;
    world.create_object(cron_job_tick("*/5 * * * *")).await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::Invalid).identity(CONTROLLER_IDENTITY).verb("create").resource("jobs"));
    world.wait_seconds(200).await;
    assert!(
        world.event_count("Warning FailedCreate Error creating job: ").await >= 1,
        "{:#?}",
        world.event_texts().await
    );
    let tries = world.request_count("create", JOBS);
    assert!((5..=14).contains(&tries), "it backs off: {tries}");
    world.sandbox.faults().clear();
    world.wait_seconds(90).await;
    assert_eq!(world.scheduled_times().await, ["00:05"]);
}

/// CRONJOB-35, CRONJOB-62.
#[tokio::test(start_paused = true)]
async fn replace_starts_nothing_while_the_running_job_cannot_be_deleted() {
    let world = TestCluster::new().await;
    let mut object = cron_job_tick("*/5 * * * *");
    object["spec"]["concurrencyPolicy"] = json!("Replace");
    world.create_object(object).await;
    world.wait_seconds(190).await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::InternalError).identity(CONTROLLER_IDENTITY).verb("delete").resource("jobs"));
    world.wait_seconds(330).await;
    assert_eq!(world.active_job_names().await, ["tick-29538725"]);
    assert!(world.event_count("Warning FailedDelete Deleted job: ").await >= 1);
    let error = world.explain()["lastError"]["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("could not replace job shop/tick-29538725: "), "{error}");
    world.sandbox.faults().clear();
    world.wait_seconds(200).await;
    assert_eq!(world.active_job_names().await, ["tick-29538730"]);
}

/// CRONJOB-43, CRONJOB-67, CRONJOB-81.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_causes_no_second_start_and_no_false_warning() {
    let world = TestCluster::new().await;
    world.create_object(cron_job_tick("*/5 * * * *")).await;
    let held = std::time::Duration::from_secs(20);
    world.sandbox.faults().delay_watch(CONTROLLER_IDENTITY, "cronjobs", held);
    world.wait_seconds(250).await;
    assert_eq!((world.scheduled_times().await.len(), world.active_job_names().await.len()), (1, 1));
    assert_eq!((world.request_count("create", JOBS), world.event_count("Warning UnexpectedJob").await), (1, 0));
    assert_eq!(world.request_count("get", CRON_JOBS_RESOURCE), 0);
}

/// CRONJOB-10, CRONJOB-59.
#[tokio::test(start_paused = true)]
async fn a_refused_deletion_of_history_does_not_stop_the_schedule() {
    let world = TestCluster::new().await;
    let mut object = cron_job_tick("* * * * *");
    object["spec"]["successfulJobsHistoryLimit"] = json!(0);
    world.create_object(object).await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::Invalid).identity(CONTROLLER_IDENTITY).verb("delete").resource("jobs"));
    world.wait_seconds(65).await;
    world.finish_job("tick-29538723", "Complete").await;
    world.wait_seconds(60 * 60).await;
    assert!(world.request_count("delete", JOBS) > 60, "the deletion is retried");
    let expected: Vec<String> = (3..=59).map(|minute| format!("00:{minute:02}")).collect();
    assert_eq!(world.scheduled_times().await[..expected.len()], expected);
    // Each Job was created within the second of its scheduled time.
    for job in world.sandbox.list(JOBS, Some(NAMESPACE)).await.unwrap() {
        let created = job["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
        assert!(created.ends_with(":00Z"), "{created}");
    }
}

/// CRONJOB-51, CRONJOB-59, CRONJOB-85.
#[tokio::test(start_paused = true)]
async fn a_finished_job_whose_deletion_is_refused_is_still_reported() {
    let world = TestCluster::new().await;
    let mut object = cron_job_tick("*/5 * * * *");
    object["spec"]["successfulJobsHistoryLimit"] = json!(0);
    world.create_object(object).await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::InternalError).identity(CONTROLLER_IDENTITY).verb("delete").resource("jobs"));
    world.wait_seconds(190).await;
    world.finish_job("tick-29538725", "Complete").await;
    world.wait_seconds(60).await;
    assert!(world.event_count("Warning FailedDelete Deleted job: ").await >= 1);
    assert_eq!(
        world.event_count("Normal SawCompletedJob Saw completed job: tick-29538725, condition: Complete").await,
        1
    );
    assert_eq!(world.active_job_names().await, Vec::<String>::new());
    world.sandbox.faults().clear();
    world.wait_seconds(400).await;
    assert_eq!(
        world.event_count("Normal SuccessfulDelete Deleted job tick-29538725").await,
        1,
        "the deletion is retried"
    );
}
