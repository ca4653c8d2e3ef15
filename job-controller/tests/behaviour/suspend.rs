//! Suspended and resumed Jobs, and Jobs that another controller manages.

use crate::{oracle, world::*};

/// JOB-56, JOB-57.
#[tokio::test(start_paused = true)]
async fn a_job_created_suspended_starts_when_it_is_resumed() {
    let world =
        cluster().settled(sum("exit=0 after=5", json!({"suspend": true, "completions": 2, "parallelism": 2}))).await;
    let status = world.status().await;
    assert_eq!(
        (world.true_conditions().await, status.get("startTime")),
        (vec!["Suspended JobSuspended".to_owned()], None)
    );
    assert_eq!(world.count("create", "pods"), 0);
    world.change_and_settle(json!({"suspend": false})).await;
    world.wait(10).await;
    let status = world.status().await;
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
    let world = cluster().start().await;
    world
        .create(sum("terminate-after=3", json!({"completions": 2, "parallelism": 2, "activeDeadlineSeconds": 20})))
        .await;
    world.wait(10).await;
    world.change_and_settle(json!({"suspend": true})).await;
    world.wait(60).await;
    let status = world.status().await;
    assert_eq!(pick(&status, "failed active terminating"), json!([null, null, 0]));
    assert_eq!((status.get("startTime"), world.pods().await.len()), (None, 0));
    assert_eq!(world.true_conditions().await, ["Suspended JobSuspended"], "time does not count while suspended");
    world.change(json!({"suspend": false})).await;
    world.wait(15).await;
    assert_eq!(world.status().await["active"], 2, "and starts again");
    world.wait(20).await;
    assert_eq!(world.true_conditions().await, ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]);
    oracle::check_all_writes(&world);
}

/// Rejects a status that completes a Job without a start time, as some servers do.
fn wants_a_start(request: &LoopRequest) -> Option<Answer> {
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
    for filter in [None, Some(Arc::new(wants_a_start) as RequestFilter)] {
        let wanted = filter.is_some();
        let world = filter.into_iter().fold(cluster(), Cluster::filter).start().await;
        world.create(sum("", json!({"completions": 0, "suspend": true}))).await;
        world.wait(5).await;
        let status = world.status().await;
        assert_eq!(world.true_conditions().await.last().unwrap(), "Complete CompletionsReached");
        let start = if wanted { &status["completionTime"] } else { &Value::Null };
        assert_eq!(&status["startTime"], start);
        world.clear_log();
        world.touch_subject().await;
        world.wait(60).await;
        world.assert_wrote_nothing();
    }
}

/// JOB-90.
#[tokio::test(start_paused = true)]
async fn the_start_time_is_kept_with_the_gate_off() {
    let world = cluster().gate("MutableSchedulingDirectivesForSuspendedJobs", false).settled(sum("", json!({}))).await;
    let start = world.status().await["startTime"].clone();
    world.change_and_settle(json!({"suspend": true})).await;
    assert_eq!(world.status().await["startTime"], start);
}

/// JOB-73.
#[tokio::test(start_paused = true)]
async fn a_suspended_job_that_fails_is_finished() {
    let world = cluster().start().await;
    world.create(sum("exit=1", json!({"backoffLimit": 3}))).await;
    world.wait(3).await;
    world.change_and_settle(json!({"suspend": true})).await;
    world.change_and_settle(json!({"backoffLimit": 0})).await;
    assert_eq!(world.true_conditions().await.last().unwrap(), "Failed BackoffLimitExceeded");
    assert!(world.status().await["startTime"].is_string());
    oracle::check_all_writes(&world);
}

/// JOB-5, JOB-68.
#[tokio::test(start_paused = true)]
async fn jobs_of_other_managers_are_ignored() {
    let world = cluster().start().await;
    world.create(job("theirs", "", json!({"managedBy": "example.com/queue"}))).await;
    world.create_and_settle(job("ours", "", json!({"managedBy": "kubernetes.io/job-controller"}))).await;
    assert_eq!(world.status_of(JOBS, "theirs").await, json!({}));
    assert_eq!(world.status_of(JOBS, "ours").await["active"], 1);
    assert!(
        world
            .metrics()
            .contains(r#"job_controller_jobs_by_external_controller_total{controller_name="example.com/queue"} 1"#)
    );
    // A recreated Job that another controller manages is ignored, even if its key is still in the queue.
    delete_job(&world, "ours", "Background").await;
    world.create_and_settle(job("ours", "", json!({"managedBy": "example.com/queue"}))).await;
    assert_eq!(world.status_of(JOBS, "ours").await, json!({}));
}

/// A client that creates a suspended Job can update the Job at once, with the version from the creation.
/// JOB-8.
#[tokio::test(start_paused = true)]
async fn the_first_sync_of_a_job_created_suspended_is_delayed() {
    let world = cluster().start().await;
    let mut job = world.create(sum("", json!({"suspend": true}))).await;
    world.wait(0.05).await;
    job["spec"]["template"]["spec"]["nodeSelector"] = json!({"foo": "bar"});
    let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/sum");
    let updated = world.sandbox.send(Method::PUT, &path, "application/json", Some(&job)).await;
    updated.expect("there was no other write");
    world.settle().await;
    assert_eq!(world.true_conditions().await, ["Suspended JobSuspended"]);
}
