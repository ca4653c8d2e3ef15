//! A cluster with the collector, and ConfigMaps that own each other.
//!
//! Tests write the ConfigMaps as a text such as `a; b: a; c: a! b held`: `b` has the owner `a`, and `c` the owners `a` and `b`.
//! `!` marks an owner whose deletion the dependent blocks, and `held` an object with a finalizer of another controller. The owner
//! `z=a` has the name `z` and the UID of `a`, the owner `Secret/a` the kind Secret and the UID of `a`. An owner that is not in the
//! text does not exist.

pub(crate) use testkit::prelude::*;

pub(crate) const MAPS: &str = "configmaps";
/// Metric of the objects that wait for a kind.
pub(crate) const PARKED: &str = "nonet_gc_objects_parked";
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

/// Starts a cluster with a collector, creates these ConfigMaps, waits until the cluster has settled, and clears the log.
pub(crate) async fn collector_with(graph: &str) -> World {
    let world = with_collector().await;
    create_graph(&world, graph, "ConfigMap").await;
    world.settle().await;
    world.clear_log();
    world
}

/// Creates these ConfigMaps. The references to their owners have this kind.
pub(crate) async fn create_graph(world: &World, graph: &str, kind: &str) {
    let objects: Vec<_> = graph.split("; ").map(|object| object.split_once(": ").unwrap_or((object, ""))).collect();
    for (name, _) in &objects {
        world.create(map(name, &[])).await;
    }
    for (name, owners) in objects {
        let (mut references, mut finalizers) = (Vec::new(), Vec::new());
        for owner in owners.split_whitespace() {
            if owner == "held" {
                finalizers.push("example.com/hold");
                continue;
            }
            let (kind, owner) = owner.split_once('/').unwrap_or((kind, owner));
            let (owner, blocks) = owner.strip_suffix('!').map_or((owner, false), |owner| (owner, true));
            let (name, owner) = owner.split_once('=').unwrap_or((owner, owner));
            let uid = world.find(MAPS, owner).await.map_or(json!(owner), |owner| owner["metadata"]["uid"].clone());
            references.push(
                json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": blocks}),
            );
        }
        if !owners.is_empty() {
            let metadata = json!({"ownerReferences": references, "finalizers": finalizers});
            world.patch(MAPS, name, json!({ "metadata": metadata })).await;
        }
    }
}

/// Returns the ConfigMaps and their owners in the form in which [`create_graph`] takes them, with `terminating` after objects with a
/// time of deletion.
pub(crate) async fn graph(world: &World) -> String {
    let line = |object: &Value| {
        let owners = object["metadata"]["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
        let owner = |owner: &Value| {
            format!("{}{}", text(owner, "name"), if owner["blockOwnerDeletion"] == true { "!" } else { "" })
        };
        let held = finalizers(object).contains(&"example.com/hold").then(|| "held".to_owned());
        let terminating = is_terminating(object).then(|| "terminating".to_owned());
        let words: Vec<_> = owners.iter().map(owner).chain(held).chain(terminating).collect();
        if words.is_empty() { name(object).to_owned() } else { format!("{}: {}", name(object), words.join(" ")) }
    };
    let mut lines: Vec<String> = world.list(MAPS).await.iter().map(line).collect();
    lines.sort();
    lines.join("; ")
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

/// Creates a ConfigMap without owners.
pub(crate) async fn create_map(world: &World, name: &str) -> Value {
    world.create(map(name, &[])).await
}

/// Deletes a ConfigMap with this propagation policy, as a user.
pub(crate) async fn delete_map(world: &World, name: &str, propagation: &str) {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}");
    world.delete_with(&path, json!({"propagationPolicy": propagation})).await;
}

/// Deletes a ConfigMap as [`delete_map`] does, and waits until the cluster has settled.
pub(crate) async fn delete_map_and_settle(world: &World, name: &str, propagation: &str) {
    delete_map(world, name, propagation).await;
    world.settle().await;
}

/// Returns the sorted names of the existing ConfigMaps.
pub(crate) async fn maps(world: &World) -> Vec<String> {
    let mut names = world.names(MAPS).await;
    names.sort();
    names
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

/// Builds the Secret `s` with these owner references.
pub(crate) fn secret(references: &[Value]) -> Value {
    merged(map("s", references), json!({"kind": "Secret"}))
}

/// Makes all lists and watches of a resource fail.
pub(crate) fn fail(world: &World, action: &Action, resource: &str) {
    for verb in ["list", "watch"] {
        world.fault(rule(action.clone(), verb, resource));
    }
}
