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

/// REPLICASET-66, REPLICASET-68.
#[tokio::test(start_paused = true)]
async fn rejected_pods_are_replaced_with_a_growing_delay_that_a_new_leader_forgets() {
    for (index, (_, set)) in web_of_each_kind(3).into_iter().enumerate() {
        let mut world = backing_off().start().await;
        world.create(turned_away(set)).await;
        world.wait(240).await;
        let mut rounds: BTreeMap<i64, usize> = BTreeMap::new();
        for pod in world.pods().await {
            *rounds.entry(time(&pod["metadata"]["creationTimestamp"]).as_second()).or_default() += 1;
        }
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
        world.restart();
        world.wait(0.9).await;
        assert_eq!(world.pods().await.len(), 30 + 6, "its first Pods and their replacements");
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
