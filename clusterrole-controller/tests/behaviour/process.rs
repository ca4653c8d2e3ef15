//! Tests of the process: what it watches, how many roles it syncs at once, and restarts.

use crate::world::*;

/// CLUSTERROLE-1.
#[tokio::test(start_paused = true)]
async fn it_watches_all_roles_and_nothing_else() {
    let reads: &[(&str, &[&str])] = &[("clusterrole-aggregation-controller", &[CLUSTER_ROLES])];
    conformance::each_choice_of_loops_watches_only_what_it_reads(clusterrole_controller::LOOPS, reads).await;
}

/// CLUSTERROLE-32, CLUSTERROLE-36.
#[tokio::test(start_paused = true)]
async fn the_loop_has_names_of_upstream_and_no_flags() {
    let program = clusterrole_controller::DEFINITION;
    let names: Vec<_> = program.loops.iter().map(|each| (each.name, each.alias, each.user_agent_suffix)).collect();
    let name = "clusterrole-aggregation-controller";
    assert_eq!(names, [(name, "clusterrole-aggregation", name)]);
    assert!(
        program.workers_flags.is_empty() && program.feature_gates.is_empty() && program.single_value_flags.is_empty()
    );
    let world = world_with(cluster(), &[aggregated("view", &[])]).await;
    let metrics = world.metrics();
    assert!(metrics.contains("workqueue_adds_total{name=\"ClusterRoleAggregator\""), "{metrics}");
}

/// CLUSTERROLE-4.
#[tokio::test(start_paused = true)]
async fn five_roles_are_written_at_the_same_time() {
    let mut world = cluster().stopped().await;
    let names: Vec<String> = (0..30).map(|index| format!("view{index}")).collect();
    let selecting: Vec<&str> = names.iter().map(String::as_str).collect();
    world.create(plain("pods", &selecting, &["pods"])).await;
    for name in &names {
        world.create(aggregated(name, &[])).await;
    }
    world.fault(rule(Action::Latency(Duration::from_secs(1)), "patch", "clusterroles"));
    world.start();
    let filled = async || {
        let roles = world.list(CLUSTER_ROLES).await;
        roles.iter().filter(|role| !role["rules"].is_null()).count() == names.len() + 1
    };
    let taken = world.until(60, filled).await;
    assert!((6.0..6.5).contains(&taken.as_secs_f64()), "{taken:?}");
}

/// CLUSTERROLE-18, CLUSTERROLE-26.
#[tokio::test(start_paused = true)]
async fn a_new_process_writes_the_roles_that_differ_and_then_rests() {
    let mut world = world_with(
        cluster(),
        &[aggregated("view", &[]), aggregated("edit", &[]), plain("pods", &["view", "edit"], &["pods"])],
    )
    .await;
    world.crash();
    world.patch(CLUSTER_ROLES, "edit", json!({"rules": [allows("get", "secrets")]})).await;
    world.clear_log();
    world.start();
    world.settle().await;
    assert_eq!(world.own_write_lines(), ["patch clusterroles edit"]);
    assert_eq!(world.explain()["state"], "settled");
    world.clear_log();
    world.wait(7 * 86_400).await;
    world.assert_wrote_nothing();
}

/// CLUSTERROLE-26.
#[tokio::test(start_paused = true)]
async fn a_shadow_says_what_it_would_write_and_writes_nothing() {
    let roles = [aggregated("view", &[]), plain("pods", &["view"], &["pods"])];
    let world = world_with(cluster().shadow(), &roles).await;
    let plans: Vec<String> = world.plans().into_iter().flat_map(|(_, actions)| actions).collect();
    let planned = "apply ClusterRole view: it has 0 rules, and the union of 1 ClusterRoles has 1";
    assert_eq!(plans.last().map(String::as_str), Some(planned));
    world.assert_wrote_nothing();
}
