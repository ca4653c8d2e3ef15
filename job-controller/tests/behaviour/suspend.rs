//! Suspended and resumed Jobs, and Jobs that another controller manages.

use std::sync::Arc;

use bytes::Bytes;
use common::settings::OperatorSettings;
use http::{Request, Response};
use sandbox::ResponseBody;
use serde_json::{Value, json};

use crate::{
    oracle,
    world::{ClusterSetup, NAMESPACE, RequestFilter, TestCluster, error_response, job, job_with_spec},
};

/// JOB-56, JOB-57.
#[tokio::test(start_paused = true)]
async fn a_job_created_suspended_starts_when_it_is_resumed() {
    let world = TestCluster::new().await;
    world
        .create_object(job_with_spec(
            "sum",
            &[("exit", "0"), ("after", "5")],
            json!({"suspend": true, "completions": 2, "parallelism": 2}),
        ))
        .await;
    world.wait_until_settled().await;
    let status = world.job_status("sum").await;
    assert_eq!(
        (world.conditions("sum").await, status.get("startTime")),
        (vec!["Suspended JobSuspended".to_owned()], None)
    );
    assert_eq!(world.request_count("create", "pods"), 0);
    world.patch_job_spec("sum", json!({"suspend": false})).await;
    world.wait_until_settled().await;
    world.wait_seconds(10).await;
    let status = world.job_status("sum").await;
    assert_eq!((&status["succeeded"], &status["conditions"][0]["reason"]), (&json!(2), &json!("JobResumed")));
    let events = world.events().await;
    for event in ["Normal Suspended Job suspended", "Normal Resumed Job resumed", "Normal Completed Job completed"] {
        assert!(events.contains(&event.to_owned()), "{events:?}");
    }
    oracle::check_all_writes(&world);
}

/// JOB-50, JOB-56.
#[tokio::test(start_paused = true)]
async fn pods_of_a_suspended_job_are_deleted_and_not_counted() {
    let world = TestCluster::new().await;
    world
        .create_object(job_with_spec(
            "sum",
            &[("terminate-after", "3")],
            json!({"completions": 2, "parallelism": 2, "activeDeadlineSeconds": 20}),
        ))
        .await;
    world.wait_seconds(10).await;
    world.patch_job_spec("sum", json!({"suspend": true})).await;
    world.wait_until_settled().await;
    world.wait_seconds(60).await;
    let status = world.job_status("sum").await;
    assert_eq!((status.get("failed"), status.get("active"), &status["terminating"]), (None, None, &json!(0)));
    assert_eq!((status.get("startTime"), world.pods().await.len()), (None, 0));
    assert_eq!(world.conditions("sum").await, ["Suspended JobSuspended"], "time does not count while suspended");
    world.patch_job_spec("sum", json!({"suspend": false})).await;
    world.wait_seconds(15).await;
    assert_eq!(world.job_status("sum").await["active"], 2, "and starts again");
    world.wait_seconds(20).await;
    assert_eq!(world.conditions("sum").await, ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]);
    oracle::check_all_writes(&world);
}

/// Rejects a status that completes a Job without a start time, as some servers do.
fn wants_a_start(request: &Request<Bytes>) -> Option<Response<ResponseBody>> {
    let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
    let status = Some(&body["status"]).filter(|_| request.uri().path().ends_with("/status"))?;
    let finished = status["conditions"].as_array()?.iter().any(|c| c["type"] == "Complete");
    (finished && status["startTime"].is_null()).then(|| {
        let causes = json!([{"reason": "FieldValueRequired", "field": "status.startTime"}]);
        error_response(
            422,
            "Invalid",
            "status.startTime: Required value: startTime is required for finished job",
            &causes,
        )
    })
}

/// JOB-73.
#[tokio::test(start_paused = true)]
async fn a_suspended_job_that_wants_no_pods_has_no_start_time_unless_required() {
    for filter in [None, Some(Arc::new(wants_a_start) as RequestFilter)] {
        let wanted = filter.is_some();
        let world = TestCluster::with_setup(ClusterSetup { filter, ..ClusterSetup::default() }).await;
        world.create_object(job_with_spec("sum", &[], json!({"completions": 0, "suspend": true}))).await;
        world.wait_seconds(5).await;
        let status = world.job_status("sum").await;
        assert_eq!(world.conditions("sum").await.last().unwrap(), "Complete CompletionsReached");
        let start = if wanted { &status["completionTime"] } else { &Value::Null };
        assert_eq!(&status["startTime"], start);
        world.reset_counts();
        world.touch_job("sum").await;
        world.wait_seconds(60).await;
        assert!(world.writes_of_loops().is_empty());
    }
}

/// JOB-90.
#[tokio::test(start_paused = true)]
async fn the_start_time_is_kept_with_the_gate_off() {
    let settings = OperatorSettings::new().with_feature_gate("MutableSchedulingDirectivesForSuspendedJobs", false);
    let world = TestCluster::with_setup(ClusterSetup { settings, ..ClusterSetup::default() }).await;
    world.create_object(job("sum", &[])).await;
    world.wait_until_settled().await;
    let start = world.job_status("sum").await["startTime"].clone();
    world.patch_job_spec("sum", json!({"suspend": true})).await;
    world.wait_until_settled().await;
    assert_eq!(world.job_status("sum").await["startTime"], start);
}

/// JOB-73.
#[tokio::test(start_paused = true)]
async fn a_suspended_job_that_fails_is_finished() {
    let world = TestCluster::new().await;
    world.create_object(job_with_spec("sum", &[("exit", "1")], json!({"backoffLimit": 3}))).await;
    world.wait_seconds(3).await;
    world.patch_job_spec("sum", json!({"suspend": true})).await;
    world.wait_until_settled().await;
    world.patch_job_spec("sum", json!({"backoffLimit": 0})).await;
    world.wait_until_settled().await;
    assert_eq!(world.conditions("sum").await.last().unwrap(), "Failed BackoffLimitExceeded");
    assert!(world.job_status("sum").await["startTime"].is_string());
    oracle::check_all_writes(&world);
}

/// JOB-73.
#[tokio::test(start_paused = true)]
async fn a_job_that_wants_no_pods_completes_even_while_suspended() {
    let world = TestCluster::new().await;
    world.create_object(job_with_spec("none", &[], json!({"completions": 0, "suspend": true}))).await;
    world.wait_until_settled().await;
    assert_eq!(world.conditions("none").await.last().unwrap(), "Complete CompletionsReached");
    assert_eq!(world.job_status("none").await.get("startTime"), None);
}

/// JOB-5, JOB-68.
#[tokio::test(start_paused = true)]
async fn jobs_of_other_managers_are_ignored() {
    let world = TestCluster::new().await;
    world.create_object(job_with_spec("theirs", &[], json!({"managedBy": "example.com/queue"}))).await;
    world.create_object(job_with_spec("ours", &[], json!({"managedBy": "kubernetes.io/job-controller"}))).await;
    world.wait_until_settled().await;
    assert_eq!(world.job_status("theirs").await, json!({}));
    assert_eq!(world.job_status("ours").await["active"], 1);
    let text = world.loops.as_ref().map(|l| l.metrics().render_prometheus()).unwrap();
    assert!(
        text.contains(r#"job_controller_jobs_by_external_controller_total{controller_name="example.com/queue"} 1"#)
    );
    // A recreated Job that another controller manages is ignored, even if its key is still in the queue.
    world.delete_job("ours", "Background").await;
    world.create_object(job_with_spec("ours", &[], json!({"managedBy": "example.com/queue"}))).await;
    world.wait_until_settled().await;
    assert_eq!(world.job_status("ours").await, json!({}));
}

/// A client that creates a suspended Job can update the Job at once, with the version from the creation.
/// JOB-8.
#[tokio::test(start_paused = true)]
async fn the_first_sync_of_a_job_created_suspended_is_delayed() {
    let world = TestCluster::new().await;
    let mut job = world.create_object(job_with_spec("sum", &[], json!({"suspend": true}))).await;
    world.clock.sleep(std::time::Duration::from_millis(50)).await;
    job["spec"]["template"]["spec"]["nodeSelector"] = json!({"foo": "bar"});
    let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/sum");
    let updated = world.sandbox.send(http::Method::PUT, &path, "application/json", Some(&job)).await;
    updated.expect("there was no other write");
    world.wait_until_settled().await;
    assert_eq!(world.conditions("sum").await, ["Suspended JobSuspended"]);
}
