//! Crashes, lost answers, stale caches and refusals: no Pod is lost, and no Pod counts twice.

use crate::{oracle, world::*};

/// Returns a Job of each kind, with the counts that it must reach in spite of faults; null if the counts depend on the fault.
fn jobs_of_each_kind() -> Vec<(&'static str, Value, Value)> {
    let ok = "exit=0 after=1";
    let mixed = "exit=0 after=1 exit-index-1=3";
    let plain = sum(ok, json!({"completions": 4, "parallelism": 2}));
    let indexed = indexed(ok, 4);
    let per_index =
        sum(mixed, json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1}));
    let failing = sum("exit=1 after=1", json!({"backoffLimit": 1}));
    let deadline = sum("terminate-after=2", json!({"activeDeadlineSeconds": 5, "parallelism": 2, "completions": 2}));
    let policy = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]});
    let fail_job = sum(
        "exit-index-1=42 after=1 terminate-after=2",
        json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "podFailurePolicy": policy}),
    );
    let patient = sum(ok, json!({"completions": 3, "parallelism": 3, "podReplacementPolicy": "Failed"}));
    let early = sum(
        "exit-index-0=0 exit-index-1=0 after=1 terminate-after=2",
        json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimit": 0,
            "successPolicy": {"rules": [{"succeededIndexes": "0-1"}]}}),
    );
    vec![
        ("success policy", early, json!({"succeeded": 2, "completedIndexes": "0,1"})),
        ("plain", plain, json!({"succeeded": 4})),
        ("indexed", indexed, json!({"succeeded": 4, "completedIndexes": "0-3"})),
        ("per index", per_index, json!({"succeeded": 2, "completedIndexes": "0,2", "failedIndexes": "1", "failed": 2})),
        ("failing", failing, json!({"failed": 2})),
        ("deadline", deadline, Value::Null),
        ("failure policy", fail_job, Value::Null),
        ("replacement policy", patient, json!({"succeeded": 3})),
    ]
}

/// Returns the counters and the index sets of a Job's status, without absent fields.
fn counts(job: &Value) -> Value {
    let fields = ["succeeded", "failed", "completedIndexes", "failedIndexes"];
    let status = &job["status"];
    fields.iter().filter(|f| !status[**f].is_null()).map(|f| ((*f).to_owned(), status[*f].clone())).collect()
}

/// Returns the counts of a Job in which every created Pod has failed.
fn counts_with_all_failed(world: &World) -> Value {
    let writes = world.sandbox.writes().all();
    let pods = writes.iter().filter(|w| w.resource == "pods" && w.change == Change::Added).count();
    if pods == 0 { json!({}) } else { json!({ "failed": pods }) }
}

async fn check_outcome(world: &World, what: &str, want: &Value) {
    for _ in 0..300 {
        let job = world.subject().await;
        let list = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if list.iter().any(|c| c["type"] == "Complete" || c["type"] == "Failed") {
            // All Pods of such a Job have failed, and their number depends on the fault.
            let want = if want.is_null() { counts_with_all_failed(world) } else { want.clone() };
            assert_eq!(counts(&job), want, "{what}");
            // Both conditions about the end of the Job have the same reason, even if two processes wrote them.
            for (field, reason) in [
                ("activeDeadlineSeconds", "DeadlineExceeded"),
                ("podFailurePolicy", "PodFailurePolicy"),
                ("successPolicy", "SuccessPolicy"),
            ] {
                let ends = list.iter().filter(|c| c["status"] == "True" && c["type"] != "Suspended");
                let same = job["spec"][field].is_null() || ends.clone().all(|c| c["reason"] == reason);
                assert!(same, "{what}: {list:?}");
            }
            world.settle().await;
            for pod in world.pods().await {
                assert!(finalizers(&pod).is_empty(), "{what}: {}", name(&pod));
            }
            oracle::check_all_writes(world);
            return;
        }
        world.wait(2).await;
    }
    panic!("{what}: does not finish: {:#?}", world.loops().explain(Some("shop/sum")));
}

/// JOB-41.
#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_does_not_change_the_outcome() {
    for (sort, job, want) in jobs_of_each_kind() {
        for (fault, answered) in [(Action::CutAfter, false), (Action::CutBefore, false), (Action::InternalError, true)]
        {
            for at in 0..40 {
                let mut world = cluster().start().await;
                fail_writes(&world, &fault, |rule| rule.skip(at).times(1));
                world.create(job.clone()).await;
                let mut hits = 0;
                for _ in 0..60 {
                    crash_at_new_hit(&mut world, &fault, &mut hits, !answered).await;
                }
                check_outcome(&world, &format!("{sort}, {fault:?} at write {at}"), &want).await;
                if hits == 0 {
                    break;
                }
            }
        }
    }
}

/// Adds the fault for each verb and resource of the writes about Pods and statuses.
fn fail_writes(world: &World, fault: &Action, which: impl Fn(Rule) -> Rule) {
    for verb in ["create", "patch", "delete"] {
        for resource in ["pods", "jobs/status"] {
            world.fault(which(rule(fault.clone(), verb, resource)));
        }
    }
}

/// Waits a quarter of a second. If the fault has happened in this time, the process crashes unless it got an answer.
async fn crash_at_new_hit(world: &mut World, fault: &Action, hits: &mut u64, crashes: bool) {
    world.wait(0.25).await;
    let now = world.sandbox.faults().hits(fault);
    if now > *hits && crashes {
        world.restart();
    }
    *hits = now;
}

/// JOB-22, JOB-41, JOB-90.
#[tokio::test(start_paused = true)]
async fn a_lagging_cache_does_not_change_the_outcome() {
    for gate in [true, false] {
        for (sort, job, want) in jobs_of_each_kind() {
            for resource in ["pods", "jobs"] {
                let world = cluster().gate("StaleControllerConsistencyJob", gate).start().await;
                world.delay(resource, 3.5);
                world.create(job.clone()).await;
                check_outcome(&world, &format!("{sort}, {resource} late, gate {gate}"), &want).await;
            }
        }
    }
}

/// JOB-75.
#[tokio::test(start_paused = true)]
async fn a_pod_counted_as_failed_completes_no_index_even_with_a_late_success() {
    for gate in ["StaleControllerConsistencyJob", "AtomicFIFO", "SidecarContainers"] {
        // The gate `SidecarContainers` is locked and cannot be switched off, so this case tests the default settings.
        let world = cluster()
            .gate(gate, gate == "SidecarContainers")
            .settled(indexed("exit-on-term=0 terminate-after=2", 2))
            .await;
        world.delay("pods", 3.5);
        let victim = world.first_active_pod().await;
        world.delete("pods", &victim).await;
        world.wait(60).await;
        let status = world.status().await;
        assert_eq!(counts(&json!({"status": status.clone()})), json!({"failed": 1}), "{gate}");
        assert_eq!(world.active_pods().await.len(), 2, "{gate}: {status}");
        oracle::check_all_writes(&world);
    }
}

/// JOB-44.
#[tokio::test(start_paused = true)]
async fn all_terminating_pods_are_counted_though_one_status_cannot_list_them() {
    let world = cluster().tunable("job-max-uncounted-pods", 3).start().await;
    let spec = json!({"parallelism": 9, "completions": 9, "completionMode": "Indexed", "backoffLimit": 9,
        "successPolicy": {"rules": [{"succeededIndexes": "8"}]}});
    world.create_and_settle(sum("terminate-after=20 after=1", spec)).await;
    for pod in world.pods().await {
        let pod_name = name(&pod);
        if pod["metadata"]["annotations"][COMPLETION_INDEX_KEY] == "8" {
            world.patch_pod_status(pod_name, json!({"phase": "Succeeded"})).await;
        } else if pod["metadata"]["annotations"][COMPLETION_INDEX_KEY] != "7" {
            world.delete("pods", pod_name).await;
        }
    }
    check_outcome(&world, "success with a full list", &json!({"succeeded": 1, "completedIndexes": "8", "failed": 7}))
        .await;
}

/// JOB-41.
#[tokio::test(start_paused = true)]
async fn broken_watches_do_not_change_the_outcome() {
    let mut hits = 0;
    for (sort, job, want) in jobs_of_each_kind() {
        for fault in [Action::CloseWatch, Action::CutWatch, Action::ExpireWatch, Action::HalfLine, Action::Garbage] {
            let world = cluster().start().await;
            world.fault(rule(fault.clone(), "watch", "").chance(0.2));
            world.create(job.clone()).await;
            check_outcome(&world, &format!("{sort}, {fault:?}"), &want).await;
            hits += world.sandbox.faults().hits(&fault);
        }
    }
    assert!(hits > 20, "{hits} watches broke");
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_a_job_is_suspended_and_resumed_does_not_change_the_outcome() {
    let spec = json!({"completions": 5, "parallelism": 2});
    for fault in [Action::CutAfter, Action::CutBefore] {
        for at in 0..20 {
            let mut world = cluster().start().await;
            world.create(sum("exit=0 after=3 terminate-after=1", spec.clone())).await;
            world.wait(1.7).await;
            fail_writes(&world, &fault, |rule| rule.skip(at).times(1));
            let mut hits = 0;
            for step in 0..60 {
                match step {
                    0 => world.change(json!({"suspend": true})).await,
                    20 => world.change(json!({"suspend": false})).await,
                    _ => {}
                }
                crash_at_new_hit(&mut world, &fault, &mut hits, true).await;
            }
            let what = format!("suspended and resumed, {fault:?} at write {at}");
            check_outcome(&world, &what, &json!({"succeeded": 5})).await;
            if hits == 0 {
                break;
            }
        }
    }
}

/// JOB-41.
#[tokio::test(start_paused = true)]
async fn frequent_refusals_do_not_change_the_outcome() {
    for (sort, job, want) in jobs_of_each_kind() {
        for fault in [Action::Conflict, Action::InternalError, Action::Unavailable, Action::CutAfter, Action::Timeout] {
            let world = cluster().start().await;
            fail_writes(&world, &fault, |rule| rule.chance(0.3));
            world.create(job.clone()).await;
            world.wait(300).await;
            world.clear_faults();
            check_outcome(&world, &format!("{sort}, {fault:?}"), &want).await;
        }
    }
}

/// JOB-22.
#[tokio::test(start_paused = true)]
async fn a_create_with_a_lost_answer_makes_no_extra_pod() {
    let world = cluster().start().await;
    world.fault(rule(Action::CutAfter, "create", "pods").skip(1).times(1));
    world.create(parallel("", 3)).await;
    world.wait(120).await;
    assert_eq!((world.active_pods().await.len(), world.max_live_pods()), (3, 3));
}

/// JOB-45.
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_cannot_be_removed_delays_only_its_own_count() {
    let world = cluster().start().await;
    world
        .create(sum("after=1 exit=0", json!({"completions": 3, "parallelism": 3, "completionMode": "NonIndexed"})))
        .await;
    world.wait(1).await;
    let stubborn = world.first_active_pod().await;
    world.fault(rule(Action::InternalError, "patch", "pods").object(NAMESPACE, stubborn.clone()));
    world.wait(20).await;
    let status = world.status().await;
    assert_eq!(status["succeeded"], 2);
    assert_eq!(status["uncountedTerminatedPods"]["succeeded"].as_array().unwrap().len(), 1);
    assert_eq!(world.true_conditions().await, ["SuccessCriteriaMet CompletionsReached"]);
    world.clear_faults();
    check_outcome(&world, "stubborn", &json!({"succeeded": 3})).await;
}

/// JOB-42.
#[tokio::test(start_paused = true)]
async fn a_listed_pod_counts_even_if_another_writer_removed_its_finalizer() {
    let world = cluster().start().await;
    world.create(sum("after=1 exit=0", json!({"completions": 2, "parallelism": 1}))).await;
    world.fault(rule(Action::InternalError, "patch", "pods"));
    world.wait(10).await;
    let pod = world.pods().await[0].clone();
    assert_eq!(finalizers(&pod), [TRACKING_FINALIZER]);
    world.patch("pods", name(&pod), json!({"metadata": {"finalizers": null}})).await;
    world.clear_faults();
    check_outcome(&world, "removed by others", &json!({"succeeded": 2})).await;
    assert_eq!(world.pods().await.len(), 2);
}

/// JOB-42.
#[tokio::test(start_paused = true)]
async fn a_pod_without_finalizer_does_not_count_unless_it_was_listed() {
    let mut world = cluster().start().await;
    world.create(sum("after=5 exit=0", json!({"completions": 1}))).await;
    world.wait(2).await;
    world.crash();
    let first = world.first_active_pod().await;
    world.patch("pods", &first, json!({"metadata": {"finalizers": null}})).await;
    world.wait(20).await;
    world.start();
    check_outcome(&world, "removed before", &json!({"succeeded": 1})).await;
    assert_eq!(world.pods().await.len(), 2, "another Pod had to succeed");
}

#[tokio::test(start_paused = true)]
async fn a_restart_neither_deletes_nor_creates_pods() {
    let mut world = cluster().settled(parallel("", 5)).await;
    for _ in 0..3 {
        world.restart();
        world.settle().await;
    }
    assert_eq!(
        (world.count("create", "pods"), world.count("delete", "pods"), world.active_pods().await.len()),
        (5, 0, 5)
    );
}

/// JOB-79.
#[tokio::test(start_paused = true)]
async fn a_restart_keeps_the_back_off() {
    let mut world = cluster().start().await;
    world.create(job("bad", "exit=1", json!({"backoffLimit": 6}))).await;
    // Pods fail at about 0 s, 10 s and 31 s; the next Pod is created 40 s after the last failure.
    world.wait(45).await;
    assert_eq!(world.count("create", "pods"), 3);
    world.restart();
    world.wait(15).await;
    assert_eq!(world.count("create", "pods"), 3);
    world.wait(20).await;
    assert_eq!(world.count("create", "pods"), 4);
}
