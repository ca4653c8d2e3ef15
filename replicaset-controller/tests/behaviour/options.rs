//! The options that operators can turn on, with both values.

use crate::{failure::quota, world::*};

/// A cluster in which Pods that fail without ever being ready are replaced with growing delays.
fn backing_off() -> Cluster {
    cluster().tunable("failed-pod-backoff", true)
}

/// Returns the set with a template for Pods that every node rejects.
fn turned_away(set: Value) -> Value {
    annotated(set, json!({"sim/fail-reason": "OutOfcpu"}))
}

/// Returns the count of created Pods by time, in seconds since the first creation.
async fn rounds(world: &World) -> Vec<(i64, usize)> {
    let mut rounds: BTreeMap<i64, usize> = BTreeMap::new();
    for pod in world.pods().await {
        let created = time(&pod["metadata"]["creationTimestamp"]);
        *rounds.entry(created.as_second()).or_default() += 1;
    }
    let first = *rounds.keys().next().unwrap();
    rounds.into_iter().map(|(second, pods)| (second - first, pods)).collect()
}

/// REPLICASET-66.
#[tokio::test(start_paused = true)]
async fn rejected_pods_are_replaced_with_a_growing_delay() {
    for (index, (_, set)) in web_of_each_kind(3).into_iter().enumerate() {
        let world = backing_off().start().await;
        world.create(turned_away(set)).await;
        world.wait(240).await;
        let rounds = rounds(&world).await;
        let (at, pods): (Vec<i64>, Vec<usize>) = rounds.into_iter().unzip();
        // The first replacements are created within the same second as the first Pods.
        assert_eq!((at.len(), pods[0]), (9, 6), "{at:?} {pods:?}");
        assert!(pods[1..].iter().all(|n| *n == 3), "{pods:?}");
        let waits: Vec<i64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (wait, want) in waits.iter().zip([1, 2, 4, 8, 16, 32, 60, 60]) {
            assert!((want..=want + 1).contains(wait), "{waits:?}");
        }
        let told = world.loops().explain(Some("shop/web"));
        let waiting = told[index]["waiting"][0].as_str().unwrap();
        assert!(waiting.starts_with("30 Pods failed without ever being ready: next creation in "), "{told}");
    }
}

/// REPLICASET-66.
#[tokio::test(start_paused = true)]
async fn by_default_rejected_pods_are_replaced_without_delay() {
    // The node takes 0.1 s to reject each Pod. With immediate rejections, virtual time would not pass.
    let slowly = || annotated(turned_away(web(1)), json!({"sim/never-ready": "true", "sim/after": "0.1"}));
    for (cluster, most) in [(cluster(), 100..=120), (backing_off(), 5..=5)] {
        let world = cluster.start().await;
        world.create(slowly()).await;
        world.wait(12).await;
        let made = world.pods().await.len();
        assert!(most.contains(&made), "{made}");
    }
}

/// REPLICASET-66.
#[tokio::test(start_paused = true)]
async fn a_pod_that_becomes_ready_ends_the_back_off() {
    let world = backing_off().start().await;
    world.create(turned_away(web(2))).await;
    world.wait(40).await;
    // Half a minute of the back-off is left. It does not delay an adoption. The adopted Pod is ready, which ends the back-off.
    let made = world.pods().await.len();
    world.change(json!({"template": {"metadata": {"annotations": null}}})).await;
    world.wait(5).await;
    assert_eq!(world.pods().await.len(), made);
    world.create(orphan_pod("good", "web")).await;
    world.wait(1).await;
    assert_eq!((world.active_pods().await.len(), world.pods().await.len()), (2, made + 2));
}

/// REPLICASET-67.
#[tokio::test(start_paused = true)]
async fn deleted_pods_are_replaced_at_once() {
    let world = backing_off().start().await;
    world.create_and_settle(annotated(web(2), json!({"sim/never-ready": "true"}))).await;
    for round in 1..=8 {
        for pod in world.active_pods().await {
            world.delete("pods", &pod).await;
        }
        world.wait(1).await;
        assert_eq!((world.active_pods().await.len(), world.count("create", "pods")), (2, 2 + 2 * round));
    }
}

/// REPLICASET-67.
#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_after_it_was_ready_is_replaced_at_once() {
    let world = backing_off().start().await;
    world.create(annotated(web(2), json!({"sim/fail-reason": "Evicted", "sim/after": "5"}))).await;
    world.wait(60).await;
    let made = world.pods().await.len();
    assert!((22..=24).contains(&made), "{made}");
}

/// REPLICASET-68.
#[tokio::test(start_paused = true)]
async fn a_new_leader_starts_without_a_back_off() {
    let mut world = backing_off().start().await;
    world.create(turned_away(web(1))).await;
    world.wait(40).await;
    let made = world.pods().await.len();
    world.restart();
    world.wait(0.9).await;
    assert_eq!(world.pods().await.len(), made + 2, "its first Pod and the replacement");
}

/// REPLICASET-46.
#[tokio::test(start_paused = true)]
async fn free_quota_is_noticed_within_the_maximum_back_off() {
    // With the default maximum, the next attempt is eleven minutes after the last one.
    for (cluster, by, then) in [(cluster().tunable("max-backoff", in_seconds(10)), 11, 2), (cluster(), 300, 0)] {
        let quota = quota();
        let world = cluster.filter(quota.filter()).start().await;
        world.create(web(2)).await;
        world.wait(700).await;
        quota.allow();
        world.wait(by).await;
        assert_eq!(world.active_pods().await.len(), then);
    }
}

/// Puts ready Pods on `nodes`, scales their set down to `left` Pods, and returns the count of Pods left on each node.
async fn left(options: &[&str], set: (&str, Value), nodes: &[&str], left: usize) -> BTreeMap<String, usize> {
    let world = options.iter().fold(cluster(), |cluster, option| cluster.tunable(option, true)).start().await;
    for (at, node) in nodes.iter().enumerate() {
        world.create(merged(orphan_pod(&format!("p{at}"), "web"), json!({"spec": {"nodeName": node}}))).await;
    }
    world.wait(1).await;
    world.create_and_settle(with_spec(set.1, json!({"replicas": nodes.len()}))).await;
    world.patch_and_settle(set.0, "web", json!({"spec": {"replicas": left}})).await;
    let active = world.active_pods().await;
    let mut on = BTreeMap::new();
    for pod in world.pods().await.iter().filter(|pod| active.contains(name(pod))) {
        *on.entry(text(&pod["spec"], "nodeName").to_owned()).or_insert(0) += 1;
    }
    on
}

fn on(nodes: &[(&str, usize)]) -> BTreeMap<String, usize> {
    nodes.iter().map(|(node, pods)| ((*node).to_owned(), *pods)).collect()
}

/// REPLICASET-69.
#[tokio::test(start_paused = true)]
async fn a_scale_down_empties_the_fullest_node_or_balances_nodes() {
    let nodes = ["node-0", "node-0", "node-0", "node-0", "node-1", "node-1", "node-1", "node-2"];
    let mut owned = web(0);
    owned["metadata"]["ownerReferences"] = foreign_controller("apps/v1", "Deployment", "d");
    let owned = || (SETS, owned.clone());
    let rerank = ["rerank-as-pods-are-chosen"];
    assert_eq!(left(&[], owned(), &nodes, 4).await, on(&[("node-1", 3), ("node-2", 1)]));
    let levelled = left(&rerank, owned(), &nodes, 4).await;
    assert!(levelled.len() == 3 && levelled.values().all(|n| *n <= 2), "{levelled:?}");
    assert_eq!(left(&rerank, owned(), &nodes, 3).await, on(&[("node-0", 1), ("node-1", 1), ("node-2", 1)]));
}

/// REPLICASET-70.
#[tokio::test(start_paused = true)]
async fn sets_without_siblings_rank_by_their_own_pods_if_enabled() {
    let nodes = ["node-1", "node-2", "node-0", "node-0", "node-0"];
    for set in web_of_each_kind(0) {
        let kind = set.0;
        let ranked = left(&["rank-by-own-pods"], set.clone(), &nodes, 2).await;
        assert_eq!(ranked, on(&[("node-1", 1), ("node-2", 1)]), "{kind}");
        let levelled = left(&["rank-by-own-pods", "rerank-as-pods-are-chosen"], set, &nodes, 3).await;
        assert_eq!(levelled, on(&[("node-0", 1), ("node-1", 1), ("node-2", 1)]), "{kind}");
    }
}
