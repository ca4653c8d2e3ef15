//! Suite: what node-lifecycle-controller promises for nodes that report trouble, fall silent and come back.
//!
//! Each test has a node of its own whose kubelet it plays. The other nodes of the cluster renew their Leases.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::{process::ExitCode, time::Duration};

use e2e::{
    cluster::Kind,
    suite::{
        Context, Outcome, Suite, Test, condition,
        resources::{LEASES, NODES, PODS},
        run,
    },
};
use serde_json::{Value, json};

/// Clusters on which nobody else looks after nodes.
const OURS: &[Kind] = &[Kind::Sandbox, Kind::Envtest];
/// Other nodes renew their Leases every ten seconds.
const FLAGS: &[&str] = &[
    "--node-monitor-period=1s",
    "--node-monitor-grace-period=16s",
    "--node-startup-grace-period=20s",
    "--node-eviction-rate=10",
];
const LONG: Duration = Duration::from_secs(60);
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

fn main() -> ExitCode {
    run(&suite())
}

/// The suite, for a program of its own and for the one that runs all of them.
pub fn suite() -> Suite {
    Suite {
        name: "node_lifecycle",
        controllers: &[("node-lifecycle-controller", FLAGS)],
        starts_its_own: false,
        cluster: |cluster| cluster,
        at_once: None,
        tests: vec![
            Test::new("a_node_that_reports_not_ready_is_tainted_until_it_is_ready", |c| Box::pin(not_ready(c)))
                .only(OURS),
            Test::new("a_silent_node_is_unknown_and_its_pods_are_not_ready", |c| Box::pin(silent(c))).only(OURS),
            Test::new("a_node_that_renews_its_lease_stays_ready", |c| Box::pin(alive(c))).only(OURS),
            Test::new("a_cordoned_node_has_a_taint_and_labels_have_copies", |c| Box::pin(cordoned(c))).only(OURS),
        ],
    }
}

/// The node of the test reports whether it is ready.
async fn report(c: &Context, ready: &str) -> Outcome {
    let node = c.get(NODES, c.namespace()).await?;
    let version: u64 = node["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
    // Only that it differs from the last one matters.
    let time = format!("2026-01-01T00:{:02}:{:02}Z", version / 60 % 60, version % 60);
    let condition = json!({"type": "Ready", "status": ready, "reason": "KubeletReady", "message": "ok",
        "lastHeartbeatTime": time});
    c.merge_status(NODES, c.namespace(), json!({"status": {"conditions": [condition]}})).await?;
    Ok(())
}

async fn node(c: &Context) -> Outcome {
    let labels = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"});
    c.create(NODES, json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": c.namespace(), "labels": labels}}))
        .await?;
    report(c, "True").await
}

/// The keys of the node's taints of an effect.
async fn taints(c: &Context, effect: &str) -> Vec<String> {
    let node = c.get(NODES, c.namespace()).await.unwrap_or_default();
    let all = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let of = all.iter().filter(|taint| taint["effect"] == effect);
    of.filter_map(|taint| taint["key"].as_str().map(str::to_owned)).collect()
}

async fn until_tainted(c: &Context, key: &str) -> Outcome {
    c.until_within(key, LONG, async || {
        let both = [taints(c, "NoSchedule").await, taints(c, "NoExecute").await];
        both.iter().all(|keys| keys == &[key]).then_some(())
    })
    .await
}

async fn until_untainted(c: &Context) -> Outcome {
    c.until_within("no taint", LONG, async || {
        let both = [taints(c, "NoSchedule").await, taints(c, "NoExecute").await];
        both.iter().all(Vec::is_empty).then_some(())
    })
    .await
}

async fn renew(c: &Context, second: u64) -> Outcome {
    let time = format!("2026-01-01T00:{:02}:{:02}.000000Z", second / 60, second % 60);
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": c.namespace(), "namespace": "kube-node-lease"}, "spec": {"renewTime": time}});
    let _ = c.client().delete(LEASES, "kube-node-lease", c.namespace(), &json!({})).await;
    c.client().create(LEASES, "kube-node-lease", &lease).await?;
    Ok(())
}

async fn clean(c: &Context) -> Outcome {
    let _ = c.delete(NODES, c.namespace(), "Background").await;
    let _ = c.client().delete(LEASES, "kube-node-lease", c.namespace(), &json!({})).await;
    Ok(())
}

async fn not_ready(c: Context) -> Outcome {
    node(&c).await?;
    until_untainted(&c).await?;
    report(&c, "False").await?;
    until_tainted(&c, NOT_READY).await?;
    report(&c, "True").await?;
    until_untainted(&c).await?;
    clean(&c).await
}

async fn silent(c: Context) -> Outcome {
    node(&c).await?;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": c.namespace(), "containers": [{"name": "c", "image": "img:1"}]}});
    c.create(PODS, pod).await?;
    let ready: Value = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    c.merge_status(PODS, "p", ready).await?;
    until_tainted(&c, UNREACHABLE).await?;
    let node = c.get(NODES, c.namespace()).await?;
    let reason = condition(&node, "Ready").map(|ready| ready["reason"].clone()).unwrap_or_default();
    c.check(reason == "NodeStatusUnknown", "its condition says why").await?;
    c.until("the Pod to be marked", async || {
        let pod = c.get(PODS, "p").await.ok()?;
        condition(&pod, "Ready").filter(|ready| ready["status"] == "False").map(drop)
    })
    .await?;
    let marked = "Warning NodeNotReady Node is not ready".to_owned();
    c.until("an Event", async || c.events_of("Pod", "p").await.ok()?.contains(&marked).then_some(())).await?;
    report(&c, "True").await?;
    until_untainted(&c).await?;
    c.delete(PODS, "p", "Background").await?;
    clean(&c).await
}

async fn alive(c: Context) -> Outcome {
    node(&c).await?;
    for second in 0..12 {
        renew(&c, second * 3).await?;
        c.sleep(Duration::from_secs(3)).await;
    }
    let node = c.get(NODES, c.namespace()).await?;
    c.check(condition(&node, "Ready").is_some_and(|ready| ready["status"] == "True"), "it is ready").await?;
    clean(&c).await
}

async fn cordoned(c: Context) -> Outcome {
    node(&c).await?;
    c.merge(NODES, c.namespace(), json!({"spec": {"unschedulable": true}})).await?;
    c.until("the taint", async || {
        (taints(&c, "NoSchedule").await == ["node.kubernetes.io/unschedulable"]).then_some(())
    })
    .await?;
    c.until("the labels", async || {
        let node = c.get(NODES, c.namespace()).await.ok()?;
        let labels = &node["metadata"]["labels"];
        (labels["beta.kubernetes.io/os"] == "linux" && labels["beta.kubernetes.io/arch"] == "arm64").then_some(())
    })
    .await?;
    clean(&c).await
}
