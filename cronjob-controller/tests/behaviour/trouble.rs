//! Tests of the CronJob loop with lost answers, crashes, refused requests and a stale cache.

use crate::world::*;

/// CRONJOB-62, CRONJOB-66.
#[tokio::test(start_paused = true)]
async fn a_refused_creation_is_reported_and_retried() {
    let world = world_with(every_five_minutes(json!({}))).await;
    world.fault(rule(Action::Invalid, "create", "jobs"));
    world.wait(200).await;
    assert!(world.event_count("Warning FailedCreate Error creating job: ").await >= 1, "{:#?}", world.events().await);
    world.assert_count("create", JOBS, 5..=14);
    world.clear_faults();
    world.wait(90).await;
    assert_eq!(scheduled_times(&world).await, ["00:05"]);
}

/// CRONJOB-35, CRONJOB-62.
#[tokio::test(start_paused = true)]
async fn replace_starts_nothing_while_the_running_job_cannot_be_deleted() {
    let world = world_with(every_five_minutes(json!({"concurrencyPolicy": "Replace"}))).await;
    world.wait(190).await;
    world.fault(rule(Action::InternalError, "delete", "jobs"));
    world.wait(330).await;
    assert_eq!(active_jobs(&world).await, ["tick-29538725"]);
    assert!(world.event_count("Warning FailedDelete Deleted job: ").await >= 1);
    let error = world.explain()["lastError"]["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("could not replace job shop/tick-29538725: "), "{error}");
    world.clear_faults();
    world.wait(200).await;
    assert_eq!(active_jobs(&world).await, ["tick-29538730"]);
}

/// CRONJOB-43, CRONJOB-67, CRONJOB-81.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_causes_no_second_start_and_no_false_warning() {
    let world = world_with(every_five_minutes(json!({}))).await;
    let held = Duration::from_secs(20);
    world.delay("cronjobs", held.as_secs_f64());
    world.wait(250).await;
    assert_eq!((scheduled_times(&world).await.len(), active_jobs(&world).await.len()), (1, 1));
    assert_eq!((world.count("create", JOBS), world.event_count("Warning UnexpectedJob").await), (1, 0));
    assert_eq!(world.count("get", CRON_JOBS), 0);
}

/// CRONJOB-10, CRONJOB-59.
#[tokio::test(start_paused = true)]
async fn a_refused_deletion_of_history_does_not_stop_the_schedule() {
    let world = world_with(with_spec(tick("* * * * *"), json!({"successfulJobsHistoryLimit": 0}))).await;
    world.fault(rule(Action::Invalid, "delete", "jobs"));
    world.wait(65).await;
    finish_job(&world, "tick-29538723", "Complete").await;
    world.wait(60 * 60).await;
    assert!(world.count("delete", JOBS) > 60, "the deletion is retried");
    let expected: Vec<String> = (3..=59).map(|minute| format!("00:{minute:02}")).collect();
    assert_eq!(scheduled_times(&world).await[..expected.len()], expected);
    // Each Job was created within the second of its scheduled time.
    for job in world.list(JOBS).await {
        let created = job["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
        assert!(created.ends_with(":00Z"), "{created}");
    }
}

/// CRONJOB-51, CRONJOB-59, CRONJOB-85.
#[tokio::test(start_paused = true)]
async fn a_finished_job_whose_deletion_is_refused_is_still_reported() {
    let world = world_with(every_five_minutes(json!({"successfulJobsHistoryLimit": 0}))).await;
    world.fault(rule(Action::InternalError, "delete", "jobs"));
    world.wait(190).await;
    finish_job(&world, "tick-29538725", "Complete").await;
    world.wait(60).await;
    assert!(world.event_count("Warning FailedDelete Deleted job: ").await >= 1);
    assert_eq!(
        world.event_count("Normal SawCompletedJob Saw completed job: tick-29538725, condition: Complete").await,
        1
    );
    assert_eq!(active_jobs(&world).await, [""; 0]);
    world.clear_faults();
    world.wait(400).await;
    assert_eq!(
        world.event_count("Normal SuccessfulDelete Deleted job tick-29538725").await,
        1,
        "the deletion is retried"
    );
}
