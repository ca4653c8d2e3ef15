//! Suspended and resumed Jobs, and Jobs that another controller manages.

use std::sync::Arc;

use bytes::Bytes;
use common::settings::Settings;
use http::{Request, Response};
use sandbox::ResponseBody;
use serde_json::{Value, json};

use crate::{
    oracle,
    world::{Filter, NS, Setup, World, job, job_with, refusal},
};

/// JOB-56, JOB-57.
#[tokio::test(start_paused = true)]
async fn a_job_created_suspended_starts_when_it_is_resumed() {
    let world = World::new().await;
    world
        .apply(job_with(
            "sum",
            &[("exit", "0"), ("after", "5")],
            json!({"suspend": true, "completions": 2, "parallelism": 2}),
        ))
        .await;
    world.settle().await;
    let status = world.status("sum").await;
    assert_eq!(
        (world.conditions("sum").await, status.get("startTime")),
        (vec!["Suspended JobSuspended".to_owned()], None)
    );
    assert_eq!(world.asked("create", "pods"), 0);
    world.change("sum", json!({"suspend": false})).await;
    world.settle().await;
    world.wait(10).await;
    let status = world.status("sum").await;
    assert_eq!((&status["succeeded"], &status["conditions"][0]["reason"]), (&json!(2), &json!("JobResumed")));
    let events = world.events().await;
    for event in ["Normal Suspended Job suspended", "Normal Resumed Job resumed", "Normal Completed Job completed"] {
        assert!(events.contains(&event.to_owned()), "{events:?}");
    }
    oracle::check(&world);
}

/// JOB-50, JOB-56.
#[tokio::test(start_paused = true)]
async fn pods_of_a_suspended_job_are_deleted_and_not_counted() {
    let world = World::new().await;
    world
        .apply(job_with(
            "sum",
            &[("terminate-after", "3")],
            json!({"completions": 2, "parallelism": 2, "activeDeadlineSeconds": 20}),
        ))
        .await;
    world.wait(10).await;
    world.change("sum", json!({"suspend": true})).await;
    world.settle().await;
    world.wait(60).await;
    let status = world.status("sum").await;
    assert_eq!((status.get("failed"), status.get("active"), &status["terminating"]), (None, None, &json!(0)));
    assert_eq!((status.get("startTime"), world.pods().await.len()), (None, 0));
    assert_eq!(world.conditions("sum").await, ["Suspended JobSuspended"], "time does not count while suspended");
    world.change("sum", json!({"suspend": false})).await;
    world.wait(15).await;
    assert_eq!(world.status("sum").await["active"], 2, "and starts again");
    world.wait(20).await;
    assert_eq!(world.conditions("sum").await, ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]);
    oracle::check(&world);
}

/// Rejects the status of a completed Job without a start time, as some servers do.
fn wants_a_start(request: &Request<Bytes>) -> Option<Response<ResponseBody>> {
    let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
    let status = Some(&body["status"]).filter(|_| request.uri().path().ends_with("/status"))?;
    let finished = status["conditions"].as_array()?.iter().any(|c| c["type"] == "Complete");
    (finished && status["startTime"].is_null()).then(|| {
        let causes = json!([{"reason": "FieldValueRequired", "field": "status.startTime"}]);
        refusal(422, "Invalid", "status.startTime: Required value: startTime is required for finished job", &causes)
    })
}

/// JOB-73.
#[tokio::test(start_paused = true)]
async fn a_suspended_job_that_wants_no_pods_has_no_start_time_unless_required() {
    for filter in [None, Some(Arc::new(wants_a_start) as Filter)] {
        let wanted = filter.is_some();
        let world = World::with(Setup { filter, ..Setup::default() }).await;
        world.apply(job_with("sum", &[], json!({"completions": 0, "suspend": true}))).await;
        world.wait(5).await;
        let status = world.status("sum").await;
        assert_eq!(world.conditions("sum").await.last().unwrap(), "Complete CompletionsReached");
        let start = if wanted { &status["completionTime"] } else { &Value::Null };
        assert_eq!(&status["startTime"], start);
        world.forget();
        world.poke("sum").await;
        world.wait(60).await;
        assert!(world.written().is_empty());
    }
}

/// JOB-90.
#[tokio::test(start_paused = true)]
async fn the_start_time_is_kept_with_the_gate_off() {
    let settings = Settings::new().with_gate("MutableSchedulingDirectivesForSuspendedJobs", false);
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    world.apply(job("sum", &[])).await;
    world.settle().await;
    let start = world.status("sum").await["startTime"].clone();
    world.change("sum", json!({"suspend": true})).await;
    world.settle().await;
    assert_eq!(world.status("sum").await["startTime"], start);
}

/// JOB-73.
#[tokio::test(start_paused = true)]
async fn a_suspended_job_that_fails_is_finished() {
    let world = World::new().await;
    world.apply(job_with("sum", &[("exit", "1")], json!({"backoffLimit": 3}))).await;
    world.wait(3).await;
    world.change("sum", json!({"suspend": true})).await;
    world.settle().await;
    world.change("sum", json!({"backoffLimit": 0})).await;
    world.settle().await;
    assert_eq!(world.conditions("sum").await.last().unwrap(), "Failed BackoffLimitExceeded");
    assert!(world.status("sum").await["startTime"].is_string());
    oracle::check(&world);
}

/// JOB-73.
#[tokio::test(start_paused = true)]
async fn a_job_that_wants_no_pods_completes_even_while_suspended() {
    let world = World::new().await;
    world.apply(job_with("none", &[], json!({"completions": 0, "suspend": true}))).await;
    world.settle().await;
    assert_eq!(world.conditions("none").await.last().unwrap(), "Complete CompletionsReached");
    assert_eq!(world.status("none").await.get("startTime"), None);
}

/// JOB-5, JOB-68.
#[tokio::test(start_paused = true)]
async fn jobs_of_other_managers_are_ignored() {
    let world = World::new().await;
    world.apply(job_with("theirs", &[], json!({"managedBy": "example.com/queue"}))).await;
    world.apply(job_with("ours", &[], json!({"managedBy": "kubernetes.io/job-controller"}))).await;
    world.settle().await;
    assert_eq!(world.status("theirs").await, json!({}));
    assert_eq!(world.status("ours").await["active"], 1);
    let text = world.loops.as_ref().map(|l| l.metrics().prometheus()).unwrap();
    assert!(
        text.contains(r#"job_controller_jobs_by_external_controller_total{controller_name="example.com/queue"} 1"#)
    );
    // A recreated Job that another controller manages is ignored, even if its key is still in the queue.
    world.remove("ours", "Background").await;
    world.apply(job_with("ours", &[], json!({"managedBy": "example.com/queue"}))).await;
    world.settle().await;
    assert_eq!(world.status("ours").await, json!({}));
}

/// The creator of a suspended Job can update the Job at once, with the version from the create.
/// JOB-8.
#[tokio::test(start_paused = true)]
async fn the_first_sync_of_a_job_created_suspended_is_delayed() {
    let world = World::new().await;
    let mut job = world.apply(job_with("sum", &[], json!({"suspend": true}))).await;
    world.clock.sleep(std::time::Duration::from_millis(50)).await;
    job["spec"]["template"]["spec"]["nodeSelector"] = json!({"foo": "bar"});
    let path = format!("/apis/batch/v1/namespaces/{NS}/jobs/sum");
    let updated = world.sandbox.send(http::Method::PUT, &path, "application/json", Some(&job)).await;
    updated.expect("there was no other write");
    world.settle().await;
    assert_eq!(world.conditions("sum").await, ["Suspended JobSuspended"]);
}
