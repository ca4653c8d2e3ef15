//! Invalid objects, wrong clocks, and objects that only a buggy server would send.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use common::{prelude::*, settings::OperatorSettings};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use jiff::SignedDuration;
use sandbox::{ConnectionCut, Sandbox, loops::Loops};
use serde_json::{Value, json};
use tower::Service as _;

use crate::{
    oracle,
    world::{
        COMPLETION_INDEX_KEY, CONTROLLER_IDENTITY, ClusterSetup, NAMESPACE, TRACKING_FINALIZER, TestCluster,
        error_response, finalizers, job, job_with_spec, name,
    },
};

/// A function that changes a Job in an answer of the server. Returns whether the Job had the field to change.
type AnswerChange = fn(&mut Value) -> bool;

/// Replaces the value `is` of a field by `said`. Returns false if the field has another value.
fn replace_field(job: &mut Value, section: &str, field: &str, is: &Value, said: Value) -> bool {
    let known = job[section].get_mut(field).filter(|known| **known == *is);
    known.is_some_and(|known| {
        *known = said;
        true
    })
}

/// Removes a field. Returns false if the field is absent.
fn remove_field(job: &mut Value, section: &str, field: &str) -> bool {
    job[section].as_object_mut().is_some_and(|section| section.remove(field).is_some())
}

/// Applies the changes `lies` to the Job `bad`, wherever it occurs in `value`, and counts the changes.
fn change_bad_job(value: &mut Value, lies: &[(AnswerChange, AtomicUsize)]) {
    if value["metadata"]["name"] == "bad" && value["spec"]["template"].is_object() {
        for (lie, times) in lies {
            times.fetch_add(usize::from(lie(value)), Ordering::Relaxed);
        }
        return;
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|value| change_bad_job(value, lies)),
        Value::Array(items) => items.iter_mut().for_each(|value| change_bad_job(value, lies)),
        _ => {}
    }
}

/// Changes of the server's answers, each with the count of Jobs that it has changed.
type CountedChanges = Arc<[(AnswerChange, AtomicUsize)]>;

fn counted_changes(all: &[AnswerChange]) -> CountedChanges {
    all.iter().map(|lie| (*lie, AtomicUsize::new(0))).collect()
}

fn all_applied(lies: &CountedChanges) -> bool {
    lies.iter().all(|(_, times)| times.load(Ordering::Relaxed) > 0)
}

/// Builds a client that applies these changes to the Job `bad` in every answer of the sandbox.
fn changing_client(sandbox: &Sandbox, lies: &CountedChanges) -> kube::Client {
    let (inner, lies) = (sandbox.service(CONTROLLER_IDENTITY), Arc::clone(lies));
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (mut inner, lies) = (inner.clone(), Arc::clone(&lies));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| ConnectionCut)?.to_bytes();
            let response = inner.call(Request::from_parts(parts, Full::new(body))).await?;
            Ok::<_, ConnectionCut>(response.map(|body| {
                body.map_frame(move |frame| {
                    frame.map_data(|data| {
                        let mut out = Vec::with_capacity(data.len());
                        // The data is one JSON value, or one value per line in a watch.
                        for value in serde_json::Deserializer::from_slice(&data).into_iter::<Value>() {
                            let mut value = value.unwrap();
                            change_bad_job(&mut value, &lies);
                            serde_json::to_writer(&mut out, &value).unwrap();
                            out.push(b'\n');
                        }
                        Bytes::from(out)
                    })
                })
                .boxed_unsync()
            }))
        }
    });
    kube::Client::new(service, "default")
}

async fn run_with_changes(all: &[AnswerChange], bad: Value) -> (Value, Vec<Value>, Vec<Value>) {
    let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
    // The answers must be JSON, because they are changed as text.
    let sandbox = Sandbox::builder().clock(clock.clone()).protobuf(false).build();
    sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})).await.unwrap();
    sandbox.create(bad).await.unwrap();
    sandbox.create(job_with_spec("good", &[], json!({"completions": 2, "parallelism": 2}))).await.unwrap();
    let lies = counted_changes(all);
    let loops = Loops::start(&changing_client(&sandbox, &lies), &clock, OperatorSettings::new(), job_controller::LOOPS);
    clock.sleep(std::time::Duration::from_mins(1)).await;
    assert!(all_applied(&lies), "{lies:?}");
    let shown = loops.explain(Some("shop/bad"))[0].clone();
    let pods = sandbox.list("pods", Some(NAMESPACE)).await.unwrap();
    let of = |job: &str| pods.iter().filter(|p| name(p).starts_with(job)).cloned().collect();
    (shown, of("bad"), of("good"))
}

/// JOB-3, JOB-66.
#[tokio::test(start_paused = true)]
async fn an_invalid_job_backs_off_without_affecting_others() {
    let negative: AnswerChange = |job| replace_field(job, "spec", "parallelism", &json!(77), json!(-77));
    let text: AnswerChange = |job| replace_field(job, "spec", "parallelism", &json!(77), json!("many"));
    let limit: AnswerChange = |job| replace_field(job, "spec", "backoffLimit", &json!(55), json!(-1));
    for (lie, error) in
        [(negative, "spec.parallelism is -77"), (text, "invalid type"), (limit, "spec.backoffLimit is -1")]
    {
        let bad =
            job_with_spec("bad", &[], json!({"parallelism": 77, "backoffLimit": 55, "podReplacementPolicy": "Failed"}));
        let (shown, bad, good) = run_with_changes(&[lie], bad).await;
        assert_eq!((shown["state"].as_str(), bad.len(), good.len()), (Some("failing"), 0, 2), "{error}: {shown}");
        assert!(shown["waiting"][0].as_str().unwrap().contains(error), "{error}: {shown}");
        let failures = shown["lastError"]["failures"].as_u64().unwrap();
        assert!((5..=7).contains(&failures), "{shown}");
    }
}

/// JOB-4.
#[tokio::test(start_paused = true)]
async fn a_job_of_an_older_server_runs_with_current_defaults() {
    let old: [AnswerChange; 5] = [
        |job| remove_field(job, "spec", "completionMode"),
        |job| remove_field(job, "spec", "suspend"),
        |job| remove_field(job, "spec", "podReplacementPolicy"),
        |job| remove_field(job, "spec", "backoffLimit"),
        |job| remove_field(job, "status", "uncountedTerminatedPods"),
    ];
    let (shown, bad, good) = run_with_changes(&old, job("bad", &[])).await;
    assert_eq!((shown["state"].as_str(), bad.len(), good.len()), (Some("settled"), 1, 2), "{shown}");
}

/// JOB-6.
#[tokio::test(start_paused = true)]
async fn a_job_with_an_unknown_completion_mode_is_left_alone_and_reported() {
    let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
    let sandbox = Sandbox::builder().clock(clock.clone()).protobuf(false).build();
    sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})).await.unwrap();
    sandbox.create(job("bad", &[])).await.unwrap();
    let lies = counted_changes(&[|job| {
        replace_field(job, "spec", "completionMode", &json!("NonIndexed"), json!("Fibonacci"))
    }]);
    let loops = Loops::start(&changing_client(&sandbox, &lies), &clock, OperatorSettings::new(), job_controller::LOOPS);
    clock.sleep(std::time::Duration::from_secs(5)).await;
    assert!(all_applied(&lies));
    let events = sandbox.list("events", Some(NAMESPACE)).await.unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&events[0]["reason"], &events[0]["message"]),
        (&json!("UnknownCompletionMode"), &json!("Skipped Job sync because completion mode is unknown"))
    );
    assert_eq!(events[0]["source"]["component"], "job-controller");
    assert_eq!(sandbox.count("pods"), 0);
    assert!(loops.explain(Some("shop/bad")).to_string().contains("completion mode is unknown"));
}

/// JOB-29.
#[tokio::test(start_paused = true)]
async fn pods_with_an_invalid_index_are_not_counted() {
    for lie in ["7", "-1", "one", ""] {
        for phase in ["Succeeded", "Failed", "Running"] {
            let world = TestCluster::new().await;
            world
                .create_object(job_with_spec(
                    "sum",
                    &[],
                    json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed"}),
                ))
                .await;
            world.wait_until_settled().await;
            let liar = world.active_pod_names().await.into_iter().next().unwrap();
            world.merge("pods", &liar, json!({"metadata": {"annotations": {COMPLETION_INDEX_KEY: lie}}})).await;
            if phase != "Running" {
                world.patch_pod_status(&liar, json!({ "phase": phase })).await;
            }
            world.wait_seconds(30).await;
            let status = world.job_status("sum").await;
            let counted = (status.get("succeeded"), status.get("failed"), &status["active"]);
            assert_eq!(counted, (None, None, &json!(2)), "{lie:?} {phase}");
            let pods = world.pods().await;
            for pod in pods.iter().filter(|pod| name(pod) == liar) {
                assert!(finalizers(pod).is_empty(), "{lie:?} {phase}");
            }
            oracle::check_all_writes(&world);
        }
    }
}

/// Reports that a Pod failed at this time, as a node with a wrong clock would do.
async fn fail(world: &TestCluster, pod: &str, at: jiff::Timestamp) {
    let terminated = json!({"exitCode": 1, "finishedAt": at.to_string()});
    let statuses = json!([{"name": "c", "state": {"terminated": terminated}, "image": "", "imageID": "", "ready": false, "restartCount": 0}]);
    world.patch_pod_status(pod, json!({"phase": "Failed", "containerStatuses": statuses})).await;
}

/// Returns two Jobs. A failure delays the whole first Job, but only its index of the second Job.
fn delaying() -> [Value; 2] {
    let indexed = json!({"completions": 1, "completionMode": "Indexed", "backoffLimitPerIndex": 3});
    [job_with_spec("sum", &[], json!({"backoffLimit": 6})), job_with_spec("sum", &[], indexed)]
}

/// JOB-80.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_end_is_in_the_future_delays_no_longer_than_any_other() {
    for ahead in [5, 7200] {
        for job in delaying() {
            let mut world = TestCluster::new().await;
            world.create_object(job.clone()).await;
            world.wait_until_settled().await;
            let first = world.active_pod_names().await.into_iter().next().unwrap();
            fail(&world, &first, world.clock.now() + SignedDuration::from_secs(ahead)).await;
            world.wait_seconds(2).await;
            world.reset_counts();
            world.touch_job("sum").await;
            world.wait_seconds(6).await;
            assert!(
                world.writes_of_loops().is_empty() && world.active_pod_names().await.is_empty(),
                "{ahead}: it waits"
            );
            let shown = world.loops.as_ref().unwrap().explain(Some("shop/sum"))[0]["waiting"].to_string();
            assert!(shown.contains("1 Pods are missing, the next is created in "), "{shown}");
            world.wait_seconds(5).await;
            assert_eq!(world.job_status("sum").await["active"], 1, "{ahead}");
            world.wait_seconds(2).await;
            assert_eq!(world.job_status("sum").await["failed"], 1, "{ahead}");
            // After the restart, it is unknown when the second Pod finished, and the wait must not exceed the usual 20 s.
            let second = world.active_pod_names().await.into_iter().next().unwrap();
            fail(&world, &second, world.clock.now() + SignedDuration::from_secs(ahead)).await;
            world.wait_seconds(2).await;
            world.crash_loops();
            world.start();
            world.wait_seconds(23).await;
            assert_eq!(world.job_status("sum").await["active"], 1, "{ahead}");
        }
    }
}

/// JOB-39.
#[tokio::test(start_paused = true)]
async fn a_pod_that_finished_before_its_job_started_is_counted_and_delays_nothing() {
    for job in delaying() {
        let world = TestCluster::new().await;
        world.create_object(job).await;
        world.wait_until_settled().await;
        let first = world.active_pod_names().await.into_iter().next().unwrap();
        fail(&world, &first, world.clock.now() - SignedDuration::from_hours(2)).await;
        world.wait_seconds(5).await;
        let status = world.job_status("sum").await;
        assert_eq!((&status["failed"], &status["active"]), (&json!(1), &json!(1)));
        oracle::check_all_writes(&world);
    }
}

/// JOB-74.
#[tokio::test(start_paused = true)]
async fn a_clock_set_back_does_not_keep_a_job_from_completing() {
    let mut world = TestCluster::new().await;
    world.create_object(job("sum", &[("exit", "0"), ("after", "5")])).await;
    world.wait_seconds(2).await;
    world.crash_loops();
    world.clock.shift_wall_clock(SignedDuration::from_secs(-600));
    world.start();
    world.wait_seconds(15).await;
    let status = world.job_status("sum").await;
    assert_eq!(world.conditions("sum").await.len(), 2);
    assert_eq!(status["completionTime"], status["startTime"]);
    oracle::check_all_writes(&world);
}

/// JOB-84.
#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_gets_no_pods_and_no_events() {
    let filter = Arc::new(|request: &Request<Bytes>| {
        let creates = request.method() == http::Method::POST && request.uri().path().ends_with("/pods");
        creates.then(|| {
            let causes = json!([{"reason": "NamespaceTerminating", "message": "namespace shop is being terminated", "field": "metadata.namespace"}]);
            error_response(403, "Forbidden", "forbidden: namespace shop is being terminated", &causes)
        })
    });
    let world = TestCluster::with_setup(ClusterSetup { filter: Some(filter), ..ClusterSetup::default() }).await;
    world.create_object(job_with_spec("sum", &[], json!({"completions": 30, "parallelism": 30}))).await;
    world.wait_seconds(60).await;
    assert!(world.events().await.is_empty());
    let status = world.job_status("sum").await;
    assert_eq!((status.get("active"), &status["ready"]), (None, &json!(0)));
}

/// JOB-45.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_finalizer_cannot_be_removed_stays_listed() {
    let filter = Arc::new(|request: &Request<Bytes>| {
        let patches = request.method() == http::Method::PATCH && request.uri().path().contains("/pods/");
        patches.then(|| {
            error_response(
                422,
                "Invalid",
                "Pod \"x\" is invalid: spec: Forbidden: pod updates may not change fields",
                &json!([{"field": "spec"}]),
            )
        })
    });
    let world = TestCluster::with_setup(ClusterSetup { filter: Some(filter), ..ClusterSetup::default() }).await;
    world.create_object(job("sum", &[("exit", "0")])).await;
    world.wait_seconds(60).await;
    let status = world.job_status("sum").await;
    assert_eq!(
        (status.get("succeeded"), status["uncountedTerminatedPods"]["succeeded"].as_array().unwrap().len()),
        (None, 1)
    );
    assert_eq!(finalizers(&world.pods().await[0]), [TRACKING_FINALIZER]);
    let shown = world.loops.as_ref().unwrap().explain(Some("shop/sum"))[0].clone();
    assert!(shown["lastError"]["error"].as_str().unwrap().contains("pod updates may not change fields"), "{shown}");
    oracle::check_all_writes(&world);
}
