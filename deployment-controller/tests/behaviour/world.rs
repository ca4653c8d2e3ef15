//! The cluster of the tests, with a ReplicaSet controller and nodes, and the Deployment `web` in it.

pub(crate) use testkit::prelude::*;

pub(crate) const DEPLOYMENTS: &str = "deployments.apps";
pub(crate) const REPLICA_SETS: &str = "replicasets.apps";

pub(crate) fn cluster() -> Cluster {
    Cluster::new(deployment_controller::LOOPS, DEPLOYMENTS, "web").nodes(3).replica_sets().quiet_seconds(3)
}

/// Returns Deployment `web` with maxSurge and maxUnavailable 25% and `minReadySeconds` 1.
pub(crate) fn web(replicas: usize) -> Value {
    let web = with_spec(workload("Deployment", "web"), json!({"replicas": replicas, "minReadySeconds": 1}));
    merged(web, json!({"metadata": {"labels": {"app": "web"}}}))
}

/// Returns a ReplicaSet that `web` selects, without a controller.
pub(crate) fn orphan(name: &str, image: &str, replicas: usize) -> Value {
    let changes =
        json!({"kind": "ReplicaSet", "metadata": {"name": name}, "spec": {"template": {"spec": pod_spec(image)}}});
    merged(web(replicas), changes)
}

/// Sends a merge patch of `web`.
pub(crate) async fn patch_web(world: &World, patch: Value) {
    world.patch(DEPLOYMENTS, "web", patch).await;
}

/// Changes the annotations of the template of `web`.
pub(crate) async fn annotate_template(world: &World, annotations: Value) {
    world.change(json!({"template": {"metadata": {"annotations": annotations}}})).await;
}

/// Returns the ReplicaSets in the order of their creation.
pub(crate) async fn sets(world: &World) -> Vec<Value> {
    let mut sets = world.list(REPLICA_SETS).await;
    sets.sort_by_key(|set| (text(&set["metadata"], "creationTimestamp").to_owned(), revision_of(set)));
    sets
}

/// Returns the sizes of the ReplicaSets in the order of their creation.
pub(crate) async fn sizes(world: &World) -> Vec<i64> {
    sets(world).await.iter().map(size_of).collect()
}

pub(crate) fn revision_of(object: &Value) -> i64 {
    text(&object["metadata"]["annotations"], "deployment.kubernetes.io/revision").parse().unwrap_or(0)
}

pub(crate) fn size_of(set: &Value) -> i64 {
    set["spec"]["replicas"].as_i64().unwrap()
}

/// Returns the reason of the condition `Progressing` of `web`.
pub(crate) async fn progress(world: &World) -> String {
    text(&world.condition("Progressing").await, "reason").to_owned()
}

/// Returns reason, status and message of the condition `Progressing` of `web`.
pub(crate) async fn whole_progress(world: &World) -> Value {
    pick(&world.condition("Progressing").await, "reason status message")
}

/// Asserts that a rollout of `web` with the default limits never had a Pod more than allowed, or a ready Pod less.
pub(crate) fn assert_available_during_rollout(world: &World, replicas: usize, case: &str) {
    let (most, fewest) = world.pod_extremes(replicas);
    let unavailable = replicas / 4;
    assert!(most <= replicas + 1 && fewest >= replicas - unavailable, "{case}: {most} {fewest}");
}
