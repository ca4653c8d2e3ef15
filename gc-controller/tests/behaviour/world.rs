//! A cluster with the collector, and ConfigMaps that own each other.

pub(crate) use testkit::prelude::*;

pub(crate) const MAPS: &str = "configmaps";
/// Namespace of owners that an object in [`NAMESPACE`] may not name.
pub(crate) const OTHER_NAMESPACE: &str = "mall";

/// A cluster in which the collector discovers resources every five seconds.
pub(crate) fn cluster() -> Cluster {
    Cluster::new(gc_controller::LOOPS, MAPS, "a").tunable("gc-discovery-period", in_seconds(5)).quiet_seconds(8)
}

/// Starts a cluster without a running collector.
pub(crate) async fn without_collector() -> World {
    let world = cluster().stopped().await;
    world.create(namespace(OTHER_NAMESPACE)).await;
    world
}

/// Starts a cluster with a collector that has settled.
pub(crate) async fn with_collector() -> World {
    let mut world = without_collector().await;
    world.start();
    world.settle().await;
    world.clear_log();
    world
}

/// Creates the ConfigMaps `a` and `b`, which own each other and block each other's deletion.
pub(crate) async fn create_cycle(world: &World) {
    let a = create_map(world, "a", &[]).await;
    let b = create_blocking_map(world, "b", &[&a]).await;
    world.patch(MAPS, "a", json!({"metadata": {"ownerReferences": [reference(&b, true)]}})).await;
    world.settle().await;
}

/// Returns the names of the objects that the collector requested to delete, in the order of the requests.
pub(crate) fn delete_requests(world: &World) -> Vec<String> {
    let deletions = world.own_writes().into_iter().filter(|write| write.verb == "delete");
    deletions.map(|write| write.name.clone()).collect()
}

/// Returns the names of objects in the order of their removal from the API server.
pub(crate) fn removed_objects(world: &World) -> Vec<String> {
    let all = world.sandbox.writes().all();
    all.iter().filter(|write| write.change == Change::Deleted).map(|write| write.name.clone()).collect()
}

/// Creates a ConfigMap owned by these objects.
pub(crate) async fn create_map(world: &World, name: &str, owners: &[&Value]) -> Value {
    world.create(map(name, &owners.iter().map(|owner| reference(owner, false)).collect::<Vec<_>>())).await
}

/// Creates a ConfigMap that blocks the foreground deletion of these objects.
pub(crate) async fn create_blocking_map(world: &World, name: &str, owners: &[&Value]) -> Value {
    world.create(map(name, &owners.iter().map(|owner| reference(owner, true)).collect::<Vec<_>>())).await
}

/// Deletes a ConfigMap with this propagation policy, as a user.
pub(crate) async fn delete_map(world: &World, name: &str, propagation: &str) {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}");
    world.delete_with(&path, json!({"propagationPolicy": propagation})).await;
}

/// Returns the sorted names of the existing ConfigMaps.
pub(crate) async fn maps(world: &World) -> Vec<String> {
    let mut names = world.names(MAPS).await;
    names.sort();
    names
}

/// Returns the output of `/debug/explain` for an object.
pub(crate) fn explain(world: &World, object: &Value) -> Value {
    world.loops().explain(object["metadata"]["uid"].as_str())[0].take()
}

/// Builds an owner reference to `owner`, with `blockOwnerDeletion` set to `blocks`.
pub(crate) fn reference(owner: &Value, blocks: bool) -> Value {
    let meta = &owner["metadata"];
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"],
        "blockOwnerDeletion": blocks})
}

/// Builds a ConfigMap in namespace [`NAMESPACE`] with these owner references.
pub(crate) fn map(name: &str, references: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": references}})
}

/// Returns the names in `metadata.ownerReferences`.
pub(crate) fn owner_names(object: &Value) -> Vec<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
    owners.iter().map(|owner| text(owner, "name")).collect()
}

/// Deletes a ConfigMap as [`delete_map`] does, and waits until the cluster has settled.
pub(crate) async fn delete_map_and_settle(world: &World, name: &str, propagation: &str) {
    delete_map(world, name, propagation).await;
    world.settle().await;
}
