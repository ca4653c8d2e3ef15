//! Two clusters: one without nodes of its own, in which the loops run that delete Pods, and one of nodes that renew their Leases,
//! with all loops.

use common::runtime::LoopDefinition;
use node_lifecycle_controller::{eviction, garbage};

pub(crate) use testkit::prelude::*;

pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Admission gives every Pod tolerations of five minutes for this taint and for [`NOT_READY`].
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The resource of Leases, by which requests are counted.
pub(crate) const LEASES: &str = "leases.coordination.k8s.io";
/// The loops that delete Pods, without the node monitor.
const POD_LOOPS: &[LoopDefinition] = &[eviction::TAINT_EVICTION_LOOP, garbage::POD_GARBAGE_COLLECTOR_LOOP];

/// A cluster with the loops that delete Pods.
pub(crate) fn pod_cluster() -> Cluster {
    Cluster::new(POD_LOOPS, "pods", "p")
}

/// Starts the loops, and renews a Lease named `witness` every ten seconds, so that they assume that they can receive heartbeats.
pub(crate) async fn pod_world(cluster: Cluster) -> World {
    let mut world = cluster.stopped().await;
    let (sandbox, clock) = (world.sandbox.clone(), world.clock.clone());
    tokio::spawn(async move {
        loop {
            renew(&sandbox, "witness", clock.now()).await;
            clock.sleep(in_seconds(10)).await;
        }
    });
    world.start();
    world.wait(1).await;
    world
}

/// Starts the loops that delete Pods, and creates the node `n` with these taints and the Pod `p` on it with these tolerations.
pub(crate) async fn world_with_pod(taints: &str, tolerations: Value) -> World {
    let world = pod_world(pod_cluster()).await;
    create_node(&world, "n", taints).await;
    create_pod(&world, "p", "n", tolerations).await;
    world
}

/// Renews or creates the Lease of a node.
pub(crate) async fn renew(sandbox: &Sandbox, node: &str, time: Timestamp) {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": node, "namespace": "kube-node-lease"},
        "spec": {"renewTime": time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()}});
    sandbox.apply(lease).await.unwrap();
}

/// A cluster of nodes `node-0`, `node-1` and so on, distributed over the zones z0, z1 and z2 in turn, with all loops.
pub(crate) fn live_cluster(nodes: u32) -> Cluster {
    Cluster::new(node_lifecycle_controller::LOOPS, "nodes", "node-0").live_nodes(nodes)
}

/// Starts the nodes and then the loops, and waits for so many seconds.
pub(crate) async fn live_world(cluster: Cluster, seconds: u32) -> World {
    let mut world = without_loops(cluster).await;
    world.start();
    world.wait(2 + seconds).await;
    world
}

/// Starts the nodes alone.
pub(crate) async fn without_loops(cluster: Cluster) -> World {
    let world = cluster.stopped().await;
    world.wait(1).await;
    world
}

/// Creates a ready node with `NoExecute` taints of these keys.
pub(crate) async fn create_node(world: &World, name: &str, taints: &str) {
    world.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await;
    // Removes the taints that admission adds to a new node.
    taint(world, name, taints).await;
    world.patch_status("nodes", name, ready_condition("True")).await;
}

/// Replaces the taints of a node by `NoExecute` taints with these keys, which spaces separate.
pub(crate) async fn taint(world: &World, node: &str, keys: &str) {
    let taints: Value = keys.split_whitespace().map(|key| json!({"key": key, "effect": "NoExecute"})).collect();
    set_taints(world, node, taints).await;
}

pub(crate) async fn set_taints(world: &World, node: &str, taints: Value) {
    world.patch("nodes", node, json!({"spec": {"taints": taints}})).await;
}

/// Builds a list with a toleration of every taint: for `seconds`, or without a limit for `None`.
pub(crate) fn tolerating(seconds: Option<i64>) -> Value {
    let limit = |seconds| json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]);
    seconds.map_or_else(|| json!([{"operator": "Exists"}]), limit)
}

/// Creates a Pod on a node. Admission may add tolerations of five minutes for the taints `not-ready` and `unreachable`.
pub(crate) async fn create_pod(world: &World, name: &str, node: &str, tolerations: Value) -> Value {
    let spec = merged(pod_spec("img:1"), json!({"nodeName": node, "tolerations": tolerations}));
    world.create(object("v1", "Pod", name, spec)).await
}

/// Adds tolerations to a Pod, as a user.
pub(crate) async fn tolerate(world: &World, pod: &str, tolerations: Value) {
    let mut all = tolerations.as_array().unwrap().clone();
    all.extend(world.get("pods", pod).await["spec"]["tolerations"].as_array().into_iter().flatten().cloned());
    world.patch("pods", pod, json!({"spec": {"tolerations": all}})).await;
}

/// Adds a finalizer to a Pod, so that the test can inspect it after its deletion.
pub(crate) async fn keep(world: &World, pod: &str) {
    world.patch("pods", pod, json!({"metadata": {"finalizers": ["example.com/f"]}})).await;
}

/// Whether the Pod is terminating or does not exist.
pub(crate) async fn has_left(world: &World, pod: &str) -> bool {
    world.find("pods", pod).await.is_none_or(|pod| is_terminating(&pod))
}

/// Deletes a Pod with a grace period of 0.
pub(crate) async fn delete_now(world: &World, pod: &str) {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}");
    world.delete_with(&path, json!({"gracePeriodSeconds": 0})).await;
}

/// Returns the Events of the Pods, sorted, each as the first word of its message and the name of the Pod.
pub(crate) async fn event_words(world: &World) -> Vec<String> {
    let words = |event: &Value| {
        let message = text(event, "message");
        format!("{} {}", message.split(' ').next().unwrap(), message.rsplit('/').next().unwrap())
    };
    let mut all: Vec<String> = world.list("events").await.iter().map(words).collect();
    all.sort();
    all
}

/// Returns what the loops explain about a key, as text.
pub(crate) fn explain(world: &World, key: &str) -> String {
    world.loops().explain(Some(key)).to_string()
}

/// Waits until `is_true` holds for a node, and returns the seconds until then; panics after `most` seconds.
pub(crate) async fn until(world: &World, node: &str, most: u64, is_true: impl Fn(&Value) -> bool) -> u64 {
    world.until(most, async || is_true(&world.get("nodes", node).await)).await.as_secs()
}

/// Waits until the condition `Ready` of a node is `Unknown`, as [`until`] does.
pub(crate) async fn until_unknown(world: &World, node: &str, most: u64) -> u64 {
    until(world, node, most, |node| status(node, "Ready") == "Unknown").await
}

/// Waits at most 90 seconds until a node has a `NoExecute` taint.
pub(crate) async fn until_tainted(world: &World, node: &str) -> u64 {
    until(world, node, 90, |node| !taints(node, "NoExecute").is_empty()).await
}

/// Stops the heartbeats of these nodes.
pub(crate) fn silence(world: &World, nodes: impl IntoIterator<Item = u32>) {
    for node in nodes {
        world.nodes().silence(&format!("node-{node}")).unwrap();
    }
}

/// Returns the writes of the loops to a node after `since`: the seconds since that time, and the state of the written node.
pub(crate) fn node_writes(world: &World, node: &str, since: Timestamp) -> Vec<(i64, Value)> {
    let is_of = |write: &Arc<Write>| write.resource == "nodes" && write.name == node && write.at > since;
    let writes = world.own_writes().into_iter().filter(is_of);
    writes
        .filter_map(|write| Some((write.at.duration_since(since).as_secs(), write.after()?.as_ref().clone())))
        .collect()
}

/// Asserts that the loops have written no node since a time.
pub(crate) fn assert_no_node_writes(world: &World, since: Timestamp) {
    for node in world.nodes().names() {
        assert_eq!(node_writes(world, &node, since), [], "{node}");
    }
}

/// Returns the number of all requests of the loops except watches.
pub(crate) fn request_count(world: &World) -> u64 {
    world.count_all() - world.sandbox.requests().count(Some(CONTROLLER), Some("watch"), None)
}

/// Returns the names of nodes that have a `NoExecute` taint.
pub(crate) async fn tainted_nodes(world: &World) -> Vec<String> {
    let nodes = world.list("nodes").await;
    nodes.iter().filter(|node| !taints(node, "NoExecute").is_empty()).map(|node| name(node).to_owned()).collect()
}

/// Returns the number of nodes with the condition `Ready` `Unknown`, and the number of nodes with a `NoExecute` taint.
pub(crate) async fn unknown_and_tainted(world: &World) -> (usize, usize) {
    let nodes = world.list("nodes").await;
    let unknown = nodes.iter().filter(|node| status(node, "Ready") == "Unknown").count();
    (unknown, tainted_nodes(world).await.len())
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
