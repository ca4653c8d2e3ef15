//! Invalid objects, wrong clocks, and objects that only a buggy server would send.

use crate::world::*;

/// JOB-3, JOB-66.
#[tokio::test(start_paused = true)]
async fn an_invalid_job_backs_off_without_affecting_others() {
    let spec = json!({"parallelism": 77, "backoffLimit": 55, "podReplacementPolicy": "Failed"});
    let malformed = conformance::Malformed { objects: vec![job("bad", "", spec), good()], failures: 5..=7 };
    malformed
        .backs_off_alone(
            &cluster(),
            &[
                (&[("\"parallelism\":77", "\"parallelism\":-77")], "spec.parallelism is -77"),
                (&[("\"parallelism\":77", "\"parallelism\":\"many\"")], "invalid type"),
                (&[("\"backoffLimit\":55", "\"backoffLimit\":-1")], "spec.backoffLimit is -1"),
            ],
            async |world, error| {
                let pods = world.names("pods").await;
                assert!(pods.len() == 2 && pods.iter().all(|pod| pod.starts_with("good-")), "{error}: {pods:?}");
                assert_eq!(world.loops().explain(Some("shop/bad"))[0]["state"], "failing", "{error}");
            },
        )
        .await;
}

/// Returns a Job that needs two Pods.
fn good() -> Value {
    job("good", "", json!({"completions": 2, "parallelism": 2}))
}

/// JOB-4.
#[tokio::test(start_paused = true)]
async fn a_job_of_an_older_server_runs_with_current_defaults() {
    const UNKNOWN: &[(&str, &str)] = &[
        ("\"completionMode\"", "\"x1\""),
        ("\"suspend\"", "\"x2\""),
        ("\"podReplacementPolicy\"", "\"x3\""),
        ("\"backoffLimit\"", "\"x4\""),
        ("\"uncountedTerminatedPods\"", "\"x5\""),
    ];
    let mut world = cluster().lies(UNKNOWN).stopped().await;
    world.create(sum("", json!({}))).await;
    world.create(good()).await;
    world.start();
    world.wait(60).await;
    world.assert_all_lies_were_told();
    assert_eq!((world.explain()["state"].as_str(), world.pods().await.len()), (Some("settled"), 3));
}

/// JOB-6.
#[tokio::test(start_paused = true)]
async fn a_job_with_an_unknown_completion_mode_is_left_alone_and_reported() {
    let cluster = cluster().lies(&[("\"completionMode\":\"NonIndexed\"", "\"completionMode\":\"Fibonacci\"")]);
    let world = cluster.settled(sum("", json!({}))).await;
    world.wait(5).await;
    let event = "Warning UnknownCompletionMode Skipped Job sync because completion mode is unknown";
    assert_eq!(world.events().await, [event]);
    assert_eq!(world.list("events").await[0]["source"]["component"], "job-controller");
    assert_eq!(world.sandbox.count("pods"), 0);
    assert!(world.explain().to_string().contains("completion mode is unknown"));
}

/// Reports that a Pod failed at this time, as a node with a wrong clock would do.
async fn fail(world: &World, pod: &str, at: Timestamp) {
    let terminated = json!({"exitCode": 1, "finishedAt": at.to_string()});
    let statuses = json!([{"name": "c", "state": {"terminated": terminated}, "image": "", "imageID": "", "ready": false, "restartCount": 0}]);
    world.patch_pod_status(pod, json!({"phase": "Failed", "containerStatuses": statuses})).await;
}

/// Returns two Jobs. A failure delays the whole first Job, but only its index of the second Job.
fn delaying() -> [Value; 2] {
    let indexed = json!({"completions": 1, "completionMode": "Indexed", "backoffLimitPerIndex": 3});
    [sum("", json!({"backoffLimit": 6})), sum("", indexed)]
}

/// JOB-80.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_end_is_in_the_future_delays_no_longer_than_any_other() {
    for ahead in [5, 7200] {
        for job in delaying() {
            let mut world = cluster().settled(job.clone()).await;
            let first = world.first_active_pod().await;
            fail(&world, &first, world.clock.now() + SignedDuration::from_secs(ahead)).await;
            world.wait(2).await;
            world.clear_log();
            world.touch_subject().await;
            world.wait(6).await;
            assert!(world.own_writes().is_empty() && world.active_pods().await.is_empty(), "{ahead}: it waits");
            world.assert_waits("1 Pods are missing, the next is created in ");
            world.wait(5).await;
            assert_eq!(world.status().await["active"], 1, "{ahead}");
            world.wait(2).await;
            assert_eq!(world.status().await["failed"], 1, "{ahead}");
            // After the restart, it is unknown when the second Pod finished, and the wait must not exceed the usual 20 s.
            let second = world.first_active_pod().await;
            fail(&world, &second, world.clock.now() + SignedDuration::from_secs(ahead)).await;
            world.wait(2).await;
            world.restart();
            world.wait(23).await;
            assert_eq!(world.status().await["active"], 1, "{ahead}");
        }
    }
}

/// JOB-39.
#[tokio::test(start_paused = true)]
async fn a_pod_that_finished_before_its_job_started_is_counted_and_delays_nothing() {
    for job in delaying() {
        let world = cluster().settled(job).await;
        let first = world.first_active_pod().await;
        fail(&world, &first, world.clock.now() - SignedDuration::from_hours(2)).await;
        world.wait(5).await;
        assert_eq!(pick(&world.status().await, "failed active"), json!([1, 1]));
    }
}

/// JOB-84.
#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_gets_no_pods_and_no_events() {
    let late = |job: &Value, name: &str| {
        let labels = json!({"batch.kubernetes.io/controller-uid": job["metadata"]["uid"]});
        let owner = merged(json!({"apiVersion": "batch/v1", "kind": "Job"}), job.clone());
        controlled_by(orphan(name, labels, ""), &owner)
    };
    conformance::a_terminating_namespace_costs_one_creation(&cluster(), parallel("", 3), late).await;
}
