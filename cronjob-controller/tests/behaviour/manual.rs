//! Tests with Jobs that users create manually from a CronJob, and with two firings that share a Job name.

use crate::world::*;

/// Creates a Job as `kubectl create job --from=cronjob/tick <name>` does.
async fn create_by_hand(world: &World, name: &str) {
    let cron = world.subject().await;
    let template = &cron["spec"]["jobTemplate"]["metadata"];
    let manual = json!({"annotations": {"cronjob.kubernetes.io/instantiate": "manual"}});
    world
        .create(merged(merged(job_of(&cron, name), json!({ "metadata": template })), json!({ "metadata": manual })))
        .await;
}

async fn by_hand(policy: &str, names: &[&str]) -> World {
    let world = cluster().start().await;
    let mut object = every_five_minutes(json!({}));
    object["spec"]["concurrencyPolicy"] = json!(policy);
    // The template has the annotation that the controller sets, as after a copy from a Job of an earlier run.
    object["spec"]["jobTemplate"]["metadata"]["annotations"] =
        json!({"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-03-01T00:05:00Z"});
    world.create(object).await;
    world.wait(10).await;
    for name in names {
        create_by_hand(&world, name).await;
    }
    world.wait(60).await;
    world
}

/// CRONJOB-42.
#[tokio::test(start_paused = true)]
async fn manually_created_jobs_do_not_affect_schedule_and_status() {
    for policy in ["Allow", "Forbid", "Replace"] {
        let names = ["tick-1", "tick-29538720", "tick-29538721", "tick-29539999", "tick-x", "x-1"];
        let world = by_hand(policy, &names).await;
        let status = world.status().await;
        assert_eq!(pick(&status, "active lastScheduleTime"), json!([null, null]), "{policy}");
        for name in names {
            let event = format!("Warning UnexpectedJob Saw a job that the controller did not create or forgot: {name}");
            assert_eq!(world.event_count(&event).await, 1, "{policy}");
        }
        world.wait(120).await;
        assert_eq!(active_jobs(&world).await, ["tick-29538725"], "{policy}: the first run is started at its time");
        world.wait(300).await;
        let last = if policy == "Forbid" { "2026-03-01T00:05:00Z" } else { "2026-03-01T00:10:00Z" };
        assert_eq!(world.status().await["lastScheduleTime"], last, "{policy}");
        for name in names {
            let job = world.get(JOBS, name).await;
            assert_eq!(job["metadata"]["deletionTimestamp"], Value::Null, "{policy}: {name} is not replaced");
        }
    }
}

/// CRONJOB-41, CRONJOB-84.
#[tokio::test(start_paused = true)]
async fn a_manually_created_job_with_the_name_of_a_run_costs_only_that_run() {
    let world = by_hand("Allow", &["tick-29538725"]).await;
    world.wait(125).await;
    let status = world.status().await;
    assert_eq!(pick(&status, "active lastScheduleTime"), json!([null, null]), "the manually created Job is not a run");
    world.wait(300).await;
    assert_eq!(active_jobs(&world).await, ["tick-29538730"]);
    assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:10:00Z");
    let taken = "Warning FailedCreate Error creating job: the name tick-29538725 is taken by a Job that is not a run of this CronJob";
    assert_eq!(world.event_count(taken).await, 1, "the skipped run is reported");
    assert!(world.count("create", JOBS) <= 3, "the creation is not repeated");
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

/// CRONJOB-50.
#[tokio::test(start_paused = true)]
async fn an_interval_keeps_its_phase_after_a_lost_status_write() {
    let mut world = world_with(tick("@every 200s")).await;
    world.fault(rule(Action::CutBefore, "patch", "cronjobs/status"));
    world.wait(201).await;
    assert_eq!((scheduled_times(&world).await, active_jobs(&world).await.len()), (vec!["00:05".to_owned()], 0));
    world.crash();
    world.clear_faults();
    world.start();
    world.wait(5).await;
    assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:05:20Z", "the recorded time keeps its seconds");
    world.wait(200).await;
    assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:08:40Z");
}
