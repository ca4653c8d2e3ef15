//! Jobs with failure policies, replacement policies, deadlines and restarts.

use serde_json::json;

use crate::{
    oracle,
    world::{NAMESPACE, TestCluster, job, job_with_spec},
};

/// JOB-47, JOB-54, JOB-59.
#[tokio::test(start_paused = true)]
async fn an_exit_code_fails_the_job_and_ends_its_other_pods() {
    let world = TestCluster::new().await;
    let policy = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]});
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "podFailurePolicy": policy});
    world
        .create_object(job_with_spec("sum", &[("exit-index-1", "42"), ("after", "1"), ("terminate-after", "3")], spec))
        .await;
    world.wait_until_settled().await;
    let status = world.job_status("sum").await;
    assert_eq!(status["failed"], 3, "Pods that still ran have failed with the Job");
    assert_eq!(world.conditions("sum").await, ["FailureTarget PodFailurePolicy", "Failed PodFailurePolicy"]);
    let message = status["conditions"][1]["message"].as_str().unwrap();
    assert!(message.starts_with("Container c for pod shop/sum-1-"), "{message}");
    assert!(message.ends_with(" failed with exit code 42 matching FailJob rule at index 0"), "{message}");
    assert!(world.events().await.contains(&format!("Warning PodFailurePolicy {message}")));
    assert_eq!(world.request_count("delete", "pods"), 2);
    oracle::check_all_writes(&world);
}

/// JOB-47.
#[tokio::test(start_paused = true)]
async fn disruptions_are_ignored_and_replaced() {
    let world = TestCluster::new().await;
    let policy = json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]});
    world.create_object(job_with_spec("sum", &[], json!({"backoffLimit": 0, "podFailurePolicy": policy}))).await;
    world.wait_until_settled().await;
    let first = world.active_pod_names().await.into_iter().next().unwrap();
    let condition = json!([{"type": "DisruptionTarget", "status": "True"}]);
    world.patch_pod_status(&first, json!({"phase": "Failed", "conditions": condition})).await;
    world.wait_seconds(30).await;
    let status = world.job_status("sum").await;
    assert_eq!((status.get("failed"), &status["active"], world.pods().await.len()), (None, &json!(1), 2));
    let text = world.loops.as_ref().map(|l| l.metrics().render_prometheus()).unwrap();
    assert!(text.contains(r#"job_controller_pod_failures_handled_by_failure_policy_total{action="Ignore"} 1"#));
    oracle::check_all_writes(&world);
}

/// JOB-32, JOB-47.
#[tokio::test(start_paused = true)]
async fn a_policy_may_fail_an_index_at_once() {
    let world = TestCluster::new().await;
    let policy = json!({"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}]});
    let spec = json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 5, "podFailurePolicy": policy});
    world.create_object(job_with_spec("sum", &[("exit", "0"), ("exit-index-1", "42"), ("after", "1")], spec)).await;
    world.wait_until_settled().await;
    let status = world.job_status("sum").await;
    assert_eq!(
        (&status["failedIndexes"], &status["completedIndexes"], &status["failed"]),
        (&json!("1"), &json!("0"), &json!(1))
    );
    oracle::check_all_writes(&world);
}

/// JOB-17.
#[tokio::test(start_paused = true)]
async fn a_terminating_pod_is_replaced_at_once_or_after_it_finishes() {
    for (policy, early) in [("TerminatingOrFailed", 2), ("Failed", 1)] {
        let world = TestCluster::new().await;
        world
            .create_object(job_with_spec("sum", &[("terminate-after", "20")], json!({"podReplacementPolicy": policy})))
            .await;
        world.wait_until_settled().await;
        let first = world.active_pod_names().await.into_iter().next().unwrap();
        world.sandbox.delete("pods", Some(NAMESPACE), &first).await.unwrap();
        // The back-off of 10 s counts from the deletion.
        world.wait_seconds(15).await;
        assert_eq!(world.request_count("create", "pods"), early, "{policy}");
        let status = world.job_status("sum").await;
        assert_eq!(status["terminating"], 1, "{policy}");
        world.wait_seconds(60).await;
        assert_eq!(world.request_count("create", "pods"), 2, "{policy}");
        let status = world.job_status("sum").await;
        assert_eq!(
            (&status["failed"], &status["active"], &status["terminating"]),
            (&json!(1), &json!(1), &json!(0)),
            "{policy}"
        );
        oracle::check_all_writes(&world);
    }
}

/// JOB-10, JOB-50, JOB-53.
#[tokio::test(start_paused = true)]
async fn an_active_deadline_ends_the_job() {
    let world = TestCluster::new().await;
    world
        .create_object(job_with_spec(
            "slow",
            &[("terminate-after", "5")],
            json!({"activeDeadlineSeconds": 30, "parallelism": 2, "completions": 2}),
        ))
        .await;
    world.wait_seconds(28).await;
    assert_eq!(world.conditions("slow").await, [""; 0]);
    world.wait_seconds(4).await;
    assert_eq!(world.conditions("slow").await, ["FailureTarget DeadlineExceeded"], "the end waits for the Pods");
    assert_eq!(world.job_status("slow").await["terminating"], 2);
    world.wait_seconds(10).await;
    assert_eq!(world.conditions("slow").await, ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]);
    assert_eq!(world.job_status("slow").await["failed"], 2);
    oracle::check_all_writes(&world);
}

/// JOB-50.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_set_later_counts_from_the_start() {
    let world = TestCluster::new().await;
    world.create_object(job("slow", &[])).await;
    world.wait_seconds(60).await;
    world.patch_job_spec("slow", json!({"activeDeadlineSeconds": 90})).await;
    world.wait_seconds(27).await;
    assert_eq!(world.conditions("slow").await.len(), 0);
    world.wait_seconds(10).await;
    assert_eq!(world.conditions("slow").await.len(), 2);
}

/// JOB-49.
#[tokio::test(start_paused = true)]
async fn restarts_of_containers_are_limited_as_well() {
    let world = TestCluster::new().await;
    let mut restarting =
        job_with_spec("sum", &[("exit", "1"), ("after", "1"), ("restart-after", "1")], json!({"backoffLimit": 3}));
    restarting["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    world.create_object(restarting).await;
    world.wait_until_settled().await;
    assert_eq!(world.conditions("sum").await, ["FailureTarget BackoffLimitExceeded", "Failed BackoffLimitExceeded"]);
    assert_eq!((world.request_count("create", "pods"), &world.job_status("sum").await["failed"]), (1, &json!(1)));
    oracle::check_all_writes(&world);
}
