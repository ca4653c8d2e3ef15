//! Tests with Jobs that users create manually from a CronJob, and with two firings that share a Job name.

use serde_json::{Value, json};

use crate::world::{CRON_JOBS_RESOURCE, JOBS, NAMESPACE, TestCluster, cron_job_tick};

/// Creates a Job as `kubectl create job --from=cronjob/tick <name>` does.
async fn create_by_hand(world: &TestCluster, name: &str) {
    let cron = world.sandbox.get(CRON_JOBS_RESOURCE, Some(NAMESPACE), "tick").await.unwrap();
    let template = &cron["spec"]["jobTemplate"];
    let mut annotations = template["metadata"]["annotations"].clone();
    annotations["cronjob.kubernetes.io/instantiate"] = json!("manual");
    world
        .create_object(json!({"apiVersion": "batch/v1", "kind": "Job", "spec": template["spec"], "metadata": {
            "name": name, "namespace": NAMESPACE, "annotations": annotations, "labels": template["metadata"]["labels"],
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick",
                "uid": cron["metadata"]["uid"], "controller": true}]}}))
        .await;
}

async fn by_hand(policy: &str, names: &[&str]) -> TestCluster {
    let world = TestCluster::new().await;
    let mut object = cron_job_tick("*/5 * * * *");
    object["spec"]["concurrencyPolicy"] = json!(policy);
    // The template has the annotation that the controller sets, as after a copy from a Job of an earlier run.
    object["spec"]["jobTemplate"]["metadata"]["annotations"] =
        json!({"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-03-01T00:05:00Z"});
    world.create_object(object).await;
    world.wait_seconds(10).await;
    for name in names {
        create_by_hand(&world, name).await;
    }
    world.wait_seconds(60).await;
    world
}

/// CRONJOB-42.
#[tokio::test(start_paused = true)]
async fn manually_created_jobs_do_not_affect_schedule_and_status() {
    for policy in ["Allow", "Forbid", "Replace"] {
        let names = ["tick-1", "tick-29538720", "tick-29538721", "tick-29539999", "tick-x", "x-1"];
        let world = by_hand(policy, &names).await;
        let status = world.status().await;
        assert_eq!((&status["active"], &status["lastScheduleTime"]), (&Value::Null, &Value::Null), "{policy}");
        for name in names {
            let event = format!("Warning UnexpectedJob Saw a job that the controller did not create or forgot: {name}");
            assert_eq!(world.event_count(&event).await, 1, "{policy}");
        }
        world.wait_seconds(120).await;
        assert_eq!(world.active_job_names().await, ["tick-29538725"], "{policy}: the first run is started at its time");
        world.wait_seconds(300).await;
        let last = if policy == "Forbid" { "2026-03-01T00:05:00Z" } else { "2026-03-01T00:10:00Z" };
        assert_eq!(world.status().await["lastScheduleTime"], last, "{policy}");
        for name in names {
            let job = world.sandbox.get(JOBS, Some(NAMESPACE), name).await.unwrap();
            assert_eq!(job["metadata"]["deletionTimestamp"], Value::Null, "{policy}: {name} is not replaced");
        }
    }
}

/// CRONJOB-41, CRONJOB-84.
#[tokio::test(start_paused = true)]
async fn a_manually_created_job_with_the_name_of_a_run_costs_only_that_run() {
    let world = by_hand("Allow", &["tick-29538725"]).await;
    world.wait_seconds(125).await;
    let status = world.status().await;
    assert_eq!(
        (&status["active"], &status["lastScheduleTime"]),
        (&Value::Null, &Value::Null),
        "the manually created Job is not a run"
    );
    world.wait_seconds(300).await;
    assert_eq!(world.active_job_names().await, ["tick-29538730"]);
    assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:10:00Z");
    let taken = "Warning FailedCreate Error creating job: the name tick-29538725 is taken by a Job that is not a run of this CronJob";
    assert_eq!(world.event_count(taken).await, 1, "the skipped run is reported");
    assert!(world.request_count("create", JOBS) <= 3, "the creation is not repeated");
}

/// CRONJOB-27, CRONJOB-77.
#[tokio::test(start_paused = true)]
async fn an_interval_below_a_minute_starts_one_job_per_minute() {
    let world = TestCluster::new().await;
    world.create_object(cron_job_tick("@every 45s")).await;
    // Firings: 00:02:45, 00:03:30, 00:04:15, 00:05:00 and 00:05:45. The last two share the Job name of the minute 00:05.
    world.wait_seconds(170).await;
    world.finish_job("tick-29538722", "Complete").await;
    world.wait_seconds(20).await;
    assert_eq!(world.scheduled_times().await, ["00:02", "00:03", "00:04", "00:05"]);
    assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:05:00Z");
    world.finish_job("tick-29538725", "Complete").await;
    world.wait_seconds(38).await;
    assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:05:00Z", "no time is recorded without a Job");
    assert_eq!(world.event_count("Normal SawCompletedJob Saw completed job: tick-29538725").await, 1);
    assert_eq!(world.active_job_names().await, ["tick-29538723", "tick-29538724"]);
    world.wait_seconds(45).await;
    assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:06:30Z");
    assert_eq!(world.request_count("create", JOBS), 5);
}

/// CRONJOB-50.
#[tokio::test(start_paused = true)]
async fn an_interval_keeps_its_phase_after_a_lost_status_write() {
    use sandbox::{Action, Rule};

    let mut world = TestCluster::new().await;
    world.create_object(cron_job_tick("@every 200s")).await;
    let lost = Rule::new(Action::CutBefore)
        .identity(crate::world::CONTROLLER_IDENTITY)
        .verb("patch")
        .resource("cronjobs/status");
    world.sandbox.faults().add(lost);
    world.wait_seconds(201).await;
    assert_eq!((world.scheduled_times().await, world.active_job_names().await.len()), (vec!["00:05".to_owned()], 0));
    world.crash_loop();
    world.sandbox.faults().clear();
    world.start_loop();
    world.wait_seconds(5).await;
    assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:05:20Z", "the recorded time keeps its seconds");
    world.wait_seconds(200).await;
    assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:08:40Z");
}
