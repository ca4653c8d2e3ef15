//! Jobs with completion mode `NonIndexed`, from their creation to their end.

use crate::{oracle, world::*};

/// JOB-26, JOB-51, JOB-53, JOB-59.
#[tokio::test(start_paused = true)]
async fn a_job_runs_until_enough_pods_have_succeeded() {
    let world = cluster().settled(sum("exit=0 after=1", json!({"completions": 4, "parallelism": 2}))).await;
    let job = world.subject().await;
    let status = &job["status"];
    assert_eq!(pick(status, "succeeded ready terminating"), json!([4, 0, 0]));
    assert_eq!(pick(status, "active failed"), json!([null, null]));
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
    assert_eq!(world.true_conditions().await, ["SuccessCriteriaMet CompletionsReached", "Complete CompletionsReached"]);
    assert!(status["completionTime"].is_string() && status["startTime"].is_string());
    let pods = world.pods().await;
    assert_eq!((pods.len(), world.count("create", "pods"), world.max_live_pods()), (4, 4, 4));
    for pod in &pods {
        assert!(finalizers(pod).is_empty());
        assert_eq!(pod["metadata"]["generateName"], "sum-");
        assert_eq!(
            pod["metadata"]["ownerReferences"],
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": job["metadata"]["uid"],
                "controller": true, "blockOwnerDeletion": true}])
        );
    }
    // One create and one removal of the finalizer are the only requests for a Pod.
    assert_eq!((world.count("patch", "pods"), world.count("delete", "pods"), world.count("get", "pods")), (4, 0, 0));
    assert_eq!(world.count("get", JOBS), 0);
    let mut want: Vec<String> =
        pods.iter().map(|p| format!("Normal SuccessfulCreate Created pod: {}", name(p))).collect();
    want.push("Normal Completed Job completed".to_owned());
    want.sort();
    assert_eq!(world.events().await, want);
    oracle::check_all_writes(&world);
}

/// JOB-37, JOB-54, JOB-59.
#[tokio::test(start_paused = true)]
async fn failures_are_counted_until_there_are_too_many() {
    let world = cluster().start().await;
    world.create(job("bad", "exit=1", json!({"backoffLimit": 2}))).await;
    let begin = world.clock.now();
    world.settle().await;
    while conditions(&world, "bad").await.is_empty() {
        world.wait(1).await;
    }
    world.settle().await;
    // The back-off is 10 s after the first failure, and 20 s after the second.
    let took = world.clock.now().duration_since(begin).as_secs();
    assert!((28..40).contains(&took), "{took} s");
    let status = world.status_of(JOBS, "bad").await;
    assert_eq!(pick(&status, "failed succeeded completionTime"), json!([3, null, null]));
    assert_eq!(conditions(&world, "bad").await, ["FailureTarget BackoffLimitExceeded", "Failed BackoffLimitExceeded"]);
    let events = world.events().await;
    assert!(events.contains(&"Warning BackoffLimitExceeded Job has reached the specified backoff limit".to_owned()));
    assert_eq!((world.pods().await.len(), world.count("delete", "pods")), (3, 0), "failed Pods stay for inspection");
    oracle::check_all_writes(&world);
}

/// JOB-16, JOB-51.
#[tokio::test(start_paused = true)]
async fn a_work_queue_ends_with_its_workers() {
    let world = cluster().settled(job("queue", "exit=0 after=5", json!({"parallelism": 3}))).await;
    let first = world.active_pods().await.into_iter().next();
    if let Some(first) = first {
        world.patch_pod_status(&first, json!({"phase": "Succeeded"})).await;
    }
    world.wait(30).await;
    let status = world.status_of(JOBS, "queue").await;
    assert_eq!(status["succeeded"], 3);
    assert_eq!(world.count("create", "pods"), 3, "no Pod is replaced once one has succeeded");
    oracle::check_all_writes(&world);
}

/// JOB-15, JOB-21.
#[tokio::test(start_paused = true)]
async fn changes_of_parallelism_take_effect() {
    let world = cluster().settled(sum("", json!({"completions": 9, "parallelism": 2}))).await;
    world.change_and_settle(json!({"parallelism": 5})).await;
    assert_eq!(world.active_pods().await.len(), 5);
    world.change_and_settle(json!({"parallelism": 1})).await;
    assert_eq!((world.active_pods().await.len(), world.count("delete", "pods")), (1, 4));
    assert_eq!(pick(&world.status().await, "active failed"), json!([1, null]), "surplus Pods did not fail");
    oracle::check_all_writes(&world);
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
    oracle::check_all_writes(&world);
}

/// JOB-43.
#[tokio::test(start_paused = true)]
async fn a_pod_deleted_by_a_user_has_failed_and_is_replaced() {
    let world = cluster().settled(parallel("", 2)).await;
    let victim = world.first_active_pod().await;
    world.delete("pods", &victim).await;
    world.wait(30).await;
    assert_eq!(pick(&world.status().await, "failed active"), json!([1, 2]));
    assert!(!world.active_pods().await.contains(&victim));
    oracle::check_all_writes(&world);
}

/// JOB-11, JOB-12.
#[tokio::test(start_paused = true)]
async fn matching_orphans_are_adopted_and_counted() {
    let world = cluster().start().await;
    let labels = json!({"app": "sum"});
    world.create(orphan("done", labels.clone(), "exit=0")).await;
    world.create_and_settle(orphan("runs", labels.clone(), "")).await;
    let mut sum = sum(
        "",
        json!({"completions": 3, "parallelism": 2, "manualSelector": true,
        "selector": {"matchLabels": labels.clone()}}),
    );
    sum["spec"]["template"]["metadata"]["labels"] = labels;
    world.create_and_settle(sum).await;
    assert_eq!(pick(&world.status().await, "succeeded active"), json!([1, 2]));
    let adopted = world.get("pods", "runs").await;
    assert_eq!(
        (adopted["metadata"]["ownerReferences"][0]["name"].as_str(), finalizers(&adopted)),
        (Some("sum"), vec![TRACKING_FINALIZER])
    );
    assert_eq!(world.count("get", JOBS), 1);
    // A Pod with changed labels is released without its finalizer, and replaced.
    world.patch_and_settle("pods", "runs", json!({"metadata": {"labels": {"app": "other"}}})).await;
    let released = world.get("pods", "runs").await;
    assert!(released["metadata"].get("ownerReferences").is_none() && finalizers(&released).is_empty());
    assert_eq!(world.active_pods().await.len(), 3);
    oracle::check_all_writes(&world);
}

/// This controller does not watch Pods with restart policy `Always`. Upstream adopts them; see
/// `docs/decisions/0016-filters.md`.
/// JOB-69.
#[tokio::test(start_paused = true)]
async fn an_orphan_with_restart_policy_always_is_not_adopted() {
    let world = cluster().start().await;
    let labels = json!({"app": "sum"});
    let mut always = orphan("always", labels.clone(), "");
    always["spec"]["restartPolicy"] = json!("Always");
    always["metadata"]["finalizers"] = json!([TRACKING_FINALIZER]);
    world.create(always).await;
    let mut sum = sum(
        "",
        json!({"completions": 2, "parallelism": 2, "manualSelector": true, "selector": {"matchLabels": labels.clone()}}),
    );
    sum["spec"]["template"]["metadata"]["labels"] = labels;
    world.create_and_settle(sum).await;
    let hidden = world.get("pods", "always").await;
    assert_eq!(hidden["metadata"].get("ownerReferences"), None);
    assert_eq!(finalizers(&hidden), [TRACKING_FINALIZER], "nor is its finalizer removed");
    assert_eq!(world.status().await["active"], json!(2));
    assert_eq!(world.pods().await.len(), 3);
}

/// JOB-23.
#[tokio::test(start_paused = true)]
async fn unknown_fields_of_the_template_reach_the_pods() {
    let world = cluster().server(|server| server.keep_unknown_fields(true)).start().await;
    let mut sum = sum("", json!({"completions": 1, "completionMode": "Indexed"}));
    sum["spec"]["template"]["spec"]["fromTheFuture"] = json!({"deep": [1, {"x": true}]});
    sum["spec"]["template"]["spec"]["containers"][0]["alsoNew"] = json!(3);
    world.create_and_settle(sum).await;
    let spec = &world.pods().await[0]["spec"];
    assert_eq!(
        (&spec["fromTheFuture"], &spec["containers"][0]["alsoNew"]),
        (&json!({"deep": [1, {"x": true}]}), &json!(3))
    );
}

#[tokio::test(start_paused = true)]
async fn a_hundred_jobs_at_once_need_no_extra_requests() {
    let world = cluster().start().await;
    for n in 0..100 {
        let name = format!("sum-{n}");
        world.create(job(&name, "exit=0 after=1", json!({"completions": 3, "parallelism": 3}))).await;
    }
    world.settle().await;
    for n in 0..100 {
        assert_eq!(world.status_of(JOBS, &format!("sum-{n}")).await["succeeded"], 3);
    }
    assert_eq!((world.count("create", "pods"), world.count("patch", "pods")), (300, 300));
    oracle::check_all_writes(&world);
}

/// JOB-68.
#[tokio::test(start_paused = true)]
async fn all_metrics_are_recorded() {
    let world = cluster().start().await;
    world.create(sum("exit=0", json!({"completions": 2, "parallelism": 1}))).await;
    world
        .create_and_settle(job(
            "bad",
            "exit=1",
            json!({"backoffLimit": 0, "completionMode": "Indexed", "completions": 1}),
        ))
        .await;
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
    let world = cluster().start().await;
    for name in ["a", "b", "c"] {
        world.create(orphan(name, json!({"app": "sum"}), "")).await;
    }
    world.settle().await;
    world.clear_log();
    world.fault(rule(Action::Forbidden, "patch", "pods"));
    let mut sum = sum(
        "",
        json!({"completions": 3, "parallelism": 3, "manualSelector": true, "selector": {"matchLabels": {"app": "sum"}}}),
    );
    sum["spec"]["template"]["metadata"]["labels"] = json!({"app": "sum"});
    world.create(sum).await;
    world.wait(60).await;
    let syncs = world.count("get", JOBS);
    assert_eq!(world.count("patch", "pods"), 3 * syncs);
    assert!((3..=14).contains(&syncs), "it backs off: {syncs}");
    let events = world.list("events").await;
    let reported: Vec<_> = events.iter().filter(|event| event["reason"] == "FailedUpdate").collect();
    let [event] = reported[..] else { panic!("{events:#?}") };
    let message = event["message"].as_str().unwrap();
    assert!(message.starts_with("Error: cannot adopt Pod shop/") && message.contains("is forbidden: "), "{message}");
    assert!(message.ends_with(" (and 2 more)"), "{message}");
    assert_eq!((event["count"].as_u64(), &event["type"]), (Some(syncs), &json!("Warning")));
    world.clear_faults();
    world.wait(400).await;
    assert_eq!(world.get("pods", "a").await["metadata"]["ownerReferences"][0]["name"], "sum");
}
