//! A cluster with the budget `web`, and Pods with the label `app=web` that tests make ready.

pub(crate) use testkit::prelude::*;

pub(crate) const BUDGETS: &str = "poddisruptionbudgets.policy";
/// The subresource in the counts of requests.
pub(crate) const STATUS: &str = "poddisruptionbudgets.policy/status";
pub(crate) const ALLOWED: &str = "DisruptionAllowed";
pub(crate) const WIDGETS: &str = "widgets.example.com";

pub(crate) fn cluster() -> Cluster {
    Cluster::new(disruption_controller::LOOPS, BUDGETS, "web")
}

/// Returns the budget `web`. It selects the label `app=web`, and `spec` is merged into its spec.
pub(crate) fn budget(spec: Value) -> Value {
    let selector = json!({"selector": {"matchLabels": {"app": "web"}}});
    object("policy/v1", "PodDisruptionBudget", "web", merged(selector, spec))
}

/// Returns a ReplicaSet of this size, which no controller fills.
pub(crate) fn replica_set(name: &str, replicas: u32) -> Value {
    merged(workload("ReplicaSet", name), json!({"spec": {"replicas": replicas}}))
}

/// Creates a ready Pod with the label `app=web`, with the controller `owner` unless it is null.
pub(crate) async fn create_pod(world: &World, name: &str, owner: &Value) {
    let pod = orphan_pod(name, "web");
    world.create(if owner.is_null() { pod } else { controlled_by(pod, owner) }).await;
    world.patch_pod_status(name, merged(ready_condition("True"), json!({"phase": "Running"}))).await;
}

/// Creates so many ready Pods `web-0`, `web-1` and so on.
pub(crate) async fn create_pods(world: &World, count: usize, owner: &Value) {
    for number in 0..count {
        create_pod(world, &format!("web-{number}"), owner).await;
    }
}

/// Starts a cluster with this budget, and with so many ready Pods of the ReplicaSet `web`, whose size is that number.
pub(crate) async fn world_with(cluster: Cluster, spec: Value, count: usize) -> World {
    let world = cluster.start().await;
    let owner = world.create(replica_set("web", u32::try_from(count).unwrap())).await;
    create_pods(&world, count, &owner).await;
    world.create_and_settle(budget(spec)).await;
    world
}

/// Returns expected, desired and healthy Pods, and the allowed evictions.
pub(crate) async fn counts(world: &World) -> [i64; 4] {
    let status = world.status().await;
    ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
        .map(|field| status[field].as_i64().unwrap_or(-1))
}

/// Returns status, reason and message of the condition.
pub(crate) async fn condition_text(world: &World) -> String {
    let condition = world.condition(ALLOWED).await;
    format!("{} {} {}", text(&condition, "status"), text(&condition, "reason"), text(&condition, "message"))
}

/// Evicts a Pod. A refusal is the code of the answer.
pub(crate) async fn evict(world: &World, name: &str) -> Result<(), u16> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction");
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let answer = world.sandbox.send(Method::POST, &path, "application/json", Some(&eviction)).await;
    answer.map(drop).map_err(|refused| refused.code)
}

/// Returns the time so many seconds ago, as the API has it.
pub(crate) fn seconds_ago(world: &World, seconds: i64) -> String {
    let time = world.clock.now() - SignedDuration::from_secs(seconds);
    time.round(jiff::Unit::Second).unwrap().to_string()
}
