//! Suspended Jobs: their start time and their first sync.

use crate::world::*;

/// Rejects a status that completes a Job without a start time, as some servers do.
fn wants_a_start(request: &LoopRequest) -> Option<Answer> {
    let body = request.body();
    let body = serde_json::from_slice(body).or_else(|_| sandbox::protobuf::parse(body)).unwrap_or_default();
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
