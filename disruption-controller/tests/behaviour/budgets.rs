//! Tests of the counts, the entries of evictions, the condition and the writes.

use crate::world::*;

/// DISRUPTION-1.
#[tokio::test(start_paused = true)]
async fn it_watches_budgets_pods_and_four_kinds_of_owners() {
    let watched: &[&str] =
        &["deployments.apps", BUDGETS, "pods", "replicasets.apps", "replicationcontrollers", "statefulsets.apps"];
    conformance::each_choice_of_loops_watches_only_what_it_reads(
        disruption_controller::LOOPS,
        &[("disruption-controller", watched)],
    )
    .await;
}

/// DISRUPTION-53, DISRUPTION-54.
#[tokio::test(start_paused = true)]
async fn the_loop_has_names_of_upstream_and_no_flags() {
    let program = disruption_controller::DEFINITION;
    let names: Vec<_> = program.loops.iter().map(|each| (each.name, each.alias, each.event_component)).collect();
    assert_eq!(names, [("disruption-controller", "disruption", "controllermanager")]);
    assert!(
        program.workers_flags.is_empty() && program.feature_gates.is_empty() && program.single_value_flags.is_empty()
    );
    let metrics = cluster().start().await.metrics();
    for queue in ["disruption", "stale_pod_disruption"] {
        assert!(metrics.contains(&format!("workqueue_adds_total{{name=\"{queue}\"")), "{metrics}");
    }
}

/// DISRUPTION-2, DISRUPTION-13, DISRUPTION-25, DISRUPTION-52.
#[tokio::test(start_paused = true)]
async fn a_selector_selects_by_labels_all_or_nothing() {
    for (selector, expected) in [
        (json!({"matchLabels": {"app": "web"}}), 2),
        (json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}), 2),
        (json!({}), 3),
        (json!(null), 0),
    ] {
        let world = cluster().start().await;
        create_pods(&world, 2, &Value::Null).await;
        world.create(object("v1", "Pod", "bare", pod_spec("img:1"))).await;
        let spec = json!({"minAvailable": 1, "selector": selector});
        world.create_and_settle(object("policy/v1", "PodDisruptionBudget", "web", spec)).await;
        assert_eq!(counts(&world).await[0], expected, "{selector}");
        let has_event = world.event_count("Normal NoPods No matching pods found").await == 1;
        assert_eq!(has_event, expected == 0, "{selector}");
    }
}

/// DISRUPTION-4, DISRUPTION-5, DISRUPTION-37, DISRUPTION-55, DISRUPTION-57, DISRUPTION-68.
#[tokio::test(start_paused = true)]
async fn a_status_is_written_once_for_each_change_of_a_count() {
    let world = world_with(cluster(), json!({"maxUnavailable": 1}), 3).await;
    assert_eq!(counts(&world).await, [3, 2, 3, 1]);
    assert_eq!(condition_text(&world).await, "True SufficientPods ");
    let before = world.subject().await;
    world.clear_log();
    // A status of a kubelet that changes nothing that is counted.
    world.patch_pod_status("web-0", json!({"podIP": "10.0.0.1"})).await;
    world.touch(BUDGETS, "web").await;
    world.wait(600).await;
    world.assert_wrote_nothing();
    world.patch_pod_status("web-0", ready_condition("False")).await;
    world.settle().await;
    assert_eq!(counts(&world).await, [3, 2, 2, 0]);
    assert_eq!(condition_text(&world).await, "False InsufficientPods ");
    assert_eq!(world.own_write_lines(), ["update poddisruptionbudgets/status web"]);
    world.label("pods", "web-1", json!({"app": "other"})).await;
    world.settle().await;
    assert_eq!(counts(&world).await, [3, 2, 1, 0]);
    assert_eq!(world.event_count("Warning MultiplePodDisruptionBudgets").await, 0);
    let after = world.subject().await;
    assert_eq!((&after["spec"], &after["metadata"]["labels"]), (&before["spec"], &before["metadata"]["labels"]));
    world.patch(BUDGETS, "web", json!({"spec": {"maxUnavailable": 3}})).await;
    world.settle().await;
    assert_eq!((counts(&world).await, world.status().await["observedGeneration"].as_i64()), ([3, 0, 1, 1], Some(2)));
}

/// DISRUPTION-28, DISRUPTION-42, DISRUPTION-43, DISRUPTION-44, DISRUPTION-46.
#[tokio::test(start_paused = true)]
async fn evictions_are_approved_one_after_the_other() {
    let mut world = world_with(cluster(), json!({"minAvailable": 2}), 3).await;
    evict(&world, "web-0").await.unwrap();
    assert_eq!(evict(&world, "web-1").await, Err(429));
    world.settle().await;
    assert_eq!(evict(&world, "web-1").await, Err(429));
    assert_eq!(counts(&world).await, [2, 2, 2, 0]);
    assert_eq!(world.status().await["disruptedPods"], Value::Null);
    world.crash();
    world.patch(BUDGETS, "web", json!({"spec": {"minAvailable": 1}})).await;
    assert_eq!(evict(&world, "web-1").await, Err(429));
    world.start();
    world.settle().await;
    evict(&world, "web-1").await.unwrap();
}

/// DISRUPTION-5, DISRUPTION-27.
#[tokio::test(start_paused = true)]
async fn a_terminating_pod_is_not_healthy() {
    let world = world_with(cluster(), json!({"maxUnavailable": 1}), 2).await;
    world.patch("pods", "web-0", json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    world.delete_and_settle("pods", "web-0").await;
    assert_eq!(counts(&world).await, [2, 1, 1, 0]);
}

/// DISRUPTION-37.
#[tokio::test(start_paused = true)]
async fn an_old_view_gives_no_approved_eviction_back() {
    let world = world_with(cluster(), json!({"minAvailable": 1}), 3).await;
    world.hold("poddisruptionbudgets");
    world.hold("pods");
    evict(&world, "web-0").await.unwrap();
    world.release("pods");
    world.wait(1).await;
    assert_eq!(world.status().await["disruptionsAllowed"], 1);
    assert_eq!(world.status().await["disruptedPods"].as_object().unwrap().len(), 1);
    world.release("poddisruptionbudgets");
    world.settle().await;
    assert_eq!(counts(&world).await, [2, 1, 2, 1]);
}

/// DISRUPTION-7, DISRUPTION-29, DISRUPTION-52, DISRUPTION-70, DISRUPTION-71.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_deleted_counts_again_after_two_minutes() {
    let world = world_with(cluster(), json!({"minAvailable": 1}), 3).await;
    let entries = json!({"web-0": seconds_ago(&world, 0)});
    world.patch_status(BUDGETS, "web", json!({"disruptedPods": entries, "disruptionsAllowed": 1})).await;
    world.settle().await;
    assert_eq!(counts(&world).await, [3, 1, 2, 1]);
    world.wait(100).await;
    assert_eq!(world.status().await["disruptedPods"], entries);
    world.wait(25).await;
    assert_eq!((counts(&world).await, world.status().await["disruptedPods"].clone()), ([3, 1, 3, 2], Value::Null));
    world.assert_event("Warning NotDeleted Pod was expected by PDB shop/web to be deleted but it wasn't").await;
}

/// DISRUPTION-5, DISRUPTION-45, DISRUPTION-52, DISRUPTION-56, DISRUPTION-58.
#[tokio::test(start_paused = true)]
async fn each_budget_of_a_pod_is_counted() {
    let mut world = world_with(cluster(), json!({"minAvailable": 1}), 2).await;
    let mut second = budget(json!({"minAvailable": 2}));
    second["metadata"]["name"] = json!("all");
    world.create_and_settle(second).await;
    world.patch_pod_status("web-0", ready_condition("False")).await;
    world.settle().await;
    assert_eq!(counts(&world).await, [2, 1, 1, 0]);
    assert_eq!(world.status_of(BUDGETS, "all").await["currentHealthy"], 1);
    let message = "Pod \"shop\"/\"web-0\" matches multiple PodDisruptionBudgets.  Chose \"all\" arbitrarily.";
    world.assert_event(&format!("Warning MultiplePodDisruptionBudgets {message}")).await;
    assert_eq!(evict(&world, "web-1").await, Err(500));
    let events = world.event_repetitions("MultiplePodDisruptionBudgets").await;
    world.restart();
    world.wait(60).await;
    assert_eq!(world.event_repetitions("MultiplePodDisruptionBudgets").await, events, "a start reports nothing again");
}

/// DISRUPTION-5, DISRUPTION-74.
#[tokio::test(start_paused = true)]
async fn changes_of_many_pods_are_collected() {
    let world = world_with(cluster(), json!({"minAvailable": 1}), 250).await;
    world.clear_log();
    for number in 0..20 {
        world.patch_pod_status(&format!("web-{number}"), ready_condition("False")).await;
    }
    world.wait(0.02).await;
    assert_eq!(counts(&world).await[2], 250);
    world.wait(0.1).await;
    assert_eq!(counts(&world).await[2], 230);
    world.assert_count("update", STATUS, 1..=2);
}
