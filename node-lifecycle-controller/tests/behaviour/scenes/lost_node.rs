//! A node of a test's own on which no kubelet runs: a Pod that is deleted there stays until the test lets it go.

use testkit::scene::prelude::*;

/// What keeps a Pod that is deleted in sight of its test.
pub(crate) const FINALIZER: &str = "nonet.io/seen";

/// Creates the test's node.
pub(crate) async fn node(c: &Context) -> Outcome {
    c.create(NODES, json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": c.namespace()}})).await?;
    Ok(())
}

/// Creates the test's node, with a Pod on it called `p` that has these tolerations.
pub(crate) async fn node_with_pod(c: &Context, tolerations: Value) -> Outcome {
    node(c).await?;
    pod(c, "p", json!({ "tolerations": tolerations })).await?;
    Ok(())
}

/// Creates a Pod on the test's node. `spec` is what differs from the usual one.
pub(crate) async fn pod(c: &Context, name: &str, spec: Value) -> Result<Value, Failure> {
    let mut all = json!({"nodeName": c.namespace(), "containers": [{"name": "c", "image": "img:1"}]});
    for (field, value) in spec.as_object().into_iter().flatten() {
        all[field] = value.clone();
    }
    let metadata = json!({"name": name, "finalizers": [FINALIZER]});
    Ok(c.create(PODS, json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": all})).await?)
}

/// Sets the taints of the test's node.
pub(crate) async fn taint(c: &Context, taints: Value) -> Outcome {
    c.merge(NODES, c.namespace(), json!({"spec": {"taints": taints}})).await?;
    Ok(())
}

/// Sets the phase of a Pod, as its kubelet would.
pub(crate) async fn set_phase(c: &Context, pod: &str, phase: &str) -> Outcome {
    c.merge_status(PODS, pod, json!({"status": {"phase": phase}})).await?;
    Ok(())
}

/// Whether the deletion of a Pod has been requested, and the Pod still exists.
pub(crate) async fn is_leaving(c: &Context, pod: &str) -> bool {
    c.get(PODS, pod).await.is_ok_and(|pod| is_terminating(&pod))
}

pub(crate) async fn until_terminating(c: &Context, pod: &str) -> Result<Value, Failure> {
    c.until_object(PODS, pod, &format!("Pod {pod} to be terminating"), is_terminating).await
}
