//! Tests of the times at which Jobs are started, and of the policies and deadlines that prevent a start.

use crate::world::*;

/// CRONJOB-23, CRONJOB-32, CRONJOB-36, CRONJOB-37, CRONJOB-45, CRONJOB-60.
#[tokio::test(start_paused = true)]
async fn a_job_is_created_from_the_template_at_each_scheduled_time() {
    let world = world_with(every_five_minutes(json!({}))).await;
    world.wait(170).await;
    assert_eq!(scheduled_times(&world).await, [""; 0], "no run starts at the creation of the CronJob");
    world.wait(20).await;
    assert_eq!(active_jobs(&world).await, ["tick-29538725"]);
    let job = world.get(JOBS, "tick-29538725").await;
    let meta = &job["metadata"];
    assert_eq!(
        meta["annotations"],
        json!({"note": "kept", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-03-01T00:05:00Z"})
    );
    assert_eq!(meta["labels"], json!({"app": "tick"}));
    let owner = &meta["ownerReferences"][0];
    assert_eq!(
        pick(owner, "apiVersion kind name controller blockOwnerDeletion"),
        json!(["batch/v1", "CronJob", "tick", true, true])
    );
    let status = world.status().await;
    assert_eq!(status["lastScheduleTime"], "2026-03-01T00:05:00Z");
    let reference = &status["active"][0];
    assert_eq!(pick(reference, "kind apiVersion"), json!(["Job", "batch/v1"]));
    assert_eq!((&reference["uid"], &reference["namespace"]), (&meta["uid"], &json!(NAMESPACE)));
    assert_eq!(world.events().await, ["Normal SuccessfulCreate Created job tick-29538725"]);
    world.wait(600).await;
    assert_eq!(
        scheduled_times(&world).await,
        ["00:05", "00:10", "00:15"],
        "the policy Allow starts Jobs beside active ones"
    );
    assert_eq!((world.count("create", JOBS), world.count("get", JOBS), world.count("get", CRON_JOBS)), (3, 0, 0));
}

/// CRONJOB-38.
#[tokio::test(start_paused = true)]
async fn the_scheduled_time_has_the_offset_of_the_time_zone() {
    let world = world_with(with_spec(tick("30 19 * * *"), json!({"timeZone": "America/New_York"}))).await;
    world.wait(3600).await;
    let jobs = world.list(JOBS).await;
    let time = &jobs[0]["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!((jobs.len(), time), (1, &json!("2026-02-28T19:30:00-05:00")));
}

/// CRONJOB-9, CRONJOB-24, CRONJOB-33, CRONJOB-46, CRONJOB-47, CRONJOB-61, CRONJOB-71.
#[tokio::test(start_paused = true)]
async fn forbid_waits_for_the_active_job_and_then_catches_up_the_last_run() {
    let world = world_with(every_five_minutes(json!({"concurrencyPolicy": "Forbid"}))).await;
    world.wait(800).await;
    assert_eq!(scheduled_times(&world).await, ["00:05"]);
    let policy = "Not starting job because prior execution is running and concurrency policy is Forbid";
    assert_eq!(world.event_count(&format!("Normal JobAlreadyActive {policy}")).await, 1);
    assert!(world.waiting().contains("waits for the active Job (Forbid)"), "{}", world.explain());
    assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:05:00Z");
    finish_job(&world, "tick-29538725", "Complete").await;
    world.wait(5).await;
    assert_eq!(scheduled_times(&world).await, ["00:05", "00:15"], "only the last missed run is caught up");
    let status = world.status().await;
    assert_eq!(status["lastScheduleTime"], "2026-03-01T00:15:00Z");
    assert!(status["lastSuccessfulTime"].is_string());
    assert_eq!(
        world.event_count("Normal SawCompletedJob Saw completed job: tick-29538725, condition: Complete").await,
        1
    );
}

/// CRONJOB-34, CRONJOB-60.
#[tokio::test(start_paused = true)]
async fn replace_deletes_the_running_job_first() {
    let world = world_with(every_five_minutes(json!({"concurrencyPolicy": "Replace"}))).await;
    world.wait(190).await;
    world.wait(300).await;
    assert_eq!(active_jobs(&world).await, ["tick-29538730"]);
    assert_eq!(world.event_count("Normal SuccessfulDelete Deleted job tick-29538725").await, 1);
    let first = world.sandbox.get(JOBS, Some(NAMESPACE), "tick-29538725").await;
    assert!(first.is_err() || !first.unwrap()["metadata"]["deletionTimestamp"].is_null());
}

/// CRONJOB-5, CRONJOB-29, CRONJOB-71.
#[tokio::test(start_paused = true)]
async fn nothing_starts_while_suspended_and_the_last_run_is_caught_up_later() {
    let world = world_with(every_five_minutes(json!({"suspend": true}))).await;
    world.wait(900).await;
    assert_eq!(scheduled_times(&world).await, [""; 0]);
    assert_eq!(world.explain()["waiting"], json!(["the CronJob is suspended"]));
    world.change(json!({"suspend": false})).await;
    world.wait(5).await;
    assert_eq!(scheduled_times(&world).await, ["00:15"]);
}

/// CRONJOB-25.
#[tokio::test(start_paused = true)]
async fn a_run_past_its_deadline_is_not_caught_up() {
    let mut world = world_with(every_five_minutes(json!({"startingDeadlineSeconds": 60}))).await;
    world.crash();
    world.wait(400).await;
    world.start();
    world.wait(60).await;
    assert_eq!(scheduled_times(&world).await, [""; 0], "00:05 is more than a minute ago");
    world.wait(120).await;
    assert_eq!(scheduled_times(&world).await, ["00:10"]);
}

/// CRONJOB-26, CRONJOB-76.
#[tokio::test(start_paused = true)]
async fn an_interval_keeps_its_phase_under_a_deadline() {
    let world = world_with(with_spec(tick("@every 10m"), json!({"startingDeadlineSeconds": 30}))).await;
    world.wait(1900).await;
    assert_eq!(scheduled_times(&world).await, ["00:12", "00:22", "00:32"]);
}

/// CRONJOB-6.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_schedule_starts_nothing_by_itself() {
    let world = world_with(tick("0 0 1 1 *")).await;
    world.wait(1000).await;
    world.change(json!({"schedule": "*/10 * * * *"})).await;
    world.wait(30).await;
    assert_eq!(scheduled_times(&world).await, [""; 0]);
    world.wait(300).await;
    assert_eq!(scheduled_times(&world).await, ["00:20"]);
}

/// CRONJOB-10, CRONJOB-86.
#[tokio::test(start_paused = true)]
async fn a_run_is_started_within_milliseconds_of_its_time() {
    let world = world_with(every_five_minutes(json!({}))).await;
    let due: Timestamp = "2026-03-01T00:05:00Z".parse().unwrap();
    let left = Duration::try_from(due.duration_since(world.clock.now())).unwrap();
    world.clock.sleep(left.saturating_sub(Duration::from_millis(5))).await;
    assert_eq!(scheduled_times(&world).await, [""; 0]);
    world.wait(0.05).await;
    assert_eq!(scheduled_times(&world).await, ["00:05"]);
}
