//! Tests of the CronJob loop with lost answers, crashes, refused requests and a stale cache.

use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{CRONS, JOBS, ME, NS, World, tick};

/// CRONJOB-40, CRONJOB-68.
#[tokio::test(start_paused = true)]
async fn a_creation_without_an_answer_is_found_and_recorded() {
    let world = World::new().await;
    world.apply(tick("*/5 * * * *")).await;
    world.sandbox.faults().add(Rule::new(Action::CutAfter).identity(ME).verb("create").resource("jobs").times(1));
    world.wait(190).await;
    assert_eq!((world.runs().await.len(), world.active().await.len()), (1, 1));
    assert_eq!(world.status().await["lastScheduleTime"], "2026-03-01T00:05:00Z");
}

/// CRONJOB-50, CRONJOB-68.
#[tokio::test(start_paused = true)]
async fn a_crash_before_the_record_does_not_start_a_run_twice() {
    let mut world = World::new().await;
    world.apply(tick("*/5 * * * *")).await;
    world.sandbox.faults().add(Rule::new(Action::CutBefore).identity(ME).verb("patch").resource("cronjobs/status"));
    world.wait(181).await;
    assert_eq!((world.runs().await.len(), world.active().await.len()), (1, 0));
    world.crash();
    world.sandbox.faults().clear();
    world.start();
    world.wait(5).await;
    assert_eq!((world.runs().await.len(), world.active().await), (1, vec!["tick-29538725".to_owned()]));
    assert_eq!(world.event("Warning UnexpectedJob").await, 0, "the Job belongs to the due run");
}

/// CRONJOB-41, CRONJOB-84.
#[tokio::test(start_paused = true)]
async fn a_name_taken_by_an_unrelated_job_costs_only_that_run() {
    let world = World::new().await;
    let cron = world.apply(tick("*/5 * * * *")).await;
    let spec = cron["spec"]["jobTemplate"]["spec"].clone();
    world
        .apply(json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec,
            "metadata": {"name": "tick-29538725", "namespace": NS}}))
        .await;
    world.wait(190).await;
    assert_eq!(world.active().await, Vec::<String>::new());
    assert!(world.asked("create", JOBS) <= 2, "the creation is not repeated");
    world.wait(300).await;
    assert_eq!(world.active().await, ["tick-29538730"]);
}

/// CRONJOB-62, CRONJOB-66.
#[tokio::test(start_paused = true)]
async fn a_refused_creation_is_reported_and_retried() {
    let world = World::new().await;
    world.apply(tick("*/5 * * * *")).await;
    world.sandbox.faults().add(Rule::new(Action::Invalid).identity(ME).verb("create").resource("jobs"));
    world.wait(200).await;
    assert!(world.event("Warning FailedCreate Error creating job: ").await >= 1, "{:#?}", world.events().await);
    let tries = world.asked("create", JOBS);
    assert!((5..=14).contains(&tries), "it backs off: {tries}");
    world.sandbox.faults().clear();
    world.wait(90).await;
    assert_eq!(world.runs().await, ["00:05"]);
}

/// CRONJOB-35, CRONJOB-62.
#[tokio::test(start_paused = true)]
async fn replace_starts_nothing_while_the_running_job_cannot_be_deleted() {
    let world = World::new().await;
    let mut object = tick("*/5 * * * *");
    object["spec"]["concurrencyPolicy"] = json!("Replace");
    world.apply(object).await;
    world.wait(190).await;
    world.sandbox.faults().add(Rule::new(Action::InternalError).identity(ME).verb("delete").resource("jobs"));
    world.wait(330).await;
    assert_eq!(world.active().await, ["tick-29538725"]);
    assert!(world.event("Warning FailedDelete Deleted job: ").await >= 1);
    let error = world.explain()["lastError"]["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("could not replace job shop/tick-29538725: "), "{error}");
    world.sandbox.faults().clear();
    world.wait(200).await;
    assert_eq!(world.active().await, ["tick-29538730"]);
}

/// CRONJOB-43, CRONJOB-67, CRONJOB-81.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_causes_no_second_start_and_no_false_warning() {
    let world = World::new().await;
    world.apply(tick("*/5 * * * *")).await;
    let held = std::time::Duration::from_secs(20);
    world.sandbox.faults().delay_watch(ME, "cronjobs", held);
    world.wait(250).await;
    assert_eq!((world.runs().await.len(), world.active().await.len()), (1, 1));
    assert_eq!((world.asked("create", JOBS), world.event("Warning UnexpectedJob").await), (1, 0));
    assert_eq!(world.asked("get", CRONS), 0);
}

/// CRONJOB-10, CRONJOB-59.
#[tokio::test(start_paused = true)]
async fn a_refused_deletion_of_history_does_not_stop_the_schedule() {
    let world = World::new().await;
    let mut object = tick("* * * * *");
    object["spec"]["successfulJobsHistoryLimit"] = json!(0);
    world.apply(object).await;
    world.sandbox.faults().add(Rule::new(Action::Invalid).identity(ME).verb("delete").resource("jobs"));
    world.wait(65).await;
    world.end("tick-29538723", "Complete").await;
    world.wait(60 * 60).await;
    assert!(world.asked("delete", JOBS) > 60, "the deletion is retried");
    let expected: Vec<String> = (3..=59).map(|minute| format!("00:{minute:02}")).collect();
    assert_eq!(world.runs().await[..expected.len()], expected);
    // Each Job was created within the second of its scheduled time.
    for job in world.sandbox.list(JOBS, Some(NS)).await.unwrap() {
        let created = job["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
        assert!(created.ends_with(":00Z"), "{created}");
    }
}

/// CRONJOB-51, CRONJOB-59, CRONJOB-85.
#[tokio::test(start_paused = true)]
async fn a_finished_job_whose_deletion_is_refused_is_still_reported() {
    let world = World::new().await;
    let mut object = tick("*/5 * * * *");
    object["spec"]["successfulJobsHistoryLimit"] = json!(0);
    world.apply(object).await;
    world.sandbox.faults().add(Rule::new(Action::InternalError).identity(ME).verb("delete").resource("jobs"));
    world.wait(190).await;
    world.end("tick-29538725", "Complete").await;
    world.wait(60).await;
    assert!(world.event("Warning FailedDelete Deleted job: ").await >= 1);
    assert_eq!(world.event("Normal SawCompletedJob Saw completed job: tick-29538725, condition: Complete").await, 1);
    assert_eq!(world.active().await, Vec::<String>::new());
    world.sandbox.faults().clear();
    world.wait(400).await;
    assert_eq!(world.event("Normal SuccessfulDelete Deleted job tick-29538725").await, 1, "the deletion is retried");
}
