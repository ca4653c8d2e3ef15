//! Shadow mode, in which a process writes nothing: evictions and passes are still decided when they are due.

use crate::world::*;

/// Returns the actions of the plan for a key with this number, and the seconds from `since` to its decision.
fn plan(world: &World, key: &str, number: usize, since: Timestamp) -> (Vec<String>, i64) {
    let (at, actions) = world.loops().plans(key).swap_remove(number);
    (actions, at.duration_since(since).as_secs())
}

/// NODE-76.
#[tokio::test(start_paused = true)]
async fn an_eviction_is_decided_when_the_toleration_ends_and_no_pod_is_deleted() {
    let world = pod_world(pod_cluster().shadow()).await;
    create_node(&world, "n", "").await;
    create_pod(&world, "p", "n", tolerating(Some(300))).await;
    taint(&world, "n", "k").await;
    world.wait(200).await;
    taint(&world, "n", "").await;
    world.wait(1).await;
    taint(&world, "n", "k").await;
    let tainted = world.clock.now();
    world.wait(1000).await;
    assert_eq!(plan(&world, "shop/p", 0, tainted).0, [""; 0], "its timer is cancelled");
    let why = "it no longer tolerates a taint of its node";
    let actions = vec![format!("write the condition DisruptionTarget: {why}"), format!("delete Pod p: {why}")];
    assert_eq!(plan(&world, "shop/p", 1, tainted), (actions, 300), "a new timer starts");
    assert!(!has_left(&world, "p").await);
    world.assert_wrote_nothing();
}

/// NODE-76.
#[tokio::test(start_paused = true)]
async fn pods_of_a_missing_node_are_decided_after_the_quarantine_and_none_is_removed() {
    let world = pod_world(pod_cluster().shadow()).await;
    create_pod(&world, "p", "missing", json!([])).await;
    let bound = world.clock.now();
    world.wait(90).await;
    let (actions, after) = plan(&world, "pass", 0, bound);
    let why = format!("its node does not exist (namespace {NAMESPACE})");
    assert_eq!(actions, [format!("set the phase Failed of Pod p: {why}"), format!("delete Pod p: {why}")]);
    assert!((40..=60).contains(&after), "{after}");
    assert!(!has_left(&world, "p").await);
    world.assert_wrote_nothing();
}

/// NODE-76.
#[tokio::test(start_paused = true)]
async fn nodes_are_judged_when_they_are_due_and_nothing_is_written_to_them() {
    let world = live_world(live_cluster(6).shadow(), 0).await;
    create_pod(&world, "p", "node-1", json!(null)).await;
    world.wait(20).await;
    world.nodes().set_condition("node-2", "Ready", false).unwrap();
    silence(&world, [1]);
    let silenced = world.clock.now();
    world.wait(120).await;
    let when = |key: &str, action: &str| {
        let plans = world.loops().plans(key);
        let first = plans.iter().find(|(_, actions)| actions.iter().any(|found| found.starts_with(action)));
        first.unwrap_or_else(|| panic!("{action}: {plans:?}")).0.duration_since(silenced).as_secs()
    };
    let silent = when("health", "set to Unknown the conditions of Node node-1");
    assert!((40..=56).contains(&silent), "{silent}");
    let tainted = when("tainting", "add the NoExecute taint to Node node-2: node.kubernetes.io/not-ready:NoExecute");
    assert!((0..=6).contains(&tainted), "{tainted}");
    assert!(
        when("node-2", "update taints and labels of Node node-2: add taint node.kubernetes.io/not-ready:NoSchedule")
            <= 1
    );
    world.assert_wrote_nothing();
    assert_eq!(unknown_and_tainted(&world).await, (0, 0));
}
