//! Creation and deletion of Pods until `spec.replicas` is reached.

use std::sync::Arc;

use common::settings::{OperatorSettings, TunableValue};
use sandbox::Sandbox;
use serde_json::json;

use crate::world::{
    NAMESPACE, REPLICA_SET_RESOURCE, REPLICATION_CONTROLLER_RESOURCE, TestCluster, TestClusterSetup, object_name,
    owner_names, replica_set, replication_controller,
};

/// REPLICASET-19, REPLICASET-22, REPLICASET-30.
#[tokio::test(start_paused = true)]
async fn missing_pods_are_created_with_one_request_each() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 7)).await;
    world.wait_until_settled().await;
    let pods = world.list_pods().await;
    assert_eq!(pods.len(), 7);
    let owner = world.get_object(REPLICA_SET_RESOURCE, "web").await;
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
    assert_eq!((world.request_count("create", "pods"), world.request_count("get", "pods")), (7, 0));
    assert_eq!(
        (
            world.request_count("get", REPLICA_SET_RESOURCE),
            world.request_count("delete", "pods"),
            world.request_count("patch", "pods")
        ),
        (0, 0, 0)
    );
    assert_eq!(
        owner["status"],
        json!({"replicas": 7, "fullyLabeledReplicas": 7, "readyReplicas": 7, "availableReplicas": 7,
            "terminatingReplicas": 0, "observedGeneration": 1})
    );
    let mut notes: Vec<String> =
        pods.iter().map(|p| format!("Normal SuccessfulCreate Created pod: {}", object_name(p))).collect();
    notes.sort();
    assert_eq!(world.event_texts().await, notes);
}

/// REPLICASET-35.
#[tokio::test(start_paused = true)]
async fn a_large_set_costs_one_creation_per_pod_and_few_status_writes() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 300)).await;
    world.wait_until_settled().await;
    assert_eq!(world.active_pod_names().await.len(), 300);
    assert_eq!(world.request_count("create", "pods"), 300);
    assert_eq!(world.request_count("get", "pods") + world.request_count("get", REPLICA_SET_RESOURCE), 0);
    assert!(world.request_count("patch", "replicasets.apps/status") <= 300, "{:?}", world.sandbox.requests().all());
}

/// REPLICASET-29.
#[tokio::test(start_paused = true)]
async fn a_set_is_scaled_by_exactly_the_difference() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 10)).await;
    world.wait_until_settled().await;
    let before = world.active_pod_names().await;
    world.clear_logs();
    world.set_replicas("web", 4).await;
    world.wait_until_settled().await;
    assert_eq!(world.request_count("delete", "pods"), 6);
    let after = world.active_pod_names().await;
    assert!(after.len() == 4 && after.is_subset(&before));
    let status = world.get_object(REPLICA_SET_RESOURCE, "web").await["status"].clone();
    assert_eq!(
        (&status["replicas"], &status["terminatingReplicas"], &status["observedGeneration"]),
        (&json!(4), &json!(0), &json!(2))
    );
    let deleted =
        world.event_texts().await.iter().filter(|e| e.starts_with("Normal SuccessfulDelete Deleted pod: web-")).count();
    assert_eq!(deleted, 6);
    world.set_replicas("web", 6).await;
    world.wait_until_settled().await;
    assert_eq!((world.request_count("create", "pods"), world.active_pod_names().await.len()), (2, 6));
    world.set_replicas("web", 0).await;
    world.wait_until_settled().await;
    assert_eq!(world.list_pods().await.len(), 0);
    let status = world.get_object(REPLICA_SET_RESOURCE, "web").await["status"].clone();
    assert_eq!(status, json!({"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 4}));
}

/// REPLICASET-17, REPLICASET-32.
#[tokio::test(start_paused = true)]
async fn no_sync_exceeds_the_burst() {
    let settings = OperatorSettings::new().with_tunable("burst-replicas", TunableValue::Count(5));
    let world = TestCluster::with_setup(TestClusterSetup { settings, ..TestClusterSetup::default() }).await;
    world.create_object(replica_set("web", 12)).await;
    world.wait_until_settled().await;
    assert_eq!((world.request_count("create", "pods"), world.max_live_pod_count()), (12, 12));
    // A sync writes the status after each burst, so that the log of writes shows the sizes after 5 and 10 creations.
    let sizes: Vec<i64> = world
        .own_writes()
        .iter()
        .filter_map(|w| w.after().filter(|_| w.resource == "replicasets")?["status"]["replicas"].as_i64())
        .collect();
    for size in [0, 5, 10, 12] {
        assert!(sizes.contains(&size), "{sizes:?}");
    }
    world.set_replicas("web", 0).await;
    world.wait_until_settled().await;
    assert_eq!((world.request_count("delete", "pods"), world.list_pods().await.len()), (12, 0));
}

/// REPLICASET-59.
#[tokio::test(start_paused = true)]
async fn a_replication_controller_creates_and_deletes_pods() {
    let world = TestCluster::new().await;
    world.create_object(replication_controller("old", 3)).await;
    world.wait_until_settled().await;
    let pods = world.list_pods().await;
    assert_eq!(pods.iter().map(owner_names).collect::<Vec<_>>(), vec![vec!["ReplicationController old".to_owned()]; 3]);
    assert_eq!(pods[0]["metadata"]["ownerReferences"][0]["apiVersion"], "v1");
    assert_eq!(world.request_count("create", "pods"), 3);
    assert_eq!(
        world.get_object(REPLICATION_CONTROLLER_RESOURCE, "old").await["status"],
        json!({"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3, "observedGeneration": 1})
    );
    let events = world.sandbox.list("events", Some(NAMESPACE)).await.unwrap();
    assert!(events.iter().all(|e| e["source"]["component"] == "replication-controller"));
    assert!(events.iter().all(|e| e["involvedObject"]["kind"] == "ReplicationController"));
    world.merge_patch(REPLICATION_CONTROLLER_RESOURCE, "old", json!({"spec": {"replicas": 1}})).await;
    world.wait_until_settled().await;
    assert_eq!((world.active_pod_names().await.len(), world.request_count("delete", "pods")), (1, 2));
}

/// REPLICASET-61.
#[tokio::test(start_paused = true)]
async fn sets_of_both_kinds_may_have_the_same_name() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 2)).await;
    world.create_object(replication_controller("web", 3)).await;
    world.wait_until_settled().await;
    let of = |kind: &str, pods: &[serde_json::Value]| {
        pods.iter().filter(|p| owner_names(p) == [format!("{kind} web")]).count()
    };
    let pods = world.list_pods().await;
    assert_eq!((of("ReplicaSet", &pods), of("ReplicationController", &pods), pods.len()), (2, 3, 5));
}

/// REPLICASET-19.
#[tokio::test(start_paused = true)]
async fn an_unknown_field_is_copied_to_the_pods() {
    let builder = Sandbox::builder().keep_unknown_fields(true);
    let world = TestCluster::with_setup(TestClusterSetup { builder, ..TestClusterSetup::default() }).await;
    let mut web = replica_set("web", 1);
    web["spec"]["template"]["spec"]["fromTheFuture"] = json!({"deep": [1, {"x": true}]});
    web["spec"]["template"]["spec"]["containers"][0]["alsoNew"] = json!(3);
    world.create_object(web).await;
    world.wait_until_settled().await;
    let spec = &world.list_pods().await[0]["spec"];
    assert_eq!(spec["fromTheFuture"], json!({"deep": [1, {"x": true}]}));
    assert_eq!(spec["containers"][0]["alsoNew"], 3);
}

/// REPLICASET-20.
#[tokio::test(start_paused = true)]
async fn a_finished_or_deleted_pod_is_replaced() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 3)).await;
    world.wait_until_settled().await;
    let names: Vec<String> = world.active_pod_names().await.into_iter().collect();
    world.sandbox.delete("pods", Some(NAMESPACE), &names[0]).await.unwrap();
    world.wait_until_settled().await;
    assert_eq!(world.active_pod_names().await.len(), 3);
    world
        .sandbox
        .merge("pods", Some(NAMESPACE), &names[1], Some("status"), json!({"status": {"phase": "Failed"}}))
        .await
        .unwrap();
    world.wait_until_settled().await;
    assert_eq!(world.active_pod_names().await.len(), 3);
    // The failed Pod is left to the garbage collector of Pods.
    assert_eq!(world.list_pods().await.len(), 4);
    assert_eq!(owner_names(&world.get_object("pods", &names[1]).await), ["ReplicaSet web"]);
}

/// REPLICASET-21.
#[tokio::test(start_paused = true)]
async fn a_set_that_is_being_deleted_gets_a_status_and_no_pods() {
    let world = TestCluster::new().await;
    let mut web = replica_set("web", 3);
    web["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create_object(web).await;
    world.wait_until_settled().await;
    world.sandbox.delete(REPLICA_SET_RESOURCE, Some(NAMESPACE), "web").await.unwrap();
    let first = world.active_pod_names().await.into_iter().next().unwrap();
    world.sandbox.delete("pods", Some(NAMESPACE), &first).await.unwrap();
    world.wait_until_settled().await;
    assert_eq!(world.active_pod_names().await.len(), 2);
    assert_eq!(world.get_object(REPLICA_SET_RESOURCE, "web").await["status"]["replicas"], 2);
}

/// REPLICASET-23, REPLICASET-71.
#[tokio::test(start_paused = true)]
async fn unready_pods_are_deleted_first() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 3)).await;
    world.wait_until_settled().await;
    let mut names: Vec<String> = world.active_pod_names().await.into_iter().collect();
    let unready = names.remove(1);
    let condition = json!([{"type": "Ready", "status": "False", "lastTransitionTime": world.clock.now().to_string()}]);
    world
        .sandbox
        .merge("pods", Some(NAMESPACE), &unready, Some("status"), json!({"status": {"conditions": condition}}))
        .await
        .unwrap();
    world.set_replicas("web", 2).await;
    world.wait_until_settled().await;
    assert_eq!(world.active_pod_names().await.into_iter().collect::<Vec<_>>(), names);
    let text = world.loops.as_ref().map(|l| l.metrics().render_prometheus()).unwrap();
    // The deleted Pod was not ready, so no age ratio is recorded.
    assert!(text.contains("replicaset_controller_sorting_deletion_age_ratio_count 0"), "{text}");
}

/// REPLICASET-55.
#[tokio::test(start_paused = true)]
async fn shadow_mode_decides_and_writes_nothing() {
    let world = TestCluster::with_setup(TestClusterSetup {
        settings: OperatorSettings::new().with_shadow_mode(true),
        ..TestClusterSetup::default()
    })
    .await;
    world.create_object(replica_set("web", 3)).await;
    world.wait_until_settled().await;
    assert!(world.own_writes().is_empty());
    let told = world.loops.as_ref().unwrap().explain(Some("shop/web"));
    assert_eq!(told[0]["actions"], json!(["create 3 Pods", "write the status"]));
}

/// REPLICASET-57.
#[tokio::test(start_paused = true)]
async fn two_hundred_sets_get_their_pods_concurrently() {
    let world = TestCluster::new().await;
    let world = Arc::new(world);
    for n in 0..200 {
        world.create_object(replica_set(&format!("web-{n}"), 2)).await;
    }
    world.wait_until_settled().await;
    assert_eq!(
        (world.active_pod_names().await.len(), world.request_count("create", "pods"), world.max_live_pod_count()),
        (400, 400, 400)
    );
}
