//! Changes of nodes that the server refuses are counted and explained.

use crate::world::*;

const FAILED: &str = "nonet_node_writes_failed_total{error=\"invalid\"}";

/// Makes the server reject, as invalid, each patch of this resource by the loops.
fn refuse(cluster: &World, resource: &str) {
    cluster.fault(rule(Action::Invalid, "patch", resource));
}

fn failed(cluster: &World) -> u64 {
    cluster.metric(FAILED)
}

/// Returns the node monitor's explanation of a key, or of the whole loop for `None`.
fn explained(cluster: &World, key: Option<&str>) -> Value {
    cluster.loops().explain(key)[0].take()
}

/// Returns the last error of a node in the list of failing keys.
fn last_error(cluster: &World, node: &str) -> Option<String> {
    let all = explained(cluster, None);
    let of_node = |entry: &&Value| entry["key"] == node && entry["lastError"]["error"].is_string();
    let entry = all["failing"].as_array().unwrap().iter().find(of_node)?;
    Some(entry["lastError"]["error"].as_str().unwrap().to_owned())
}

/// NODE-13, NODE-30.
#[tokio::test(start_paused = true)]
async fn conditions_that_the_server_refuses_are_counted_and_explained_until_they_are_written() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.wait(20).await;
    refuse(&cluster, "nodes/status");
    cluster.nodes().silence("node-1").unwrap();
    cluster.wait(180).await;
    assert_eq!(status(&cluster.get("nodes", "node-1").await, "Ready"), "True");
    assert!((5..=7).contains(&failed(&cluster)), "the pauses grow: {}", failed(&cluster));
    let error = last_error(&cluster, "node-1").unwrap();
    assert!(error.starts_with("set the conditions to Unknown: ") && error.contains("is invalid"), "{error}");
    let explained_text = explained(&cluster, Some("node-1"))["waiting"].to_string();
    assert!(
        explained_text.contains("set the conditions to Unknown") && explained_text.contains("is invalid"),
        "{explained_text}"
    );
    let of_another = explained(&cluster, Some("node-2"))["waiting"].to_string();
    assert_eq!((last_error(&cluster, "node-2"), &*of_another), (None, "[]"));
    cluster.clear_faults();
    until(&cluster, "node-1", 90, |node| status(node, "Ready") == "Unknown").await;
    cluster.wait(1).await;
    assert_eq!(last_error(&cluster, "node-1"), None);
}

/// NODE-30.
#[tokio::test(start_paused = true)]
async fn taints_that_the_server_refuses_are_counted_and_explained_until_the_node_recovers() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.wait(20).await;
    refuse(&cluster, "nodes");
    cluster.nodes().silence("node-1").unwrap();
    cluster.wait(100).await;
    assert!(failed(&cluster) >= 2, "{}", failed(&cluster));
    let explained_text = explained(&cluster, Some("node-1"))["waiting"].to_string();
    assert!(
        explained_text.contains("add the NoExecute taint") && explained_text.contains("is invalid"),
        "{explained_text}"
    );
    cluster.nodes().restore("node-1").unwrap();
    cluster.wait(60).await;
    let node = cluster.get("nodes", "node-1").await;
    assert_eq!((status(&node, "Ready"), taints(&node, "NoExecute").len()), ("True", 0));
    assert_eq!(last_error(&cluster, "node-1"), None);
}

/// NODE-30.
#[tokio::test(start_paused = true)]
async fn removals_of_taints_that_the_server_refuses_are_counted_and_explained() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.nodes().silence("node-1").unwrap();
    until(&cluster, "node-1", 90, |node| !taints(node, "NoExecute").is_empty()).await;
    refuse(&cluster, "nodes");
    cluster.nodes().restore("node-1").unwrap();
    cluster.wait(60).await;
    assert!(failed(&cluster) >= 5, "{}", failed(&cluster));
    let explained_text = explained(&cluster, Some("node-1"))["waiting"].to_string();
    assert!(
        explained_text.contains("remove the NoExecute taints") && explained_text.contains("is invalid"),
        "{explained_text}"
    );
}

/// The server denies one write because of its content, but accepts other writes and heartbeats, so the grace period continues.
/// NODE-13.
#[tokio::test(start_paused = true)]
async fn a_denied_write_does_not_restart_the_grace_period() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.wait(20).await;
    let denied = rule(Action::Invalid, "patch", "nodes/status");
    cluster.fault(denied.times(1));
    cluster.nodes().silence("node-1").unwrap();
    let silent = until(&cluster, "node-1", 120, |node| status(node, "Ready") == "Unknown").await;
    assert!(silent <= 67, "{silent}");
    assert_eq!(failed(&cluster), 1);
}
