//! Writes name the version of the Pod in the snapshot, so that a stale snapshot causes a conflict.

use crate::world::*;

/// REPLICASET-74.
#[tokio::test(start_paused = true)]
async fn a_pod_relabelled_unseen_is_not_deleted_by_a_scale_down() {
    let world = cluster().settled(web(3)).await;
    world.hold("pods");
    // A user relabels two of the three Pods, to debug them outside of the set.
    let pods: Vec<String> = world.active_pods().await.into_iter().collect();
    for pod in &pods[..2] {
        world.label("pods", pod, json!({"app": "debugged"})).await;
    }
    world.clear_log();
    world.scale(0).await;
    world.wait(20).await;
    let left = world.active_pods().await;
    assert!(pods[..2].iter().all(|pod| left.contains(pod)), "{left:?}");
    // Conflicts do not cause a busy loop, because the next attempt waits for a newer version in the cache, or for some seconds.
    world.assert_count("delete", "pods", 3..=11);
    assert!(world.conditions().await.is_empty(), "{:?}", world.conditions().await);
    world.release("pods");
    world.settle().await;
    assert_eq!(world.active_pods().await.len(), 2);
    assert_eq!(world.status().await["replicas"], 0);
    assert!(world.events().await.iter().all(|event| !event.contains("FailedDelete")));
}

/// REPLICASET-74.
#[tokio::test(start_paused = true)]
async fn a_pod_that_became_ready_unseen_is_not_deleted() {
    let world = cluster().settled(web(2)).await;
    let pods: Vec<String> = world.active_pods().await.into_iter().collect();
    let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status}]});
    let report = async |pod: &str, status: &str| {
        world.patch_pod_status(pod, ready(status)).await;
    };
    report(&pods[0], "False").await;
    world.settle().await;
    world.delay("pods", 3);
    report(&pods[0], "True").await;
    report(&pods[1], "False").await;
    world.scale(1).await;
    world.wait(20).await;
    assert_eq!(world.active_pods().await.into_iter().collect::<Vec<_>>(), pods[..1]);
}

/// REPLICASET-75.
#[tokio::test(start_paused = true)]
async fn a_pod_that_matches_again_unseen_is_not_released() {
    let world = cluster().settled(web(1)).await;
    let pod = name(&world.pods().await[0]).to_owned();
    world.delay("pods", 3);
    world.clear_log();
    world.label("pods", &pod, json!({"app": "debugged"})).await;
    world.wait(2).await;
    world.label("pods", &pod, json!({"app": "web"})).await;
    world.wait(20).await;
    assert_eq!((world.count("patch", "pods"), world.count("create", "pods")), (1, 0), "the release was refused");
    assert_eq!(owners(&world.pods().await[0]), ["ReplicaSet web"]);
}
