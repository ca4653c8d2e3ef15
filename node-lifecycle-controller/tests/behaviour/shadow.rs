//! Shadow mode, in which a process writes nothing: evictions and passes are still decided when they are due.

use crate::world::*;

async fn shadow() -> World {
    pod_world(pod_cluster().shadow()).await
}

fn is_untouched(world: &World) -> bool {
    world.sandbox.writes().all().iter().all(|write| write.identity != CONTROLLER)
}

/// NODE-76.
#[tokio::test(start_paused = true)]
async fn an_eviction_is_decided_when_the_toleration_ends_and_no_pod_is_deleted() {
    let world = shadow().await;
    create_node(&world, "n", json!([])).await;
    create_pod(&world, "p", "n", tolerating(Some(300))).await;
    taint(&world, "n", no_execute("k")).await;
    let tainted = world.clock.now();
    world.wait(1000).await;
    let plans = world.loops().plans("shop/p");
    let (at, actions) = &plans[0];
    let why = "it no longer tolerates a taint of its node";
    let condition = format!("write the condition DisruptionTarget: {why}");
    assert_eq!(actions, &[condition, format!("delete Pod p: {why}")]);
    assert_eq!(at.duration_since(tainted).as_secs(), 300);
    assert!(!is_terminating_or_deleted(&world, "p").await && is_untouched(&world));
}

/// NODE-76.
#[tokio::test(start_paused = true)]
async fn the_removal_of_a_taint_in_time_cancels_the_eviction() {
    let world = shadow().await;
    create_node(&world, "n", json!([])).await;
    create_pod(&world, "p", "n", tolerating(Some(300))).await;
    taint(&world, "n", no_execute("k")).await;
    world.wait(200).await;
    taint(&world, "n", json!([])).await;
    world.wait(1).await;
    taint(&world, "n", no_execute("k")).await;
    let tainted = world.clock.now();
    world.wait(1000).await;
    let plans = world.loops().plans("shop/p");
    assert_eq!(plans[0].1, [""; 0], "its timer is cancelled");
    assert_eq!(plans[1].0.duration_since(tainted).as_secs(), 300, "a new timer starts");
    assert!(is_untouched(&world));
}

/// NODE-76.
#[tokio::test(start_paused = true)]
async fn pods_of_a_missing_node_are_decided_after_the_quarantine_and_none_is_removed() {
    let world = shadow().await;
    create_pod(&world, "p", "missing", json!([])).await;
    let bound = world.clock.now();
    world.wait(90).await;
    let plans = world.loops().plans("pass");
    let (at, actions) = &plans[0];
    let why = format!("its node does not exist (namespace {NAMESPACE})");
    assert_eq!(actions, &[format!("set the phase Failed of Pod p: {why}"), format!("delete Pod p: {why}")]);
    let after = at.duration_since(bound).as_secs();
    assert!((40..=60).contains(&after), "{after}");
    assert!(!is_terminating_or_deleted(&world, "p").await && is_untouched(&world));
}

/// NODE-76.
#[tokio::test(start_paused = true)]
async fn nodes_are_judged_when_they_are_due_and_nothing_is_written_to_them() {
    let cluster = live_world(live_cluster(6).shadow()).await;
    create_pod(&cluster, "p", "node-1", json!(null)).await;
    cluster.wait(20).await;
    cluster.nodes().set_condition("node-2", "Ready", false).unwrap();
    cluster.nodes().silence("node-1").unwrap();
    let silenced = cluster.clock.now();
    cluster.wait(120).await;
    let when = |key: &str, action: &str| {
        let plans = cluster.loops().plans(key);
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
    cluster.assert_wrote_nothing();
    assert_eq!((unknown_count(&cluster).await, tainted_nodes(&cluster).await.len()), (0, 0));
}
