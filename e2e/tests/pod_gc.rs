//! Suite: what pod-garbage-collector-controller promises for Pods that no kubelet will finish.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod lost_node;

use std::{process::ExitCode, time::Duration};

use e2e::suite::{
    Context, Outcome, Suite, Test, condition,
    resources::{NODES, PODS},
    run,
};
use lost_node::{OURS, clean, is_going, node_with_pod, taint, until_going};
use serde_json::json;

/// The pauses are set to a second here, and the quarantine to [`QUARANTINE`]: this is ample.
const LONG: Duration = Duration::from_secs(30);
const QUARANTINE: Duration = Duration::from_secs(5);
const FLAGS: &[&str] =
    &["--tune=pod-gc-period=1s,pod-gc-quarantine=5s", "--controllers=pod-garbage-collector-controller"];

fn main() -> ExitCode {
    run(&suite())
}

/// The suite, for a program of its own and for the one that runs all of them.
pub fn suite() -> Suite {
    Suite {
        name: "pod_gc",
        controllers: &[("node-lifecycle-controller", FLAGS)],
        starts_its_own: false,
        cluster: |cluster| cluster,
        at_once: None,
        tests: vec![
            Test::new("a_terminating_pod_goes_from_a_node_out_of_service", |c| Box::pin(out_of_service(c))).only(OURS),
            Test::new("pods_of_a_node_that_is_gone_go", |c| Box::pin(gone(c))).only(OURS),
            Test::new("a_terminating_pod_without_a_node_goes", |c| Box::pin(unscheduled(c))),
        ],
    }
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

async fn unscheduled(c: Context) -> Outcome {
    c.create(
        PODS,
        json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "finalizers": ["nonet.io/seen"]},
        "spec": {"nodeSelector": {"nonet.io/none": "here"}, "containers": [{"name": "c", "image": "img:1"}]}}),
    )
    .await?;
    c.delete(PODS, "p", "Background").await?;
    c.until_within("the Pod to end", LONG, async || {
        c.get(PODS, "p").await.ok().filter(|pod| pod["status"]["phase"] == "Failed")
    })
    .await?;
    c.merge(PODS, "p", json!({"metadata": {"finalizers": null}})).await?;
    Ok(())
}
