//! Jobs with failure policies, replacement policies, deadlines and restarts.

use crate::{oracle, world::*};

/// JOB-47, JOB-54, JOB-59.
#[tokio::test(start_paused = true)]
async fn an_exit_code_fails_the_job_and_ends_its_other_pods() {
    let world = cluster().start().await;
    let policy = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]});
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "podFailurePolicy": policy});
    world.create_and_settle(sum("exit-index-1=42 after=1 terminate-after=3", spec)).await;
    let status = world.status().await;
    assert_eq!(status["failed"], 3, "Pods that still ran have failed with the Job");
    assert_eq!(world.true_conditions().await, ["FailureTarget PodFailurePolicy", "Failed PodFailurePolicy"]);
    let message = status["conditions"][1]["message"].as_str().unwrap();
    assert!(message.starts_with("Container c for pod shop/sum-1-"), "{message}");
    assert!(message.ends_with(" failed with exit code 42 matching FailJob rule at index 0"), "{message}");
    assert!(world.events().await.contains(&format!("Warning PodFailurePolicy {message}")));
    assert_eq!(world.count("delete", "pods"), 2);
    oracle::check_all_writes(&world);
}

/// JOB-32, JOB-47.
#[tokio::test(start_paused = true)]
async fn a_policy_may_fail_an_index_at_once() {
    let policy = json!({"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}]});
    let spec = json!({"backoffLimitPerIndex": 5, "podFailurePolicy": policy});
    let world = cluster().settled(with_spec(indexed("exit=0 exit-index-1=42 after=1", 2), spec)).await;
    assert_eq!(pick(&world.status().await, "failedIndexes completedIndexes failed"), json!(["1", "0", 1]));
    oracle::check_all_writes(&world);
}

/// JOB-49.
#[tokio::test(start_paused = true)]
async fn restarts_of_containers_are_limited_as_well() {
    let spec = json!({"backoffLimit": 3, "template": {"spec": {"restartPolicy": "OnFailure"}}});
    let world =
        cluster().settled(merged(sum("exit=1 after=1 restart-after=1", json!({})), json!({"spec": spec}))).await;
    let reasons = ["FailureTarget BackoffLimitExceeded", "Failed BackoffLimitExceeded"];
    assert_eq!(world.true_conditions().await, reasons);
    assert_eq!((world.count("create", "pods"), &world.status().await["failed"]), (1, &json!(1)));
    oracle::check_all_writes(&world);
}

/// JOB-50.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_set_later_counts_from_the_start() {
    let world = cluster().start().await;
    world.create(sum("", json!({}))).await;
    world.wait(60).await;
    world.change(json!({"activeDeadlineSeconds": 90})).await;
    world.wait(27).await;
    assert_eq!(world.true_conditions().await, [""; 0]);
    world.wait(10).await;
    assert_eq!(world.true_conditions().await.len(), 2);
}

/// JOB-47.
#[tokio::test(start_paused = true)]
async fn disruptions_are_ignored_and_replaced() {
    let world = cluster().start().await;
    let policy = json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]});
    world.create_and_settle(sum("", json!({"backoffLimit": 0, "podFailurePolicy": policy}))).await;
    let first = world.first_active_pod().await;
    let condition = json!([{"type": "DisruptionTarget", "status": "True"}]);
    world.patch_pod_status(&first, json!({"phase": "Failed", "conditions": condition})).await;
    world.wait(30).await;
    let status = world.status().await;
    assert_eq!((status.get("failed"), &status["active"], world.pods().await.len()), (None, &json!(1), 2));
    assert!(
        world.metrics().contains(r#"job_controller_pod_failures_handled_by_failure_policy_total{action="Ignore"} 1"#)
    );
    oracle::check_all_writes(&world);
}

/// JOB-17.
#[tokio::test(start_paused = true)]
async fn a_terminating_pod_is_replaced_at_once_or_after_it_finishes() {
    for (policy, early) in [("TerminatingOrFailed", 2), ("Failed", 1)] {
        let world = cluster().settled(sum("terminate-after=20", json!({"podReplacementPolicy": policy}))).await;
        let first = world.first_active_pod().await;
        world.delete("pods", &first).await;
        // The back-off of 10 s counts from the deletion.
        world.wait(15).await;
        assert_eq!(world.count("create", "pods"), early, "{policy}");
        assert_eq!(world.status().await["terminating"], 1, "{policy}");
        world.wait(60).await;
        assert_eq!(world.count("create", "pods"), 2, "{policy}");
        let status = world.status().await;
        assert_eq!(pick(&status, "failed active terminating"), json!([1, 1, 0]), "{policy}");
        oracle::check_all_writes(&world);
    }
}

/// JOB-10, JOB-50, JOB-53.
#[tokio::test(start_paused = true)]
async fn an_active_deadline_ends_the_job() {
    let world = cluster().start().await;
    world
        .create(job(
            "slow",
            "terminate-after=5",
            json!({"activeDeadlineSeconds": 30, "parallelism": 2, "completions": 2}),
        ))
        .await;
    world.wait(28).await;
    assert_eq!(conditions(&world, "slow").await, [""; 0]);
    world.wait(4).await;
    assert_eq!(conditions(&world, "slow").await, ["FailureTarget DeadlineExceeded"], "the end waits for the Pods");
    assert_eq!(world.status_of(JOBS, "slow").await["terminating"], 2);
    world.wait(10).await;
    assert_eq!(conditions(&world, "slow").await, ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]);
    assert_eq!(world.status_of(JOBS, "slow").await["failed"], 2);
    oracle::check_all_writes(&world);
}
