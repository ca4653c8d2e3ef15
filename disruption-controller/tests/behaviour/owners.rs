//! Tests of the sizes of owners: cached kinds, and the subresource `scale` of others.

use crate::world::*;

/// Creates the definition of the kind Widget, with the subresource `scale` or without, and a Widget of this size.
async fn create_widget(world: &World, name: &str, replicas: u32, has_scale: bool) -> Value {
    let mut definition = custom_resource_definition(&Resource::namespaced("example.com", "v1", "widgets", "Widget"));
    if has_scale {
        definition["spec"]["versions"][0]["subresources"] =
            json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    }
    if world.find("customresourcedefinitions.apiextensions.k8s.io", WIDGETS).await.is_none() {
        world.create(definition).await;
    }
    world.create(object("example.com/v1", "Widget", name, json!({ "replicas": replicas }))).await
}

async fn scale(world: &World, resource: &str, name: &str, replicas: u32) {
    world.patch_and_settle(resource, name, json!({"spec": {"replicas": replicas}})).await;
}

/// DISRUPTION-15, DISRUPTION-59.
#[tokio::test(start_paused = true)]
async fn each_cached_kind_has_its_size_and_a_new_size_is_noticed() {
    for (api_version, kind, resource) in [
        ("v1", "ReplicationController", "replicationcontrollers"),
        ("apps/v1", "ReplicaSet", "replicasets.apps"),
        ("apps/v1", "StatefulSet", "statefulsets.apps"),
    ] {
        let world = cluster().start().await;
        let mut owner = merged(workload(kind, "web"), json!({"apiVersion": api_version, "spec": {"replicas": 4}}));
        match kind {
            "ReplicationController" => owner["spec"]["selector"] = json!({"app": "web"}),
            "StatefulSet" => owner["spec"]["serviceName"] = json!("web"),
            _ => {}
        }
        let owner = world.create(owner).await;
        create_pods(&world, 2, &owner).await;
        world.create_and_settle(budget(json!({"maxUnavailable": 1}))).await;
        assert_eq!(counts(&world).await, [4, 3, 2, 0], "{kind}");
        scale(&world, resource, "web", 2).await;
        assert_eq!(counts(&world).await, [2, 1, 2, 1], "{kind}");
    }
}

/// DISRUPTION-12, DISRUPTION-15, DISRUPTION-59, DISRUPTION-61.
#[tokio::test(start_paused = true)]
async fn replica_sets_of_a_deployment_count_once() {
    let world = cluster().start().await;
    let deployment = world.create(merged(workload("Deployment", "web"), json!({"spec": {"replicas": 5}}))).await;
    for (name, replicas) in [("old", 1), ("new", 4)] {
        let set = world.create(controlled_by(replica_set(name, replicas), &deployment)).await;
        create_pod(&world, name, &set).await;
    }
    world.create_and_settle(budget(json!({"minAvailable": "40%"}))).await;
    assert_eq!(counts(&world).await, [5, 2, 2, 0]);
    world.clear_log();
    scale(&world, "replicasets.apps", "new", 9).await;
    world.assert_wrote_nothing();
    scale(&world, "deployments.apps", "web", 2).await;
    assert_eq!(counts(&world).await, [2, 1, 2, 1]);
    world.delete_and_settle("deployments.apps", "web").await;
    // Without its Deployment, each set has its own size.
    assert_eq!(counts(&world).await, [10, 4, 2, 0]);
}

/// DISRUPTION-57, DISRUPTION-59.
#[tokio::test(start_paused = true)]
async fn a_new_owner_of_a_pod_or_of_its_set_is_noticed() {
    let world = world_with(cluster(), json!({"maxUnavailable": 1}), 1).await;
    create_pod(&world, "bare", &Value::Null).await;
    world.settle().await;
    assert_eq!(counts(&world).await, [1, 0, 2, 2]);
    let other = world.create_and_settle(replica_set("other", 3)).await;
    world.patch_and_settle("pods", "bare", controlled_by(json!({}), &other)).await;
    assert_eq!(counts(&world).await, [4, 3, 2, 0]);
    let deployment = merged(workload("Deployment", "web"), json!({"spec": {"replicas": 7}}));
    let deployment = world.create_and_settle(deployment).await;
    world.patch_and_settle("replicasets.apps", "other", controlled_by(json!({}), &deployment)).await;
    assert_eq!(counts(&world).await, [8, 7, 2, 0]);
    world.patch_and_settle(BUDGETS, "web", json!({"spec": {"maxUnavailable": null, "minAvailable": 1}})).await;
    let syncs = "workqueue_adds_total{name=\"disruption\"}";
    let before = world.metric(syncs);
    scale(&world, "deployments.apps", "web", 9).await;
    assert_eq!(world.metric(syncs), before, "a budget that counts Pods needs no size");
}

/// DISRUPTION-15, DISRUPTION-17, DISRUPTION-18, DISRUPTION-20, DISRUPTION-24.
#[tokio::test(start_paused = true)]
async fn the_size_of_a_custom_resource_is_read_from_its_scale() {
    let world = cluster().start().await;
    let widget = create_widget(&world, "w", 5, true).await;
    create_pods(&world, 3, &widget).await;
    world.create_and_settle(budget(json!({"maxUnavailable": "50%"}))).await;
    assert_eq!(counts(&world).await, [5, 2, 3, 1]);
    world.clear_log();
    scale(&world, WIDGETS, "w", 9).await;
    world.assert_wrote_nothing();
    world.touch(BUDGETS, "web").await;
    world.settle().await;
    assert_eq!(counts(&world).await[0], 9);
    // One GET for three Pods, in this sync and in that after the write.
    world.assert_count("get", "widgets.example.com/scale", 1..=2);
}

/// DISRUPTION-6, DISRUPTION-16, DISRUPTION-19, DISRUPTION-22, DISRUPTION-38, DISRUPTION-41, DISRUPTION-52, DISRUPTION-64.
#[tokio::test(start_paused = true)]
async fn an_owner_without_a_size_closes_the_budget_until_it_has_one() {
    for (has_scale, replicas, message) in [
        (false, 1, "widgets.example.com does not implement the scale subresource"),
        (true, 0, "found no controllers for pod \"web-0\""),
    ] {
        let world = cluster().start().await;
        let widget = create_widget(&world, "w", 3, has_scale).await;
        create_pods(&world, 2, &widget).await;
        if replicas == 0 {
            world.delete(WIDGETS, "w").await;
        }
        world.create_and_settle(budget(json!({"maxUnavailable": 1}))).await;
        assert_eq!(condition_text(&world).await, format!("False SyncFailed {message}"));
        assert_eq!(world.status().await["disruptionsAllowed"], 0);
        world
            .assert_event(&format!(
                "Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: {message}"
            ))
            .await;
        assert_eq!(evict(&world, "web-0").await, Err(429));
        world.clear_log();
        world.wait(600).await;
        world.assert_count("update", STATUS, 0..=0);
        let failures = world.explain()["lastError"]["failures"].as_u64().unwrap();
        assert!((5..=20).contains(&failures), "{failures}");
        // A budget that counts Pods needs no size.
        world.patch_and_settle(BUDGETS, "web", json!({"spec": {"maxUnavailable": null, "minAvailable": 1}})).await;
        assert_eq!(
            (counts(&world).await, condition_text(&world).await),
            ([2, 1, 2, 1], "True SufficientPods ".to_owned())
        );
    }
}

/// DISRUPTION-25, DISRUPTION-26, DISRUPTION-52, DISRUPTION-72.
#[tokio::test(start_paused = true)]
async fn a_pod_without_an_owner_is_healthy_and_not_expected() {
    let world = world_with(cluster(), json!({"maxUnavailable": 1}), 2).await;
    create_pod(&world, "bare", &Value::Null).await;
    world.settle().await;
    assert_eq!(counts(&world).await, [2, 1, 3, 2]);
    let start = "Warning UnmanagedPods Pods selected by this PodDisruptionBudget (selector: app=web) were found to be unmanaged.";
    world.assert_event(start).await;
}
