//! A cluster with ClusterRoles: `view`, which selects the label `to-view`, is the subject of most tests.

pub(crate) use testkit::prelude::*;

pub(crate) const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";

/// A cluster whose API server leaves the rules of aggregated roles to the loop.
pub(crate) fn cluster() -> Cluster {
    Cluster::new(clusterrole_controller::LOOPS, CLUSTER_ROLES, "view")
        .server(sandbox::Builder::without_rule_aggregation)
}

/// Returns a rule with one verb and one resource of the core group.
pub(crate) fn allows(verb: &str, resource: &str) -> Value {
    json!({"apiGroups": [""], "resources": [resource], "verbs": [verb]})
}

/// Returns a ClusterRole that the aggregated roles `selected_by` select, with a rule to get each of these resources.
pub(crate) fn plain(name: &str, selected_by: &[&str], resources: &[&str]) -> Value {
    let labels: BTreeMap<String, &str> = selected_by.iter().map(|by| (format!("to-{by}"), "1")).collect();
    let rules: Vec<Value> = resources.iter().map(|resource| allows("get", resource)).collect();
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels}, "rules": rules})
}

/// Returns a ClusterRole that selects the label `to-NAME`, and that the aggregated roles `selected_by` select.
pub(crate) fn aggregated(name: &str, selected_by: &[&str]) -> Value {
    let selector = json!({"matchLabels": {format!("to-{name}"): "1"}});
    merged(plain(name, selected_by, &[]), json!({"aggregationRule": {"clusterRoleSelectors": [selector]}}))
}

/// Starts a cluster with these ClusterRoles, and waits until it has settled. The log is empty.
pub(crate) async fn world_with(cluster: Cluster, roles: &[Value]) -> World {
    let world = cluster.start().await;
    for role in roles {
        world.create(role.clone()).await;
    }
    world.settle().await;
    world.clear_log();
    world
}

/// Returns the resources of the rules of a ClusterRole.
pub(crate) async fn resources(world: &World, role: &str) -> Vec<String> {
    let role = world.get(CLUSTER_ROLES, role).await;
    let rules = role["rules"].as_array().map_or(&[][..], Vec::as_slice);
    rules.iter().map(|rule| rule["resources"][0].as_str().unwrap().to_owned()).collect()
}

/// Returns the number of requests with which the loop has tried to write since the log was cleared.
pub(crate) fn patch_count(world: &World) -> u64 {
    world.count("patch", CLUSTER_ROLES)
}

/// Returns a fault for the writes of one ClusterRole by the loop.
pub(crate) fn on_writes_of(role: &str, action: Action) -> Rule {
    let mut fault = rule(action, "patch", "clusterroles");
    fault.matcher.name = Some(role.to_owned());
    fault
}
