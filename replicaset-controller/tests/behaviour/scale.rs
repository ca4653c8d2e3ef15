//! Creation and deletion of Pods until `spec.replicas` is reached.

use std::sync::Arc;

use common::settings::{Settings, TuneValue};
use sandbox::Sandbox;
use serde_json::json;

use crate::world::{NS, RCS, SETS, Setup, World, name, owners, rc, set};

/// REPLICASET-19, REPLICASET-22, REPLICASET-30.
#[tokio::test(start_paused = true)]
async fn missing_pods_are_created_with_one_request_each() {
    let world = World::new().await;
    world.apply(set("web", 7)).await;
    world.settle().await;
    let pods = world.pods().await;
    assert_eq!(pods.len(), 7);
    let owner = world.get(SETS, "web").await;
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
    assert_eq!((world.asked("create", "pods"), world.asked("get", "pods")), (7, 0));
    assert_eq!((world.asked("get", SETS), world.asked("delete", "pods"), world.asked("patch", "pods")), (0, 0, 0));
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
    let world = World::new().await;
    world.apply(set("web", 300)).await;
    world.settle().await;
    assert_eq!(world.active().await.len(), 300);
    assert_eq!(world.asked("create", "pods"), 300);
    assert_eq!(world.asked("get", "pods") + world.asked("get", SETS), 0);
    assert!(world.asked("patch", "replicasets.apps/status") <= 300, "{:?}", world.sandbox.requests().all());
}

/// REPLICASET-29.
#[tokio::test(start_paused = true)]
async fn a_set_is_scaled_by_exactly_the_difference() {
    let world = World::new().await;
    world.apply(set("web", 10)).await;
    world.settle().await;
    let before = world.active().await;
    world.forget();
    world.scale("web", 4).await;
    world.settle().await;
    assert_eq!(world.asked("delete", "pods"), 6);
    let after = world.active().await;
    assert!(after.len() == 4 && after.is_subset(&before));
    let status = world.get(SETS, "web").await["status"].clone();
    assert_eq!(
        (&status["replicas"], &status["terminatingReplicas"], &status["observedGeneration"]),
        (&json!(4), &json!(0), &json!(2))
    );
    let deleted =
        world.events().await.iter().filter(|e| e.starts_with("Normal SuccessfulDelete Deleted pod: web-")).count();
    assert_eq!(deleted, 6);
    world.scale("web", 6).await;
    world.settle().await;
    assert_eq!((world.asked("create", "pods"), world.active().await.len()), (2, 6));
    world.scale("web", 0).await;
    world.settle().await;
    assert_eq!(world.pods().await.len(), 0);
    let status = world.get(SETS, "web").await["status"].clone();
    assert_eq!(status, json!({"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 4}));
}

/// REPLICASET-17, REPLICASET-32.
#[tokio::test(start_paused = true)]
async fn no_sync_exceeds_the_burst() {
    let settings = Settings::new().with_tune("burst-replicas", TuneValue::Count(5));
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    world.apply(set("web", 12)).await;
    world.settle().await;
    assert_eq!((world.asked("create", "pods"), world.peak()), (12, 12));
    // A sync writes the status after each burst, so that the log of writes shows the sizes after 5 and 10 creations.
    let sizes: Vec<i64> = world
        .written()
        .iter()
        .filter_map(|w| w.after().filter(|_| w.resource == "replicasets")?["status"]["replicas"].as_i64())
        .collect();
    for size in [0, 5, 10, 12] {
        assert!(sizes.contains(&size), "{sizes:?}");
    }
    world.scale("web", 0).await;
    world.settle().await;
    assert_eq!((world.asked("delete", "pods"), world.pods().await.len()), (12, 0));
}

/// REPLICASET-59.
#[tokio::test(start_paused = true)]
async fn a_replication_controller_creates_and_deletes_pods() {
    let world = World::new().await;
    world.apply(rc("old", 3)).await;
    world.settle().await;
    let pods = world.pods().await;
    assert_eq!(pods.iter().map(owners).collect::<Vec<_>>(), vec![vec!["ReplicationController old".to_owned()]; 3]);
    assert_eq!(pods[0]["metadata"]["ownerReferences"][0]["apiVersion"], "v1");
    assert_eq!(world.asked("create", "pods"), 3);
    assert_eq!(
        world.get(RCS, "old").await["status"],
        json!({"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3, "observedGeneration": 1})
    );
    let events = world.sandbox.list("events", Some(NS)).await.unwrap();
    assert!(events.iter().all(|e| e["source"]["component"] == "replication-controller"));
    assert!(events.iter().all(|e| e["involvedObject"]["kind"] == "ReplicationController"));
    world.merge(RCS, "old", json!({"spec": {"replicas": 1}})).await;
    world.settle().await;
    assert_eq!((world.active().await.len(), world.asked("delete", "pods")), (1, 2));
}

/// REPLICASET-61.
#[tokio::test(start_paused = true)]
async fn sets_of_both_kinds_may_have_the_same_name() {
    let world = World::new().await;
    world.apply(set("web", 2)).await;
    world.apply(rc("web", 3)).await;
    world.settle().await;
    let of =
        |kind: &str, pods: &[serde_json::Value]| pods.iter().filter(|p| owners(p) == [format!("{kind} web")]).count();
    let pods = world.pods().await;
    assert_eq!((of("ReplicaSet", &pods), of("ReplicationController", &pods), pods.len()), (2, 3, 5));
}

/// REPLICASET-19.
#[tokio::test(start_paused = true)]
async fn an_unknown_field_is_copied_to_the_pods() {
    let builder = Sandbox::builder().keep_unknown_fields(true);
    let world = World::with(Setup { builder, ..Setup::default() }).await;
    let mut web = set("web", 1);
    web["spec"]["template"]["spec"]["fromTheFuture"] = json!({"deep": [1, {"x": true}]});
    web["spec"]["template"]["spec"]["containers"][0]["alsoNew"] = json!(3);
    world.apply(web).await;
    world.settle().await;
    let spec = &world.pods().await[0]["spec"];
    assert_eq!(spec["fromTheFuture"], json!({"deep": [1, {"x": true}]}));
    assert_eq!(spec["containers"][0]["alsoNew"], 3);
}

/// REPLICASET-20.
#[tokio::test(start_paused = true)]
async fn a_finished_or_deleted_pod_is_replaced() {
    let world = World::new().await;
    world.apply(set("web", 3)).await;
    world.settle().await;
    let names: Vec<String> = world.active().await.into_iter().collect();
    world.sandbox.delete("pods", Some(NS), &names[0]).await.unwrap();
    world.settle().await;
    assert_eq!(world.active().await.len(), 3);
    world
        .sandbox
        .merge("pods", Some(NS), &names[1], Some("status"), json!({"status": {"phase": "Failed"}}))
        .await
        .unwrap();
    world.settle().await;
    assert_eq!(world.active().await.len(), 3);
    // The failed Pod is left to the garbage collector of Pods.
    assert_eq!(world.pods().await.len(), 4);
    assert_eq!(owners(&world.get("pods", &names[1]).await), ["ReplicaSet web"]);
}

/// REPLICASET-21.
#[tokio::test(start_paused = true)]
async fn a_set_that_is_being_deleted_gets_a_status_and_no_pods() {
    let world = World::new().await;
    let mut web = set("web", 3);
    web["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.apply(web).await;
    world.settle().await;
    world.sandbox.delete(SETS, Some(NS), "web").await.unwrap();
    let first = world.active().await.into_iter().next().unwrap();
    world.sandbox.delete("pods", Some(NS), &first).await.unwrap();
    world.settle().await;
    assert_eq!(world.active().await.len(), 2);
    assert_eq!(world.get(SETS, "web").await["status"]["replicas"], 2);
}

/// REPLICASET-23, REPLICASET-71.
#[tokio::test(start_paused = true)]
async fn unready_pods_are_deleted_first() {
    let world = World::new().await;
    world.apply(set("web", 3)).await;
    world.settle().await;
    let mut names: Vec<String> = world.active().await.into_iter().collect();
    let unready = names.remove(1);
    let condition = json!([{"type": "Ready", "status": "False", "lastTransitionTime": world.clock.now().to_string()}]);
    world
        .sandbox
        .merge("pods", Some(NS), &unready, Some("status"), json!({"status": {"conditions": condition}}))
        .await
        .unwrap();
    world.scale("web", 2).await;
    world.settle().await;
    assert_eq!(world.active().await.into_iter().collect::<Vec<_>>(), names);
    let text = world.loops.as_ref().map(|l| l.metrics().prometheus()).unwrap();
    // The deleted Pod was not ready, so no age ratio is recorded.
    assert!(text.contains("replicaset_controller_sorting_deletion_age_ratio_count 0"), "{text}");
}

/// REPLICASET-55.
#[tokio::test(start_paused = true)]
async fn shadow_mode_decides_and_writes_nothing() {
    let world = World::with(Setup { settings: Settings::new().with_shadow(true), ..Setup::default() }).await;
    world.apply(set("web", 3)).await;
    world.settle().await;
    assert!(world.written().is_empty());
    let told = world.loops.as_ref().unwrap().explain(Some("shop/web"));
    assert_eq!(told[0]["actions"], json!(["create 3 Pods", "write the status"]));
}

/// REPLICASET-57.
#[tokio::test(start_paused = true)]
async fn two_hundred_sets_get_their_pods_concurrently() {
    let world = World::new().await;
    let world = Arc::new(world);
    for n in 0..200 {
        world.apply(set(&format!("web-{n}"), 2)).await;
    }
    world.settle().await;
    assert_eq!((world.active().await.len(), world.asked("create", "pods"), world.peak()), (400, 400, 400));
}
