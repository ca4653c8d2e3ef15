//! Tests of which roles count for which, and of the events that lead to a sync.

use crate::world::*;

/// CLUSTERROLE-2, CLUSTERROLE-3, CLUSTERROLE-5.
#[tokio::test(start_paused = true)]
async fn each_change_of_any_role_reaches_the_aggregated_roles_and_no_other_is_written() {
    let world = world_with(cluster(), &[aggregated("view", &[]), aggregated("edit", &[])]).await;
    world.create_and_settle(plain("pods", &["view", "edit"], &["pods"])).await;
    assert_eq!([resources(&world, "view").await, resources(&world, "edit").await], [["pods"], ["pods"]]);
    let rules = json!({"rules": [allows("get", "nodes")]});
    world.patch_and_settle(CLUSTER_ROLES, "pods", rules).await;
    assert_eq!([resources(&world, "view").await, resources(&world, "edit").await], [["nodes"], ["nodes"]]);
    world.label(CLUSTER_ROLES, "pods", json!({"to-edit": null})).await;
    world.settle().await;
    assert_eq!((resources(&world, "view").await.len(), resources(&world, "edit").await.len()), (1, 0));
    world.delete_and_settle(CLUSTER_ROLES, "pods").await;
    assert_eq!(resources(&world, "view").await, [""; 0]);
    let lines = world.own_write_lines();
    let is_aggregated = |line: &String| [" view", " edit"].iter().any(|name| line.ends_with(name));
    assert!(lines.len() == 6 && lines.iter().all(is_aggregated), "{lines:?}");
    assert_eq!(world.loops().explain(Some("pods"))[0]["state"], "gone");
}

/// CLUSTERROLE-3.
#[tokio::test(start_paused = true)]
async fn a_resync_reaches_the_aggregated_roles() {
    let world = world_with(cluster(), &[aggregated("view", &[]), plain("pods", &["view"], &["pods"])]).await;
    let before = world.metric_sum("workqueue_adds_total");
    world.wait(24 * 3600 + 60).await;
    assert!(world.metric_sum("workqueue_adds_total") > before);
    world.assert_wrote_nothing();
}

/// CLUSTERROLE-6.
#[tokio::test(start_paused = true)]
async fn terminating_roles_are_selected_and_written() {
    let held = |role: Value| merged(role, json!({"metadata": {"finalizers": ["example.com/held"]}}));
    let world = world_with(cluster(), &[held(aggregated("view", &[])), held(plain("a", &["view"], &["pods"]))]).await;
    world.delete_and_settle(CLUSTER_ROLES, "a").await;
    world.delete_and_settle(CLUSTER_ROLES, "view").await;
    assert_eq!(resources(&world, "view").await, ["pods"]);
    world.create_and_settle(plain("b", &["view"], &["nodes"])).await;
    assert_eq!(resources(&world, "view").await, ["pods", "nodes"]);
    let role = world.get(CLUSTER_ROLES, "view").await;
    assert!(is_terminating(&role) && finalizers(&role) == ["example.com/held"], "{role}");
}

/// CLUSTERROLE-13.
#[tokio::test(start_paused = true)]
async fn an_empty_selector_selects_every_other_role() {
    let mut all = aggregated("view", &[]);
    all["aggregationRule"]["clusterRoleSelectors"] = json!([{}]);
    let roles = [all, plain("a", &[], &["pods"]), plain("b", &["anything"], &["nodes"])];
    let world = world_with(cluster(), &roles).await;
    assert_eq!(resources(&world, "view").await, ["pods", "nodes"]);
}

/// CLUSTERROLE-12.
#[tokio::test(start_paused = true)]
async fn a_change_below_a_chain_is_written_once_to_each_role_and_waits_for_none() {
    let chain = [aggregated("admin", &[]), aggregated("edit", &["admin"]), aggregated("view", &["edit"])];
    let world = world_with(cluster(), &chain).await;
    // The role in the middle cannot be written.
    world.fault(on_writes_of("edit", Action::Forbidden));
    world.create_and_settle(plain("pods", &["view"], &["pods"])).await;
    assert_eq!([resources(&world, "view").await, resources(&world, "admin").await], [["pods"], ["pods"]]);
    assert_eq!(resources(&world, "edit").await, [""; 0]);
    world.clear_faults();
    world.wait(60).await;
    world.clear_log();
    world.patch_and_settle(CLUSTER_ROLES, "pods", json!({"rules": [allows("get", "nodes")]})).await;
    let mut lines = world.own_write_lines();
    lines.sort();
    assert_eq!(lines, ["admin", "edit", "view"].map(|name| format!("patch clusterroles {name}")));
    assert_eq!(patch_count(&world), 3);
}

/// CLUSTERROLE-16, CLUSTERROLE-36, CLUSTERROLE-39.
#[tokio::test(start_paused = true)]
async fn a_circle_comes_to_rest_and_loses_the_rules_of_a_deleted_role() {
    let roles = [
        aggregated("view", &["edit"]),
        aggregated("edit", &["view"]),
        plain("a", &["view"], &["pods"]),
        plain("b", &["edit"], &["nodes"]),
    ];
    let world = world_with(cluster(), &roles).await;
    let both = async || [resources(&world, "view").await, resources(&world, "edit").await];
    assert_eq!(both().await, [["pods", "nodes"], ["nodes", "pods"]]);
    world.wait(3600).await;
    assert_eq!((patch_count(&world), world.events().await), (0, Vec::new()));
    assert_eq!(world.metric_sum("nonet_sync_errors_total"), 0);
    world.delete_and_settle(CLUSTER_ROLES, "a").await;
    assert_eq!(both().await, [["nodes"], ["nodes"]]);
    assert_eq!(patch_count(&world), 2);
}
