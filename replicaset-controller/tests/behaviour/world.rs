//! The cluster of the tests, and the sets in it.

pub(crate) use testkit::prelude::*;

/// Plural resource name and API group, as the sandbox logs them; the core group has no suffix.
pub(crate) const SETS: &str = "replicasets.apps";
pub(crate) const REPLICATION_CONTROLLERS: &str = "replicationcontrollers";

/// A cluster of three nodes. Most tests are about the ReplicaSet `web`.
pub(crate) fn cluster() -> Cluster {
    Cluster::new(replicaset_controller::LOOPS, SETS, "web").nodes(3)
}

/// Returns a ReplicaSet that selects `app=<name>`.
pub(crate) fn replica_set(name: &str, replicas: usize) -> Value {
    with_spec(workload("ReplicaSet", name), json!({ "replicas": replicas }))
}

/// Returns the ReplicaSet `web`.
pub(crate) fn web(replicas: usize) -> Value {
    replica_set("web", replicas)
}

/// Returns a ReplicationController that selects `app=<name>`.
pub(crate) fn replication_controller(name: &str, replicas: usize) -> Value {
    let spec = json!({"replicas": replicas, "selector": {"app": name}, "template": template(name)});
    object("v1", "ReplicationController", name, spec)
}

/// Returns a set `web` of each kind, with its resource.
pub(crate) fn web_of_each_kind(replicas: usize) -> [(&'static str, Value); 2] {
    [(SETS, web(replicas)), (REPLICATION_CONTROLLERS, replication_controller("web", replicas))]
}
