//! Requests, metrics and adoptions of Jobs with completion mode `NonIndexed`.

use crate::world::*;

/// Returns the Job `sum` with a selector of its own, `app=sum`.
fn adopting(completions: usize, parallelism: usize) -> Value {
    let labels = json!({"app": "sum"});
    let spec = json!({"completions": completions, "parallelism": parallelism, "manualSelector": true,
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}});
    merged(sum("", json!({})), json!({ "spec": spec }))
}

/// JOB-85.
#[tokio::test(start_paused = true)]
async fn many_pods_are_created_and_counted_without_a_pause_between_batches() {
    let world = cluster().tunable("job-max-pods-per-sync", 50).tunable("job-max-uncounted-pods", 50).start().await;
    let begin = world.clock.now();
    world.create(job("many", "exit=0 after=30", json!({"completions": 400, "parallelism": 400}))).await;
    while world.active_pods().await.len() < 400 {
        world.wait(1).await;
        assert!(world.clock.now().duration_since(begin).as_secs() < 5, "{}", world.active_pods().await.len());
    }
    world.wait(40).await;
    let status = world.status_of(JOBS, "many").await;
    assert_eq!((&status["succeeded"], conditions(&world, "many").await.len()), (&json!(400), 2));
    assert_eq!((world.count("create", "pods"), world.count("patch", "pods")), (400, 400));
}

/// This controller does not watch Pods with restart policy `Always`. Upstream adopts them; see
/// `docs/decisions/0016-filters.md`.
/// JOB-69.
#[tokio::test(start_paused = true)]
async fn an_orphan_with_restart_policy_always_is_not_adopted() {
    let world = cluster().start().await;
    let mut always = orphan("always", json!({"app": "sum"}), "");
    always["spec"]["restartPolicy"] = json!("Always");
    always["metadata"]["finalizers"] = json!([TRACKING_FINALIZER]);
    world.create(always).await;
    world.create_and_settle(adopting(2, 2)).await;
    let hidden = world.get("pods", "always").await;
    assert_eq!(hidden["metadata"].get("ownerReferences"), None);
    assert_eq!(finalizers(&hidden), [TRACKING_FINALIZER], "nor is its finalizer removed");
    assert_eq!(world.status().await["active"], json!(2));
    assert_eq!(world.pods().await.len(), 3);
}

/// JOB-5, JOB-68.
#[tokio::test(start_paused = true)]
async fn all_metrics_are_recorded() {
    let world = cluster().start().await;
    world.create(sum("exit=0", json!({"completions": 2, "parallelism": 1}))).await;
    world.create(job("theirs", "", json!({"managedBy": "example.com/queue"}))).await;
    let policy = json!({"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}}]});
    let failing = json!({"backoffLimit": 0, "completionMode": "Indexed", "completions": 1, "podFailurePolicy": policy});
    world.create_and_settle(job("bad", "exit=1", failing)).await;
    assert_eq!(world.status_of(JOBS, "theirs").await, json!({}));
    let text = world.metrics();
    for line in [
        r#"job_controller_job_pods_finished_total{completion_mode="NonIndexed",result="succeeded"} 2"#,
        r#"job_controller_job_pods_finished_total{completion_mode="Indexed",result="failed"} 1"#,
        r#"job_controller_jobs_finished_total{completion_mode="NonIndexed",result="succeeded",reason="CompletionsReached"} 1"#,
        r#"job_controller_jobs_finished_total{completion_mode="Indexed",result="failed",reason="BackoffLimitExceeded"} 1"#,
        r#"job_controller_job_pods_creation_total{reason="new",status="succeeded"} 3"#,
        r#"job_controller_terminated_pods_tracking_finalizer_total{event="add"} 3"#,
        r#"job_controller_terminated_pods_tracking_finalizer_total{event="delete"} 3"#,
        r#"job_controller_job_syncs_total{completion_mode="NonIndexed",result="success",action="pods_created"} 2"#,
        r#"job_controller_pod_failures_handled_by_failure_policy_total{action="Count"} 1"#,
        r#"job_controller_jobs_by_external_controller_total{controller_name="example.com/queue"} 1"#,
        r#"workqueue_adds_total{name="job_orphan_pod"}"#,
        r#"workqueue_adds_total{name="ttl_jobs_to_delete"} 0"#,
        r#"job_controller_job_sync_duration_seconds_bucket{completion_mode="Indexed",result="success",action="reconciling",le="0.004"} 1"#,
    ] {
        assert!(
            text.contains(line),
            "{line}\n{}",
            text.lines().filter(|l| l.starts_with("job_controller_job_sync")).collect::<Vec<_>>().join("\n")
        );
    }
}

/// JOB-18, JOB-66.
#[tokio::test(start_paused = true)]
async fn a_refused_pod_costs_one_request_per_sync() {
    let world = cluster().start().await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": NAMESPACE},
        "spec": {"hard": {"pods": "0"}}, "status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}});
    world.create(quota.clone()).await;
    world.patch_status("resourcequotas", "q", quota["status"].clone()).await;
    world.create(parallel("", 30)).await;
    world.wait(10).await;
    // The create requests are sent at once, and after 1 s, 2 s and 4 s.
    world.assert_count("create", "pods", 3..=6);
    assert_eq!(world.status().await.get("active"), None);
    let events: Vec<String> = world.events().await;
    assert!(events.iter().any(|e| e.starts_with("Warning FailedCreate Error creating: pods \"sum-")), "{events:?}");
    let explained: Value = world.loops().explain(Some("shop/sum"));
    assert!(explained[0]["lastError"]["error"].as_str().unwrap().contains("exceeded quota"), "{explained}");
}

/// JOB-83.
#[tokio::test(start_paused = true)]
async fn denied_adoptions_are_reported_in_one_event_per_sync() {
    let orphans = ["a", "b", "c"].map(|name| orphan(name, json!({"app": "sum"}), ""));
    conformance::denied_adoptions_are_reported_in_one_event_per_sync(&cluster(), &orphans, adopting(3, 3), 3..=14)
        .await;
}
