//! A cluster of four nodes without kubelets, in which tests set the status of Pods, and the Service `web`.

pub(crate) use testkit::prelude::*;

pub(crate) const SLICES: &str = "endpointslices.discovery.k8s.io";
pub(crate) const TRIGGER_TIME_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

pub(crate) fn cluster() -> Cluster {
    Cluster::new(endpointslice_controller::LOOPS, "services", "web").at("2026-03-01T10:00:00Z")
}

/// A cluster in which a slice is full at `most` endpoints, and every sync remembers the slice of each Pod.
pub(crate) fn cluster_with_slice_size(most: u64) -> Cluster {
    cluster().tunable("max-endpoints-per-slice", most).tunable("endpointslice-min-pods-of-packing", 1)
}

/// Starts the cluster with the nodes `n0` to `n3`, alternating between the zones `z0` and `z1`.
pub(crate) async fn start(cluster: Cluster) -> World {
    let mut world = cluster.stopped().await;
    for index in 0..4 {
        put_node(&world, index, "True").await;
    }
    world.start();
    world.wait(1).await;
    world
}

/// Starts a cluster and creates the Service `web` with these additional fields in `spec`.
pub(crate) async fn world_with_service(spec: Value) -> World {
    let world = start(cluster()).await;
    world.create(web_service(spec)).await;
    world
}

/// Builds the Service `web`, which selects Pods with `app: web` and their port 8080, with these additional fields in `spec`.
pub(crate) fn web_service(spec: Value) -> Value {
    let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
    let service = object("v1", "Service", "web", json!({"selector": {"app": "web"}, "ports": ports}));
    merged(with_spec(service, spec), json!({"metadata": {"labels": {"tier": "a"}}}))
}

/// Creates the Node `n<index>`, or changes the status of its condition `Ready`.
pub(crate) async fn put_node(world: &World, index: usize, ready: &str) {
    let name = format!("n{index}");
    let labels = json!({"topology.kubernetes.io/zone": format!("z{}", index % 2)});
    if world.find("nodes", &name).await.is_none() {
        world.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})).await;
    }
    let capacity = json!({"cpu": "2", "pods": "100"});
    let status = json!({"allocatable": capacity, "capacity": capacity});
    world.patch_status("nodes", &name, merged(status, ready_condition(ready))).await;
}

/// Creates the ready Pod `p<index>` on the node `n<index % 4>`, with the address `10.1.0.<index + 1>`.
pub(crate) async fn create_pod(world: &World, index: usize) {
    create_pod_with(world, index, json!({}), true).await;
}

pub(crate) async fn create_pods(world: &World, indexes: std::ops::Range<usize>) {
    for index in indexes {
        create_pod(world, index).await;
    }
}

/// Creates the Pod `p<index>` like [`create_pod`], but ready or unready, and with these additional fields in `spec`.
pub(crate) async fn create_pod_with(world: &World, index: usize, more: Value, ready: bool) {
    let name = format!("p{index:03}");
    let on_node = with_spec(orphan_pod(&name, "web"), json!({"nodeName": format!("n{}", index % 4)}));
    world.create(with_spec(on_node, more)).await;
    let ip = format!("10.1.{}.{}", index / 250, index % 250 + 1);
    let ips = json!([{"ip": ip}, {"ip": format!("fd00::{:x}", index + 1)}]);
    world.patch_pod_status(&name, json!({"phase": "Running", "podIP": ip, "podIPs": ips})).await;
    set_pod_ready(world, index, ready).await;
}

/// Sets the condition `Ready` of the Pod `p<index>`, with the current time as its transition time.
pub(crate) async fn set_pod_ready(world: &World, index: usize, ready: bool) {
    let now = world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut condition = ready_condition(if ready { "True" } else { "False" });
    condition["conditions"][0]["lastTransitionTime"] = json!(now);
    world.patch_pod_status(&format!("p{index:03}"), condition).await;
}

/// Deletes the object at an API path without a grace period. `NS` in the path stands for the namespace.
pub(crate) async fn delete_path(world: &World, path: &str) {
    world.delete_with(&path.replacen("NS", NAMESPACE, 1), json!({"gracePeriodSeconds": 0})).await;
}

pub(crate) async fn delete_pod(world: &World, index: usize) {
    delete_path(world, &format!("/api/v1/namespaces/NS/pods/p{index:03}")).await;
}

/// Returns the only slice; panics if there is no slice or more than one.
pub(crate) async fn only_slice(world: &World) -> Value {
    let mut slices = world.list(SLICES).await;
    assert_eq!(slices.len(), 1, "{slices:#?}");
    slices.remove(0)
}

/// Returns the number of endpoints in each slice, largest first.
pub(crate) async fn slice_sizes(world: &World) -> Vec<usize> {
    let mut sizes: Vec<usize> = world.list(SLICES).await.iter().map(|slice| endpoints_in(slice).len()).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

/// Returns the count of requests with which the loops have written slices.
pub(crate) fn slice_write_count(world: &World) -> u64 {
    ["create", "patch", "update", "delete"].iter().map(|verb| world.count(verb, SLICES)).sum()
}

/// Returns the endpoints of a slice; empty if the field `endpoints` is missing.
pub(crate) fn endpoints_in(slice: &Value) -> Vec<Value> {
    slice["endpoints"].as_array().cloned().unwrap_or_default()
}

/// Returns the names of the Pods in a slice, in the order of its endpoints.
pub(crate) fn pod_names_in(slice: &Value) -> Vec<String> {
    endpoints_in(slice).iter().map(|endpoint| text(&endpoint["targetRef"], "name").to_owned()).collect()
}
