//! The options that operators can turn on, with both values.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use common::settings::{OperatorSettings, TunableValue};
use serde_json::{Value, json};

use crate::{
    failure::{PodCreationRefuser, quota_message},
    world::{
        NAMESPACE, REPLICA_SET_RESOURCE, REPLICATION_CONTROLLER_RESOURCE, TestCluster, TestClusterSetup, object_name,
        replica_set, replication_controller,
    },
};

const ON: TunableValue = TunableValue::Switch(true);

async fn tuned(tunes: &[(&str, TunableValue)]) -> TestCluster {
    let settings =
        tunes.iter().fold(OperatorSettings::new(), |settings, (name, value)| settings.with_tunable(name, *value));
    TestCluster::with_setup(TestClusterSetup { settings, ..TestClusterSetup::default() }).await
}

/// Returns the set with a template for Pods that every node rejects.
fn turned_away(mut set: Value) -> Value {
    set["spec"]["template"]["metadata"]["annotations"] = json!({"sim/fail-reason": "OutOfcpu"});
    set
}

/// Returns the count of created Pods by time, in seconds since the first creation.
async fn rounds(world: &TestCluster) -> Vec<(i64, usize)> {
    let mut rounds: BTreeMap<i64, usize> = BTreeMap::new();
    for pod in world.list_pods().await {
        let created: jiff::Timestamp = pod["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
        *rounds.entry(created.as_second()).or_default() += 1;
    }
    let first = *rounds.keys().next().unwrap();
    rounds.into_iter().map(|(second, pods)| (second - first, pods)).collect()
}

/// REPLICASET-66.
#[tokio::test(start_paused = true)]
async fn rejected_pods_are_replaced_with_a_growing_delay() {
    for kind in [REPLICA_SET_RESOURCE, REPLICATION_CONTROLLER_RESOURCE] {
        let world = tuned(&[("failed-pod-backoff", ON)]).await;
        world
            .create_object(turned_away(if kind == REPLICA_SET_RESOURCE {
                replica_set("web", 3)
            } else {
                replication_controller("web", 3)
            }))
            .await;
        world.wait_seconds(240).await;
        let rounds = rounds(&world).await;
        let (at, pods): (Vec<i64>, Vec<usize>) = rounds.into_iter().unzip();
        // The first replacements are created within the same second as the first Pods.
        assert_eq!((at.len(), pods[0]), (9, 6), "{at:?} {pods:?}");
        assert!(pods[1..].iter().all(|n| *n == 3), "{pods:?}");
        let waits: Vec<i64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (wait, want) in waits.iter().zip([1, 2, 4, 8, 16, 32, 60, 60]) {
            assert!((want..=want + 1).contains(wait), "{waits:?}");
        }
        let index = usize::from(kind == REPLICATION_CONTROLLER_RESOURCE);
        let told = world.loops.as_ref().unwrap().explain(Some("shop/web"));
        let waiting = told[index]["waiting"][0].as_str().unwrap();
        assert!(waiting.starts_with("30 Pods failed without ever being ready: next creation in "), "{told}");
    }
}

/// REPLICASET-66.
#[tokio::test(start_paused = true)]
async fn by_default_rejected_pods_are_replaced_without_delay() {
    // The node takes 0.1 s to reject each Pod. With immediate rejections, virtual time would not pass.
    let slowly = || {
        let mut web = turned_away(replica_set("web", 1));
        let script = &mut web["spec"]["template"]["metadata"]["annotations"];
        script["sim/never-ready"] = json!("true");
        script["sim/after"] = json!("0.1");
        web
    };
    for (tunes, most) in [(vec![], 100..=120), (vec![("failed-pod-backoff", ON)], 5..=5)] {
        let world = tuned(&tunes).await;
        world.create_object(slowly()).await;
        world.wait_seconds(12).await;
        let made = world.list_pods().await.len();
        assert!(most.contains(&made), "{made} {tunes:?}");
    }
}

/// REPLICASET-66.
#[tokio::test(start_paused = true)]
async fn a_pod_that_becomes_ready_ends_the_back_off() {
    let world = tuned(&[("failed-pod-backoff", ON)]).await;
    world.create_object(turned_away(replica_set("web", 2))).await;
    world.wait_seconds(40).await;
    // Half a minute of the back-off is left. It does not delay an adoption. The adopted Pod is ready, which ends the back-off.
    let made = world.list_pods().await.len();
    world
        .merge_patch(REPLICA_SET_RESOURCE, "web", json!({"spec": {"template": {"metadata": {"annotations": null}}}}))
        .await;
    world.wait_seconds(5).await;
    assert_eq!(world.list_pods().await.len(), made);
    world.create_object(crate::world::orphan_pod("good", "web")).await;
    world.wait_seconds(1).await;
    assert_eq!((world.active_pod_names().await.len(), world.list_pods().await.len()), (2, made + 2));
}

/// REPLICASET-67.
#[tokio::test(start_paused = true)]
async fn deleted_pods_are_replaced_at_once() {
    let world = tuned(&[("failed-pod-backoff", ON)]).await;
    let mut web = replica_set("web", 2);
    web["spec"]["template"]["metadata"]["annotations"] = json!({"sim/never-ready": "true"});
    world.create_object(web).await;
    world.wait_until_settled().await;
    for round in 1..=8 {
        for pod in world.active_pod_names().await {
            world.sandbox.delete("pods", Some(NAMESPACE), &pod).await.unwrap();
        }
        world.wait_seconds(1).await;
        assert_eq!((world.active_pod_names().await.len(), world.request_count("create", "pods")), (2, 2 + 2 * round));
    }
}

/// REPLICASET-67.
#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_after_it_was_ready_is_replaced_at_once() {
    let world = tuned(&[("failed-pod-backoff", ON)]).await;
    let mut web = replica_set("web", 2);
    web["spec"]["template"]["metadata"]["annotations"] = json!({"sim/fail-reason": "Evicted", "sim/after": "5"});
    world.create_object(web).await;
    world.wait_seconds(60).await;
    let made = world.list_pods().await.len();
    assert!((22..=24).contains(&made), "{made}");
}

/// REPLICASET-68.
#[tokio::test(start_paused = true)]
async fn a_new_leader_starts_without_a_back_off() {
    let mut world = tuned(&[("failed-pod-backoff", ON)]).await;
    world.create_object(turned_away(replica_set("web", 1))).await;
    world.wait_seconds(40).await;
    let made = world.list_pods().await.len();
    world.crash_loops();
    world.start_loops();
    world.clock.sleep(Duration::from_millis(900)).await;
    assert_eq!(world.list_pods().await.len(), made + 2, "its first Pod and the replacement");
}

/// REPLICASET-46.
#[tokio::test(start_paused = true)]
async fn free_quota_is_noticed_within_the_maximum_back_off() {
    for (tunes, by, then) in [
        (vec![("max-backoff", TunableValue::Duration(Duration::from_secs(10)))], 11, 2),
        // With the default maximum, the next attempt is eleven minutes after the last one.
        (vec![], 300, 0),
    ] {
        let (refuser, filter) = PodCreationRefuser::new(quota_message, json!([]));
        let settings =
            tunes.iter().fold(OperatorSettings::new(), |settings, (name, value)| settings.with_tunable(name, *value));
        let world =
            TestCluster::with_setup(TestClusterSetup { settings, filter: Some(filter), ..TestClusterSetup::default() })
                .await;
        world.create_object(replica_set("web", 2)).await;
        world.wait_seconds(700).await;
        refuser.is_refusing.store(false, Ordering::Relaxed);
        world.wait_seconds(by).await;
        assert_eq!(world.active_pod_names().await.len(), then, "{tunes:?}");
    }
}

/// Puts ready Pods on `nodes`, scales their set down to `left` Pods, and returns the count of Pods left on each node.
async fn left(
    tunes: &[(&str, TunableValue)],
    kind: &str,
    owned: bool,
    nodes: &[&str],
    left: usize,
) -> BTreeMap<String, usize> {
    let world = Arc::new(tuned(tunes).await);
    for (at, node) in nodes.iter().enumerate() {
        let mut pod = crate::world::orphan_pod(&format!("p{at}"), "web");
        pod["spec"]["nodeName"] = json!(node);
        world.create_object(pod).await;
    }
    world.wait_seconds(1).await;
    let mut web = if kind == REPLICA_SET_RESOURCE {
        replica_set("web", nodes.len())
    } else {
        replication_controller("web", nodes.len())
    };
    if owned {
        web["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u-d", "controller": true}]);
    }
    world.create_object(web).await;
    world.wait_until_settled().await;
    world.merge_patch(kind, "web", json!({"spec": {"replicas": left}})).await;
    world.wait_until_settled().await;
    let active = world.active_pod_names().await;
    let mut on = BTreeMap::new();
    for pod in world.list_pods().await.iter().filter(|pod| active.contains(object_name(pod))) {
        *on.entry(pod["spec"]["nodeName"].as_str().unwrap().to_owned()).or_insert(0) += 1;
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
    let rerank = ("rerank-as-pods-are-chosen", ON);
    assert_eq!(left(&[], REPLICA_SET_RESOURCE, true, &nodes, 4).await, on(&[("node-1", 3), ("node-2", 1)]));
    let levelled = left(&[rerank], REPLICA_SET_RESOURCE, true, &nodes, 4).await;
    assert!(levelled.len() == 3 && levelled.values().all(|n| *n <= 2), "{levelled:?}");
    assert_eq!(
        left(&[rerank], REPLICA_SET_RESOURCE, true, &nodes, 3).await,
        on(&[("node-0", 1), ("node-1", 1), ("node-2", 1)])
    );
}

/// REPLICASET-70.
#[tokio::test(start_paused = true)]
async fn sets_without_siblings_rank_by_their_own_pods_if_enabled() {
    let nodes = ["node-1", "node-2", "node-0", "node-0", "node-0"];
    let (own, rerank) = (("rank-by-own-pods", ON), ("rerank-as-pods-are-chosen", ON));
    for kind in [REPLICA_SET_RESOURCE, REPLICATION_CONTROLLER_RESOURCE] {
        assert_eq!(left(&[own], kind, false, &nodes, 2).await, on(&[("node-1", 1), ("node-2", 1)]), "{kind}");
        let levelled = on(&[("node-0", 1), ("node-1", 1), ("node-2", 1)]);
        assert_eq!(left(&[own, rerank], kind, false, &nodes, 3).await, levelled, "{kind}");
    }
}
