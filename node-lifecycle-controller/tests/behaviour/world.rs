//! Two clusters: one without nodes of its own, in which the loops run that delete Pods, and one of nodes that renew their Leases,
//! with all loops.

use common::runtime::LoopDefinition;
use node_lifecycle_controller::{eviction, garbage};

pub(crate) use testkit::prelude::*;

pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Namespace of the Leases of nodes.
const LEASES: &str = "kube-node-lease";
/// The loops that delete Pods, without the node monitor.
const POD_LOOPS: &[LoopDefinition] = &[eviction::TAINT_EVICTION_LOOP, garbage::POD_GARBAGE_COLLECTOR_LOOP];

/// A cluster with the loops that delete Pods.
pub(crate) fn pod_cluster() -> Cluster {
    Cluster::new(POD_LOOPS, "pods", "p")
}

/// The same on a server that accepts tolerations with the operators `Lt` and `Gt`. `is_known` enables the gate of the loops.
pub(crate) fn cluster_with_comparison_gate(is_known: bool) -> Cluster {
    let gate = eviction::TAINT_TOLERATION_COMPARISON_OPERATORS.name;
    pod_cluster().gate(gate, is_known).server(|server| server.gate(gate, true))
}

/// Starts the loops, and renews a Lease named `witness` every ten seconds, so that they assume that they can receive heartbeats.
pub(crate) async fn pod_world(cluster: Cluster) -> World {
    let mut world = cluster.stopped().await;
    tokio::spawn(witness(world.sandbox.clone(), world.clock.clone()));
    world.start();
    world.wait(1).await;
    world
}

async fn witness(sandbox: Sandbox, clock: Clock) {
    let metadata = json!({"name": "witness", "namespace": LEASES});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata});
    sandbox.create(lease).await.unwrap();
    loop {
        let renewed = json!({"spec": {"renewTime": clock.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()}});
        sandbox.merge("leases.coordination.k8s.io", Some(LEASES), "witness", None, renewed).await.unwrap();
        clock.sleep(in_seconds(10)).await;
    }
}

/// A cluster of nodes `node-0`, `node-1` and so on, distributed over the zones z0, z1 and z2 in turn, with all loops.
pub(crate) fn live_cluster(nodes: u32) -> Cluster {
    Cluster::new(node_lifecycle_controller::LOOPS, "nodes", "node-0").live_nodes(nodes)
}

/// Starts the nodes and then the loops.
pub(crate) async fn live_world(cluster: Cluster) -> World {
    let mut world = without_loops(cluster).await;
    world.start();
    world.wait(2).await;
    world
}

/// Starts the nodes alone.
pub(crate) async fn without_loops(cluster: Cluster) -> World {
    let world = cluster.stopped().await;
    world.wait(1).await;
    world
}

/// Starts a cluster whose nodes are in the zone `z`.
pub(crate) async fn world_of_one_zone(nodes: u32, settings: OperatorSettings) -> World {
    let mut world = without_loops(live_cluster(nodes).settings(settings)).await;
    for node in 0..nodes {
        world.label("nodes", &format!("node-{node}"), json!({"topology.kubernetes.io/zone": "z"})).await;
    }
    world.start();
    world.wait(2).await;
    world
}

/// Builds a `NoExecute` taint with this key and without a value.
pub(crate) fn no_execute_taint(key: &str) -> Value {
    json!({"key": key, "effect": "NoExecute"})
}

/// Builds a toleration of every taint: for `seconds`, or without a limit for `None`.
pub(crate) fn tolerate_all(seconds: Option<i64>) -> Value {
    let limit = |seconds| json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    seconds.map_or_else(|| json!({"operator": "Exists"}), limit)
}

/// Creates a ready node with these taints.
pub(crate) async fn create_node(world: &World, name: &str, taints: Value) {
    world.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await;
    // Removes the taints that admission adds to a new node.
    taint(world, name, taints).await;
    world.patch_status("nodes", name, ready_condition("True")).await;
}

pub(crate) async fn taint(world: &World, node: &str, taints: Value) {
    world.patch("nodes", node, json!({"spec": {"taints": taints}})).await;
}

/// Creates a Pod on a node. Admission may add tolerations of five minutes for the taints `not-ready` and `unreachable`.
pub(crate) async fn create_pod(world: &World, name: &str, node: &str, tolerations: Value) -> Value {
    let spec = merged(pod_spec("img:1"), json!({"nodeName": node, "tolerations": tolerations}));
    world.create(object("v1", "Pod", name, spec)).await
}

/// Adds a toleration to a Pod, as a user.
pub(crate) async fn tolerate(world: &World, pod: &str, toleration: Value) {
    let mut all = world.get("pods", pod).await["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    all.insert(0, toleration);
    world.patch("pods", pod, json!({"spec": {"tolerations": all}})).await;
}

/// Whether the Pod is terminating or does not exist.
pub(crate) async fn is_terminating_or_deleted(world: &World, pod: &str) -> bool {
    world.find("pods", pod).await.is_none_or(|pod| is_terminating(&pod))
}

/// Deletes a Pod with a grace period of 0.
pub(crate) async fn delete_now(world: &World, pod: &str) {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}");
    world.delete_with(&path, json!({"gracePeriodSeconds": 0})).await;
}

/// Returns the messages of the Events in the namespace of the Pods, sorted.
pub(crate) async fn event_messages(world: &World) -> Vec<String> {
    let mut messages: Vec<String> =
        world.list("events").await.iter().map(|event| text(event, "message").to_owned()).collect();
    messages.sort();
    messages
}

/// Returns what the loops explain about a key, as text.
pub(crate) fn explain(world: &World, key: &str) -> String {
    world.loops().explain(Some(key)).to_string()
}

/// Waits until `is_true` holds for a node, and returns the seconds until then; panics after `most` seconds.
pub(crate) async fn until(world: &World, node: &str, most: u64, is_true: impl Fn(&Value) -> bool) -> u64 {
    world.until(most, async || is_true(&world.get("nodes", node).await)).await.as_secs()
}

/// Returns the writes of the loops to a node after `since`: the seconds since that time, and the state of the written node.
pub(crate) fn node_writes(world: &World, node: &str, since: Timestamp) -> Vec<(i64, Value)> {
    let is_of = |write: &Arc<Write>| write.resource == "nodes" && write.name == node && write.at > since;
    let writes = world.own_writes().into_iter().filter(is_of);
    writes
        .filter_map(|write| Some((write.at.duration_since(since).as_secs(), write.after()?.as_ref().clone())))
        .collect()
}

/// Returns the names of nodes that have a `NoExecute` taint.
pub(crate) async fn tainted_nodes(world: &World) -> Vec<String> {
    let nodes = world.list("nodes").await;
    nodes.iter().filter(|node| !taints(node, "NoExecute").is_empty()).map(|node| name(node).to_owned()).collect()
}

/// Returns the number of nodes with the condition `Ready` `Unknown`.
pub(crate) async fn unknown_count(world: &World) -> usize {
    world.list("nodes").await.iter().filter(|node| status(node, "Ready") == "Unknown").count()
}

/// Returns the default settings, changed by these flags.
pub(crate) fn flags(flags: &[(&str, TunableValue)]) -> OperatorSettings {
    flags.iter().fold(OperatorSettings::new(), |settings, (name, value)| settings.with_tunable(name, *value))
}

/// Returns the status of a condition; `none` if it is missing.
pub(crate) fn status<'a>(object: &'a Value, kind: &str) -> &'a str {
    sandbox::nodes::condition(object, kind).map_or("none", |condition| text(condition, "status"))
}

/// Returns the keys of the taints with this effect.
pub(crate) fn taints(node: &Value, effect: &str) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array().map_or(&[][..], Vec::as_slice);
    taints.iter().filter(|taint| taint["effect"] == effect).map(|taint| text(taint, "key").to_owned()).collect()
}

/// Starts the loops that delete Pods, and creates the node `n` with these taints and the Pod `p` on it with these tolerations.
pub(crate) async fn world_with_pod(taints: Value, tolerations: Value) -> World {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", taints).await;
    create_pod(&world, "p", "n", tolerations).await;
    world
}

/// Builds a list with one `NoExecute` taint.
pub(crate) fn no_execute(key: &str) -> Value {
    json!([no_execute_taint(key)])
}

/// Builds a list with one toleration of every taint.
pub(crate) fn tolerating(seconds: Option<i64>) -> Value {
    json!([tolerate_all(seconds)])
}

/// Asserts that the loops have written no node since a time.
pub(crate) fn assert_no_node_writes(world: &World, since: Timestamp) {
    for node in world.nodes().names() {
        assert_eq!(node_writes(world, &node, since), [], "{node}");
    }
}
