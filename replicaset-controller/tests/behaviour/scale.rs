//! Creation and deletion of Pods until `spec.replicas` is reached.

use crate::world::*;

/// REPLICASET-19, REPLICASET-22, REPLICASET-30.
#[tokio::test(start_paused = true)]
async fn missing_pods_are_created_with_one_request_each() {
    let world = cluster().settled(web(7)).await;
    let pods = world.pods().await;
    assert_eq!(pods.len(), 7);
    let owner = world.subject().await;
    for pod in &pods {
        let metadata = &pod["metadata"];
        assert_eq!(metadata["generateName"], "web-");
        assert_eq!(metadata["labels"]["app"], "web");
        assert_eq!(
            metadata["ownerReferences"],
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner["metadata"]["uid"],
                "controller": true, "blockOwnerDeletion": true}])
        );
    }
    assert_eq!((world.count("create", "pods"), world.count("get", "pods")), (7, 0));
    assert_eq!((world.count("get", SETS), world.count("delete", "pods"), world.count("patch", "pods")), (0, 0, 0));
    assert_eq!(
        owner["status"],
        json!({"replicas": 7, "fullyLabeledReplicas": 7, "readyReplicas": 7, "availableReplicas": 7,
            "terminatingReplicas": 0, "observedGeneration": 1})
    );
    let mut notes: Vec<String> =
        pods.iter().map(|p| format!("Normal SuccessfulCreate Created pod: {}", name(p))).collect();
    notes.sort();
    assert_eq!(world.events().await, notes);
}

/// REPLICASET-35.
#[tokio::test(start_paused = true)]
async fn a_large_set_costs_one_creation_per_pod_and_few_status_writes() {
    let world = cluster().settled(web(300)).await;
    assert_eq!(world.active_pods().await.len(), 300);
    assert_eq!(world.count("create", "pods"), 300);
    assert_eq!(world.count("get", "pods") + world.count("get", SETS), 0);
    assert!(world.count("patch", "replicasets.apps/status") <= 300, "{:?}", world.sandbox.requests().all());
}

/// REPLICASET-29.
#[tokio::test(start_paused = true)]
async fn a_set_is_scaled_by_exactly_the_difference() {
    let world = cluster().settled(web(10)).await;
    let before = world.active_pods().await;
    world.clear_log();
    world.change_and_settle(json!({"replicas": 4})).await;
    assert_eq!(world.count("delete", "pods"), 6);
    let after = world.active_pods().await;
    assert!(after.len() == 4 && after.is_subset(&before));
    assert_eq!(pick(&world.status().await, "replicas terminatingReplicas observedGeneration"), json!([4, 0, 2]));
    let deleted =
        world.events().await.iter().filter(|e| e.starts_with("Normal SuccessfulDelete Deleted pod: web-")).count();
    assert_eq!(deleted, 6);
    world.change_and_settle(json!({"replicas": 6})).await;
    assert_eq!((world.count("create", "pods"), world.active_pods().await.len()), (2, 6));
    world.change_and_settle(json!({"replicas": 0})).await;
    assert_eq!(world.pods().await.len(), 0);
    let status = world.status().await;
    assert_eq!(status, json!({"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 4}));
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

/// REPLICASET-59.
#[tokio::test(start_paused = true)]
async fn a_replication_controller_creates_and_deletes_pods() {
    let world = cluster().settled(replication_controller("old", 3)).await;
    let pods = world.pods().await;
    assert_eq!(pods.iter().map(owners).collect::<Vec<_>>(), vec![vec!["ReplicationController old".to_owned()]; 3]);
    assert_eq!(pods[0]["metadata"]["ownerReferences"][0]["apiVersion"], "v1");
    assert_eq!(world.count("create", "pods"), 3);
    assert_eq!(
        world.get(REPLICATION_CONTROLLERS, "old").await["status"],
        json!({"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3, "observedGeneration": 1})
    );
    let events = world.list("events").await;
    assert!(events.iter().all(|e| e["source"]["component"] == "replication-controller"));
    assert!(events.iter().all(|e| e["involvedObject"]["kind"] == "ReplicationController"));
    world.patch_and_settle(REPLICATION_CONTROLLERS, "old", json!({"spec": {"replicas": 1}})).await;
    assert_eq!((world.active_pods().await.len(), world.count("delete", "pods")), (1, 2));
}

/// REPLICASET-61.
#[tokio::test(start_paused = true)]
async fn sets_of_both_kinds_may_have_the_same_name() {
    let world = cluster().start().await;
    world.create(web(2)).await;
    world.create_and_settle(replication_controller("web", 3)).await;
    let of = |kind: &str, pods: &[Value]| pods.iter().filter(|p| owners(p) == [format!("{kind} web")]).count();
    let pods = world.pods().await;
    assert_eq!((of("ReplicaSet", &pods), of("ReplicationController", &pods), pods.len()), (2, 3, 5));
}

/// REPLICASET-19.
#[tokio::test(start_paused = true)]
async fn an_unknown_field_is_copied_to_the_pods() {
    let world = cluster().server(|server| server.keep_unknown_fields(true)).start().await;
    let mut web = web(1);
    web["spec"]["template"]["spec"]["fromTheFuture"] = json!({"deep": [1, {"x": true}]});
    web["spec"]["template"]["spec"]["containers"][0]["alsoNew"] = json!(3);
    world.create_and_settle(web).await;
    let spec = &world.pods().await[0]["spec"];
    assert_eq!(spec["fromTheFuture"], json!({"deep": [1, {"x": true}]}));
    assert_eq!(spec["containers"][0]["alsoNew"], 3);
}

/// REPLICASET-23, REPLICASET-71.
#[tokio::test(start_paused = true)]
async fn unready_pods_are_deleted_first() {
    let world = cluster().settled(web(3)).await;
    let mut names: Vec<String> = world.active_pods().await.into_iter().collect();
    let unready = names.remove(1);
    let condition = json!([{"type": "Ready", "status": "False", "lastTransitionTime": world.clock.now().to_string()}]);
    world.patch_pod_status(&unready, json!({"conditions": condition})).await;
    world.change_and_settle(json!({"replicas": 2})).await;
    assert_eq!(world.active_pods().await.into_iter().collect::<Vec<_>>(), names);
    // The deleted Pod was not ready, so no age ratio is recorded.
    let metrics = world.metrics();
    assert!(metrics.contains("replicaset_controller_sorting_deletion_age_ratio_count 0"), "{metrics}");
}

/// REPLICASET-20.
#[tokio::test(start_paused = true)]
async fn a_finished_or_deleted_pod_is_replaced() {
    let world = cluster().settled(web(3)).await;
    let names: Vec<String> = world.active_pods().await.into_iter().collect();
    world.delete_and_settle("pods", &names[0]).await;
    assert_eq!(world.active_pods().await.len(), 3);
    world.patch_pod_status(&names[1], json!({"phase": "Failed"})).await;
    world.settle().await;
    assert_eq!(world.active_pods().await.len(), 3);
    // The failed Pod is left to the garbage collector of Pods.
    assert_eq!(world.pods().await.len(), 4);
    assert_eq!(owners(&world.get("pods", &names[1]).await), ["ReplicaSet web"]);
}

/// REPLICASET-21.
#[tokio::test(start_paused = true)]
async fn a_set_that_is_being_deleted_gets_a_status_and_no_pods() {
    let world = cluster().settled(merged(web(3), json!({"metadata": {"finalizers": ["example.com/hold"]}}))).await;
    world.delete(SETS, "web").await;
    let first = world.first_active_pod().await;
    world.delete_and_settle("pods", &first).await;
    assert_eq!(world.active_pods().await.len(), 2);
    assert_eq!(world.status().await["replicas"], 2);
}

/// REPLICASET-57.
#[tokio::test(start_paused = true)]
async fn two_hundred_sets_get_their_pods_concurrently() {
    let world = cluster().start().await;
    for n in 0..200 {
        world.create(replica_set(&format!("web-{n}"), 2)).await;
    }
    world.settle().await;
    assert_eq!(
        (world.active_pods().await.len(), world.count("create", "pods"), world.max_live_pods()),
        (400, 400, 400)
    );
}
