//! Crashes, lost answers, stale caches and refusals: no Pod is lost, and no Pod counts twice.

use crate::world::*;

/// A Job of each kind with fields of its status at the end. The counts that depend on the fault are absent.
fn jobs_of_each_kind() -> [(&'static str, Value, Value); 8] {
    let ok = "exit=0 after=1";
    let per_index = with_spec(indexed("exit=0 after=1 exit-index-1=3", 3), json!({"backoffLimitPerIndex": 1}));
    let success_policy = with_spec(
        indexed("exit-index-0=0 exit-index-1=0 after=1 terminate-after=2", 3),
        json!({"backoffLimit": 0, "successPolicy": {"rules": [{"succeededIndexes": "0-1"}]}}),
    );
    let rules = json!([{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]);
    let failure_policy = with_spec(
        indexed("exit-index-1=42 after=1 terminate-after=2", 3),
        json!({"podFailurePolicy": {"rules": rules}}),
    );
    let deadline = sum("terminate-after=2", json!({"activeDeadlineSeconds": 3, "parallelism": 2, "completions": 2}));
    let replacement_policy = with_spec(parallel(ok, 3), json!({"podReplacementPolicy": "Failed"}));
    [
        ("plain", sum(ok, json!({"completions": 4, "parallelism": 2})), json!({"succeeded": 4, "failed": null})),
        ("indexed", indexed(ok, 4), json!({"succeeded": 4, "completedIndexes": "0-3", "failed": null})),
        ("per index", per_index, json!({"completedIndexes": "0,2", "failedIndexes": "1", "succeeded": 2, "failed": 2})),
        ("failing", sum("exit=1 after=1", json!({"backoffLimit": 1})), json!({"failed": 2, "succeeded": null})),
        ("success policy", success_policy, json!({"succeeded": 2, "completedIndexes": "0,1", "failed": null})),
        ("failure policy", failure_policy, json!({"succeeded": null})),
        ("deadline", deadline, json!({"succeeded": null})),
        ("replacement policy", replacement_policy, json!({"succeeded": 3, "failed": null})),
    ]
}

/// Waits until the Job has ended, and asserts these fields of its status.
async fn assert_outcome(world: &World, case: &str, expected: &Value) {
    let ends = [
        ["Complete", "CompletionsReached"],
        ["Complete", "SuccessPolicy"],
        ["Failed", "FailedIndexes"],
        ["Failed", "BackoffLimitExceeded"],
        ["Failed", "DeadlineExceeded"],
        ["Failed", "PodFailurePolicy"],
    ];
    let mut end = None;
    let mut has_ended = async || {
        let conditions = world.true_conditions().await;
        end = ends.iter().find(|end| conditions.contains(&end.join(" ")));
        end.is_some()
    };
    let began = world.clock.monotonic_now();
    while !has_ended().await {
        assert!(world.clock.monotonic_now() - began < Duration::from_secs(600), "{case}: {}", world.explain());
        world.wait(0.1).await;
    }
    let [_, reason] = end.unwrap();
    // Both conditions about the end of the Job have the same reason, even if two processes wrote them.
    let conditions = world.true_conditions().await;
    let same = |condition: &String| condition.starts_with("Suspended") || condition.ends_with(reason);
    assert!(conditions.iter().all(same), "{case}: {conditions:?}");
    let status = world.status().await;
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(status[field], *value, "{case}: {field} of {status}");
    }
    world.settle().await;
    for pod in world.pods().await {
        assert!(finalizers(&pod).is_empty(), "{case}: {}", name(&pod));
    }
}

/// Does the same as [`assert_outcome`], and asserts that all Pods that were created are counted. A success policy ends a Job before
/// all of them have ended.
async fn assert_counted_outcome(world: &World, case: &str, expected: &Value) {
    assert_outcome(world, case, expected).await;
    if world.subject().await["spec"]["successPolicy"].is_null() {
        let status = world.status().await;
        let writes = world.sandbox.writes().all();
        let created = writes.iter().filter(|write| write.resource == "pods" && write.change == Change::Added).count();
        let counted = ["succeeded", "failed"].map(|field| status[field].as_u64().unwrap_or(0)).iter().sum::<u64>();
        assert_eq!(counted, created as u64, "{case}: {status}");
    }
}

/// JOB-22, JOB-41, JOB-90.
#[tokio::test(start_paused = true)]
async fn late_caches_and_broken_watches_do_not_change_the_outcome() {
    let mut hits = 0;
    for (kind, job, expected) in jobs_of_each_kind() {
        for (gate, resource) in [(true, "pods"), (true, "jobs"), (false, "pods"), (false, "jobs")] {
            let world = cluster().gate("StaleControllerConsistencyJob", gate).start().await;
            world.delay(resource, 3.5);
            world.create(job.clone()).await;
            assert_counted_outcome(&world, &format!("{kind}, {resource} late, gate {gate}"), &expected).await;
        }
        for fault in [Action::CloseWatch, Action::CutWatch, Action::ExpireWatch, Action::HalfLine, Action::Garbage] {
            let world = cluster().start().await;
            world.fault(rule(fault.clone(), "watch", "").chance(0.2));
            world.create(job.clone()).await;
            assert_counted_outcome(&world, &format!("{kind}, {fault:?}"), &expected).await;
            hits += world.sandbox.faults().hits(&fault);
        }
    }
    assert!(hits > 20, "{hits} watches broke");
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
        assert_eq!(pick(&status, "failed succeeded completedIndexes"), json!([1, null, null]), "{gate}");
        assert_eq!(world.active_pods().await.len(), 2, "{gate}: {status}");
    }
}

/// JOB-41.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_does_not_change_the_outcome() {
    let scene = |steps: Vec<Step>| Scene { cluster: cluster(), settled: Vec::new(), steps };
    for (kind, job, expected) in jobs_of_each_kind() {
        let check = async |world: &World, case: &str| {
            assert_counted_outcome(world, &format!("{kind}, {case}"), &expected).await;
        };
        scene(vec![Step::Create(job)]).crash_at_any_write(4, check).await;
    }
    let steps = vec![
        Step::Create(sum("exit=0 after=3 terminate-after=1", json!({"completions": 5, "parallelism": 2}))),
        Step::Change(json!({"suspend": true})),
        Step::Change(json!({"suspend": false})),
    ];
    let succeeded = json!({"succeeded": 5, "failed": null});
    scene(steps).crash_at_any_write(8, async |world, case| assert_counted_outcome(world, case, &succeeded).await).await;
}

/// JOB-45.
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_cannot_be_removed_delays_only_its_own_count() {
    let world = cluster().start().await;
    world.create(parallel("after=1 exit=0", 3)).await;
    world.wait(1).await;
    let stubborn = world.first_active_pod().await;
    world.fault(rule(Action::Invalid, "patch", "pods").object(NAMESPACE, stubborn.clone()));
    world.wait(20).await;
    let status = world.status().await;
    assert_eq!(status["succeeded"], 2);
    assert_eq!(status["uncountedTerminatedPods"]["succeeded"].as_array().unwrap().len(), 1);
    assert_eq!(world.true_conditions().await, ["SuccessCriteriaMet CompletionsReached"]);
    assert_eq!(finalizers(&world.get("pods", &stubborn).await), [TRACKING_FINALIZER]);
    let shown = world.explain();
    assert!(shown["lastError"]["error"].as_str().unwrap().contains("is invalid"), "{shown}");
    world.clear_faults();
    assert_outcome(&world, "stubborn", &json!({"succeeded": 3})).await;
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
    assert_outcome(&world, "removed by others", &json!({"succeeded": 2})).await;
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
    assert_outcome(&world, "removed before", &json!({"succeeded": 1})).await;
    assert_eq!(world.pods().await.len(), 2, "another Pod had to succeed");
}
