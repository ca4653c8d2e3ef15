//! Suite: what node-lifecycle-controller promises for Pods on nodes that are tainted, out of service or gone.
//!
//! Each test has a node of its own on which no kubelet runs: what goes there stays until somebody says otherwise.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::{process::ExitCode, time::Duration};

use e2e::{
    cluster::Kind,
    suite::{
        Context, Outcome, Suite, Test, condition,
        resources::{NODES, PODS},
        run,
    },
};
use serde_json::{Value, json};

/// Clusters on which nobody else looks after nodes.
const OURS: &[Kind] = &[Kind::Sandbox, Kind::Envtest];
/// The garbage collector's pauses are set to a second here, and its quarantine to [`QUARANTINE`]: this is ample.
const LONG: Duration = Duration::from_secs(30);
const QUARANTINE: Duration = Duration::from_secs(5);
/// Nobody judges the nodes of these tests, which have no heartbeat.
const FLAGS: &[&str] = &[
    "--tune=pod-gc-period=1s,pod-gc-quarantine=5s",
    "--controllers=taint-eviction-controller,pod-garbage-collector-controller",
];

fn main() -> ExitCode {
    run(&Suite {
        name: "node_lifecycle",
        controllers: &[("node-lifecycle-controller", FLAGS)],
        starts_its_own: false,
        cluster: |cluster| cluster,
        at_once: None,
        tests: vec![
            Test::new("a_pod_leaves_a_node_it_does_not_tolerate", |c| Box::pin(leaves(c))).only(OURS),
            Test::new("a_pod_stays_for_as_long_as_it_tolerates", |c| Box::pin(tolerates(c))).only(OURS),
            Test::new("a_taint_that_goes_in_time_cancels", |c| Box::pin(cancels(c))).only(OURS),
            Test::new("a_pod_that_is_going_goes_from_a_node_out_of_service", |c| Box::pin(out_of_service(c)))
                .only(OURS),
            Test::new("pods_of_a_node_that_is_gone_go", |c| Box::pin(gone(c))).only(OURS),
        ],
    })
}

/// Creates the test's node, with a Pod on it called `p` that tolerates this.
async fn node_with_pod(c: &Context, tolerations: Value) -> Outcome {
    c.create(NODES, json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": c.namespace()}})).await?;
    c.create(PODS, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "finalizers": ["nonet.io/seen"]},
        "spec": {"nodeName": c.namespace(), "tolerations": tolerations, "containers": [{"name": "c", "image": "img:1"}]}}))
        .await?;
    Ok(())
}

async fn taint(c: &Context, taints: Value) -> Outcome {
    c.merge(NODES, c.namespace(), json!({"spec": {"taints": taints}})).await?;
    Ok(())
}

/// A toleration of the test's taint for that long.
fn tolerated(seconds: u32) -> Value {
    json!([{"key": "nonet.io/leave", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}])
}

fn leave() -> Value {
    json!([{"key": "nonet.io/leave", "effect": "NoExecute"}])
}

async fn is_going(c: &Context) -> bool {
    c.get(PODS, "p").await.is_ok_and(|pod| pod["metadata"].get("deletionTimestamp").is_some())
}

async fn until_going(c: &Context, within: Duration) -> Result<Value, e2e::suite::Failure> {
    c.until_within("the Pod to go", within, async || {
        c.get(PODS, "p").await.ok().filter(|pod| pod["metadata"].get("deletionTimestamp").is_some())
    })
    .await
}

/// Leaves nothing behind.
async fn clean(c: &Context) -> Outcome {
    c.merge(PODS, "p", json!({"metadata": {"finalizers": null}})).await?;
    let _ = c.delete(NODES, c.namespace(), "Background").await;
    Ok(())
}

async fn leaves(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    taint(&c, leave()).await?;
    let pod = until_going(&c, Duration::from_secs(10)).await?;
    let target = condition(&pod, "DisruptionTarget").cloned().unwrap_or_default();
    c.check(target["reason"] == "DeletionByTaintManager", "it says why").await?;
    let marked = format!("Normal TaintManagerEviction Marking for deletion Pod {}/p", c.namespace());
    c.until("an Event", async || c.events_of("Pod", "p").await.ok()?.contains(&marked).then_some(())).await?;
    clean(&c).await
}

async fn tolerates(c: Context) -> Outcome {
    node_with_pod(&c, tolerated(4)).await?;
    taint(&c, leave()).await?;
    c.stays("the Pod", Duration::from_secs(3), async || !is_going(&c).await).await?;
    until_going(&c, Duration::from_secs(10)).await?;
    clean(&c).await
}

async fn cancels(c: Context) -> Outcome {
    node_with_pod(&c, tolerated(4)).await?;
    taint(&c, leave()).await?;
    c.sleep(Duration::from_secs(2)).await;
    taint(&c, json!([])).await?;
    c.stays("the Pod", Duration::from_secs(5), async || !is_going(&c).await).await?;
    let cancelled = format!("Normal TaintManagerEviction Cancelling deletion of Pod {}/p", c.namespace());
    c.until("an Event", async || c.events_of("Pod", "p").await.ok()?.contains(&cancelled).then_some(())).await?;
    clean(&c).await
}

async fn out_of_service(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    c.delete(PODS, "p", "Background").await?;
    taint(&c, json!([{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoSchedule"}]))
        .await?;
    c.until_within("the Pod to end", LONG, async || {
        let pod = c.get(PODS, "p").await.ok()?;
        (pod["status"]["phase"] == "Failed" && pod["metadata"]["deletionGracePeriodSeconds"] == 0).then_some(())
    })
    .await?;
    clean(&c).await
}

async fn gone(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    c.delete(NODES, c.namespace(), "Background").await?;
    c.stays("the Pod", QUARANTINE.saturating_sub(Duration::from_secs(1)), async || !is_going(&c).await).await?;
    let pod = until_going(&c, LONG).await?;
    let target = condition(&pod, "DisruptionTarget").cloned().unwrap_or_default();
    c.check(target["reason"] == "DeletionByPodGC" && pod["status"]["phase"] == "Failed", "it says why").await?;
    clean(&c).await
}
