//! Creation and deletion of Pods until `spec.replicas` is reached.

use crate::world::*;

/// REPLICASET-30, REPLICASET-35.
#[tokio::test(start_paused = true)]
async fn missing_pods_are_created_with_one_request_each() {
    let world = cluster().settled(web(7)).await;
    assert_eq!((world.count("create", "pods"), world.count("get", "pods")), (7, 0));
    assert_eq!((world.count("get", SETS), world.count("delete", "pods"), world.count("patch", "pods")), (0, 0, 0));
    assert_eq!(
        world.status().await,
        json!({"replicas": 7, "fullyLabeledReplicas": 7, "readyReplicas": 7, "availableReplicas": 7,
            "terminatingReplicas": 0, "observedGeneration": 1})
    );
    world.clear_log();
    world.change_and_settle(json!({"replicas": 307})).await;
    assert_eq!((world.active_pods().await.len(), world.count("create", "pods")), (307, 300));
    assert_eq!(world.count("get", "pods") + world.count("get", SETS), 0);
    world.assert_count("update", "replicasets.apps/status", 1..=300);
}

/// REPLICASET-17, REPLICASET-32.
#[tokio::test(start_paused = true)]
async fn no_sync_exceeds_the_burst() {
    let world = cluster().tunable("burst-replicas", 5).settled(web(12)).await;
    assert_eq!((world.count("create", "pods"), world.max_live_pods()), (12, 12));
    // A sync writes the status after each burst, so that the log of writes shows the sizes after 5 and 10 creations.
    let sizes: Vec<i64> = world
        .own_writes()
        .iter()
        .filter_map(|w| w.after().filter(|_| w.resource == "replicasets")?["status"]["replicas"].as_i64())
        .collect();
    for size in [0, 5, 10, 12] {
        assert!(sizes.contains(&size), "{sizes:?}");
    }
    world.change_and_settle(json!({"replicas": 0})).await;
    assert_eq!((world.count("delete", "pods"), world.pods().await.len()), (12, 0));
}
