//! A node of a test's own on which no kubelet runs: what is deleted there stays until somebody says otherwise.

use std::time::Duration;

use e2e::{
    cluster::Kind,
    suite::{
        Context, Failure, Outcome,
        resources::{NODES, PODS},
    },
};
use serde_json::{Value, json};

/// Clusters on which nobody else looks after nodes.
pub(crate) const OURS: &[Kind] = &[Kind::Sandbox, Kind::Envtest];

/// Creates the test's node, with a Pod on it called `p` that tolerates this.
pub(crate) async fn node_with_pod(c: &Context, tolerations: Value) -> Outcome {
    c.create(NODES, json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": c.namespace()}})).await?;
    c.create(PODS, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "finalizers": ["nonet.io/seen"]},
        "spec": {"nodeName": c.namespace(), "tolerations": tolerations, "containers": [{"name": "c", "image": "img:1"}]}}))
        .await?;
    Ok(())
}

pub(crate) async fn taint(c: &Context, taints: Value) -> Outcome {
    c.merge(NODES, c.namespace(), json!({"spec": {"taints": taints}})).await?;
    Ok(())
}

pub(crate) async fn is_going(c: &Context) -> bool {
    c.get(PODS, "p").await.is_ok_and(|pod| pod["metadata"].get("deletionTimestamp").is_some())
}

pub(crate) async fn until_going(c: &Context, within: Duration) -> Result<Value, Failure> {
    c.until_within("the Pod to go", within, async || {
        c.get(PODS, "p").await.ok().filter(|pod| pod["metadata"].get("deletionTimestamp").is_some())
    })
    .await
}

/// Leaves nothing behind.
pub(crate) async fn clean(c: &Context) -> Outcome {
    c.merge(PODS, "p", json!({"metadata": {"finalizers": null}})).await?;
    let _ = c.delete(NODES, c.namespace(), "Background").await;
    Ok(())
}
