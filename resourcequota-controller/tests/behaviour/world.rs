//! A cluster with the quota `web`.

pub(crate) use testkit::prelude::*;

pub(crate) const QUOTAS: &str = "resourcequotas";
/// The subresource in the counts of requests.
pub(crate) const STATUS: &str = "resourcequotas/status";

pub(crate) fn cluster() -> Cluster {
    Cluster::new(resourcequota_controller::LOOPS, QUOTAS, "web").server(sandbox::Builder::without_quota_controller)
}

/// Returns a quota with these limits.
pub(crate) fn quota(name: &str, hard: Value) -> Value {
    object("v1", "ResourceQuota", name, json!({ "hard": hard }))
}

/// Returns a Pod that requests so much CPU.
pub(crate) fn pod(name: &str, cpu: &str) -> Value {
    let container = json!({"name": "c", "image": "img:1", "resources": {"requests": {"cpu": cpu}}});
    let spec = json!({"containers": [container], "terminationGracePeriodSeconds": 0});
    object("v1", "Pod", name, spec)
}

/// Returns a Secret.
pub(crate) fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}})
}

/// Returns the usage under a name; empty if it is unknown.
pub(crate) async fn used(world: &World, name: &str) -> String {
    text(&world.status().await["used"], name).to_owned()
}
