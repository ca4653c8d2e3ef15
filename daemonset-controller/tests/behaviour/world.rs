//! A cluster of three nodes, and the DaemonSet `agent` in it.

pub(crate) use testkit::prelude::*;

pub(crate) const SETS: &str = "daemonsets.apps";
pub(crate) const REVISIONS: &str = "controllerrevisions.apps";

pub(crate) fn cluster() -> Cluster {
    Cluster::new(daemonset_controller::LOOPS, SETS, "agent").nodes(3)
}

/// A DaemonSet `agent` with the selector `app=agent` and the image `img:1`. `spec` is merged into its spec.
pub(crate) fn daemon_set(spec: Value) -> Value {
    merged(workload("DaemonSet", "agent"), json!({ "spec": spec }))
}

/// A DaemonSet `agent` without anything special.
pub(crate) fn agent() -> Value {
    daemon_set(json!({}))
}

/// A DaemonSet `agent` with a rolling update that has these limits.
pub(crate) fn rolling(max_unavailable: impl Into<Value>, max_surge: impl Into<Value>) -> Value {
    daemon_set(rolling_update_spec(max_unavailable, max_surge))
}

/// The part of a spec that sets a rolling update with these limits.
pub(crate) fn rolling_update_spec(max_unavailable: impl Into<Value>, max_surge: impl Into<Value>) -> Value {
    let (max_unavailable, max_surge) = (max_unavailable.into(), max_surge.into());
    let rolling = json!({"maxUnavailable": max_unavailable, "maxSurge": max_surge});
    json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}})
}

/// A Pod without a controller on the node. It matches the selector of `agent`, as if an earlier DaemonSet had left it behind.
pub(crate) fn orphan(name: &str, node: &str) -> Value {
    let labels = json!({"controller-revision-hash": "old"});
    let spec = merged(pod_spec("img:0"), json!({"nodeName": node}));
    merged(orphan_pod(name, "agent"), json!({"metadata": {"labels": labels}, "spec": spec}))
}

/// Returns the name of the node to which a Pod is bound or pinned; empty without such a node.
pub(crate) fn target_node(pod: &Value) -> String {
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0";
    let pinned = || pod.pointer(&format!("{terms}/matchFields/0/values/0")).and_then(Value::as_str);
    pod["spec"]["nodeName"].as_str().or_else(pinned).unwrap_or_default().to_owned()
}

/// Whether the write is a request, and not the removal of a terminating Pod, which the sandbox records as a second deletion.
pub(crate) fn is_request(write: &Write) -> bool {
    write.verb != "delete" || write.before().is_none_or(|pod| !is_terminating(&pod))
}

/// Returns the writes of Pods by node: `+node-0` for a creation, `-node-0` for a deletion, `~node-0` for a change.
pub(crate) fn pod_writes(world: &World) -> Vec<String> {
    let writes = world.own_writes().into_iter().filter(|write| write.resource == "pods" && is_request(write));
    let line = |write: Arc<Write>| match write.verb {
        "create" => format!("+{}", target_node(&write.after().unwrap())),
        "delete" => format!("-{}", target_node(&write.before().unwrap())),
        _ => format!("~{}", target_node(&write.after().unwrap())),
    };
    writes.map(line).collect()
}

/// Returns a line for each Pod, such as `node-0 img:1`, ordered by node.
pub(crate) async fn images(world: &World) -> Vec<String> {
    let line = |pod: &Value| format!("{} {}", target_node(pod), text(&pod["spec"]["containers"][0], "image"));
    let mut images: Vec<String> = world.pods().await.iter().map(line).collect();
    images.sort();
    images
}

/// Asserts that each of the three nodes has a Pod of this image.
pub(crate) async fn assert_images(world: &World, image: &str, case: &str) {
    assert_eq!(images(world).await, [0, 1, 2].map(|node| format!("node-{node} {image}")), "{case}");
}

/// Returns the Pod that is bound or pinned to the node. Panics without such a Pod.
pub(crate) async fn pod_on(world: &World, node: &str) -> Value {
    world.pods().await.into_iter().find(|pod| target_node(pod) == node).unwrap_or_else(|| panic!("no Pod for {node}"))
}

/// Returns the name of the Pod on a node.
pub(crate) async fn pod_name_on(world: &World, node: &str) -> String {
    name(&pod_on(world, node).await).to_owned()
}

/// Returns the number of decisions about nodes.
pub(crate) fn decided_nodes(world: &World) -> u64 {
    world.metric("nonet_daemonset_nodes_decided_total")
}
