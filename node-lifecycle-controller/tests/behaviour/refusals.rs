//! Changes of nodes that the server refuses are counted and explained.

use std::ops::RangeInclusive;

use crate::world::*;

const FAILED: &str = "nonet_node_writes_failed_total{error=\"invalid\"}";

/// Returns the node monitor's explanation of a key, or of the whole loop for `None`.
fn explained(world: &World, key: Option<&str>) -> Value {
    world.loops().explain(key)[0].take()
}

/// Returns the last error of a node in the list of failing keys.
fn last_error(world: &World, node: &str) -> Option<String> {
    let all = explained(world, None);
    let entry = all["failing"].as_array().unwrap().iter().find(|entry| entry["key"] == node)?;
    entry["lastError"]["error"].as_str().map(str::to_owned)
}

/// Asserts how many changes of `node-1` were refused, and that the explanation names the change.
fn assert_refused(world: &World, refused: RangeInclusive<u64>, change: &str) {
    assert!(refused.contains(&world.metric(FAILED)), "{}", world.metric(FAILED));
    let waiting = explained(world, Some("node-1"))["waiting"].to_string();
    assert!(waiting.contains(change) && waiting.contains("is invalid"), "{waiting}");
}

/// NODE-13, NODE-30.
#[tokio::test(start_paused = true)]
async fn conditions_that_the_server_refuses_are_counted_and_explained_until_they_are_written() {
    let world = live_world(live_cluster(6), 20).await;
    world.fault(rule(Action::Invalid, "patch", "nodes/status"));
    silence(&world, [1]);
    world.wait(180).await;
    assert_eq!(status(&world.get("nodes", "node-1").await, "Ready"), "True");
    // The pauses grow.
    assert_refused(&world, 5..=7, "set the conditions to Unknown");
    let error = last_error(&world, "node-1").unwrap();
    assert!(error.starts_with("set the conditions to Unknown: ") && error.contains("is invalid"), "{error}");
    let of_another = explained(&world, Some("node-2"))["waiting"].to_string();
    assert_eq!((last_error(&world, "node-2"), &*of_another), (None, "[]"));
    world.clear_faults();
    until_unknown(&world, "node-1", 90).await;
    world.wait(1).await;
    assert_eq!(last_error(&world, "node-1"), None);
}

/// NODE-30.
#[tokio::test(start_paused = true)]
async fn taints_and_their_removals_that_the_server_refuses_are_counted_and_explained() {
    let world = live_world(live_cluster(6), 20).await;
    world.fault(rule(Action::Invalid, "patch", "nodes"));
    silence(&world, [1]);
    world.wait(100).await;
    assert_refused(&world, 2..=u64::MAX, "add the NoExecute taint");
    world.nodes().restore("node-1").unwrap();
    world.wait(60).await;
    let node = world.get("nodes", "node-1").await;
    assert_eq!((status(&node, "Ready"), taints(&node, "NoExecute").len()), ("True", 0));
    assert_eq!(last_error(&world, "node-1"), None);
    world.clear_faults();
    silence(&world, [1]);
    until_tainted(&world, "node-1").await;
    let refused = world.metric(FAILED);
    world.fault(rule(Action::Invalid, "patch", "nodes"));
    world.nodes().restore("node-1").unwrap();
    world.wait(60).await;
    assert_refused(&world, refused + 5..=u64::MAX, "remove the NoExecute taints");
}

/// The server denies one write because of its content, but accepts other writes and heartbeats, so the grace period continues.
/// NODE-13.
#[tokio::test(start_paused = true)]
async fn a_denied_write_does_not_restart_the_grace_period() {
    let world = live_world(live_cluster(6), 20).await;
    world.fault(rule(Action::Invalid, "patch", "nodes/status").times(1));
    silence(&world, [1]);
    let silent = until_unknown(&world, "node-1", 120).await;
    assert!(silent <= 67, "{silent}");
    assert_eq!(world.metric(FAILED), 1);
}
