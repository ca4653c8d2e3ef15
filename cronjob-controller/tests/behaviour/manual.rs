//! Jobs with the name of a run: a Job of a user, and the Job of another firing in the same minute.

use crate::world::*;

/// CRONJOB-41, CRONJOB-84.
#[tokio::test(start_paused = true)]
async fn a_job_with_the_name_of_a_run_costs_only_that_run() {
    for has_owner in [true, false] {
        let world = world_with(every_five_minutes(json!({}))).await;
        let cron_job = world.subject().await;
        // As `kubectl create job --from=cronjob/tick` creates it. The template has the annotation that the controller sets, as
        // after a copy from a Job of an earlier run.
        let manual = json!({"cronjob.kubernetes.io/instantiate": "manual",
            "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-03-01T00:05:00Z"});
        let spec = cron_job["spec"]["jobTemplate"]["spec"].clone();
        let mut job = object("batch/v1", "Job", "tick-29538725", spec);
        job["metadata"]["annotations"] = manual;
        if has_owner {
            let owner = merged(json!({"apiVersion": "batch/v1", "kind": "CronJob"}), cron_job);
            job = controlled_by(job, &owner);
        }
        world.create(job).await;
        world.wait(185).await;
        let case = format!("The CronJob owns the Job: {has_owner}");
        assert_eq!(pick(&world.status().await, "active lastScheduleTime"), json!([null, null]), "{case}");
        world.wait(300).await;
        assert_eq!(active_jobs(&world).await, ["tick-29538730"], "{case}");
        assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:10:00Z", "{case}");
        let event = "Warning FailedCreate Error creating job: the name tick-29538725 is taken by a Job that is not a run of this CronJob";
        assert_eq!(world.event_count(event).await, 1, "{case}: the skipped run is reported");
        assert!(world.count("create", JOBS) <= 3, "{case}: the creation is not repeated");
    }
}

/// CRONJOB-27, CRONJOB-77.
#[tokio::test(start_paused = true)]
async fn an_interval_below_a_minute_starts_one_job_per_minute() {
    let world = world_with(tick("@every 45s")).await;
    // Firings: 00:02:45, 00:03:30, 00:04:15, 00:05:00 and 00:05:45. The last two share the Job name of the minute 00:05.
    world.wait(170).await;
    finish_job(&world, "tick-29538722", "Complete").await;
    world.wait(20).await;
    assert_eq!(scheduled_times(&world).await, ["00:02", "00:03", "00:04", "00:05"]);
    assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:05:00Z");
    finish_job(&world, "tick-29538725", "Complete").await;
    world.wait(38).await;
    assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:05:00Z", "no time is recorded without a Job");
    assert_eq!(world.event_count("Normal SawCompletedJob Saw completed job: tick-29538725").await, 1);
    assert_eq!(active_jobs(&world).await, ["tick-29538723", "tick-29538724"]);
    world.wait(45).await;
    assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:06:30Z");
    assert_eq!(world.count("create", JOBS), 5);
}
