//! Writes name the version of the Pod in the snapshot, so that a stale snapshot causes a conflict.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request};
use serde_json::json;

use crate::world::{
    CONTROLLER_IDENTITY, NAMESPACE, REPLICA_SET_RESOURCE, TestCluster, TestClusterSetup, object_name, owner_names,
    refusal_response, replica_set,
};

/// REPLICASET-74.
#[tokio::test(start_paused = true)]
async fn a_pod_relabelled_unseen_is_not_deleted_by_a_scale_down() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 3)).await;
    world.wait_until_settled().await;
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
    // A user relabels two of the three Pods, to debug them outside of the set.
    let pods: Vec<String> = world.active_pod_names().await.into_iter().collect();
    for pod in &pods[..2] {
        world.merge_patch("pods", pod, json!({"metadata": {"labels": {"app": "debugged"}}})).await;
    }
    world.clear_logs();
    world.set_replicas("web", 0).await;
    world.wait_seconds(20).await;
    let left = world.active_pod_names().await;
    assert!(pods[..2].iter().all(|pod| left.contains(pod)), "{left:?}");
    // Conflicts do not cause a busy loop, because the next attempt waits for a newer version in the cache, or for some seconds.
    let attempts = world.request_count("delete", "pods");
    assert!((3..=11).contains(&attempts), "{attempts} attempts");
    assert!(world.conditions_of_set("web").await.is_empty(), "{:?}", world.conditions_of_set("web").await);
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "pods");
    world.wait_until_settled().await;
    assert_eq!(world.active_pod_names().await.len(), 2);
    assert_eq!(world.get_object(REPLICA_SET_RESOURCE, "web").await["status"]["replicas"], 0);
    assert!(world.event_texts().await.iter().all(|event| !event.contains("FailedDelete")));
}

/// REPLICASET-74.
#[tokio::test(start_paused = true)]
async fn a_pod_that_became_ready_unseen_is_not_deleted() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 2)).await;
    world.wait_until_settled().await;
    let pods: Vec<String> = world.active_pod_names().await.into_iter().collect();
    let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status}]});
    let report = async |pod: &str, status: &str| {
        world
            .sandbox
            .merge("pods", Some(NAMESPACE), pod, Some("status"), json!({"status": ready(status)}))
            .await
            .unwrap();
    };
    report(&pods[0], "False").await;
    world.wait_until_settled().await;
    world.sandbox.faults().delay_watch(CONTROLLER_IDENTITY, "pods", Duration::from_secs(3));
    report(&pods[0], "True").await;
    report(&pods[1], "False").await;
    world.set_replicas("web", 1).await;
    world.wait_seconds(20).await;
    assert_eq!(world.active_pod_names().await.into_iter().collect::<Vec<_>>(), pods[..1]);
}

/// REPLICASET-75.
#[tokio::test(start_paused = true)]
async fn a_pod_that_matches_again_unseen_is_not_released() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 1)).await;
    world.wait_until_settled().await;
    let pod = object_name(&world.list_pods().await[0]).to_owned();
    world.sandbox.faults().delay_watch(CONTROLLER_IDENTITY, "pods", Duration::from_secs(3));
    world.clear_logs();
    world.merge_patch("pods", &pod, json!({"metadata": {"labels": {"app": "debugged"}}})).await;
    world.wait_seconds(2).await;
    world.merge_patch("pods", &pod, json!({"metadata": {"labels": {"app": "web"}}})).await;
    world.wait_seconds(20).await;
    assert_eq!(
        (world.request_count("patch", "pods"), world.request_count("create", "pods")),
        (1, 0),
        "the release was refused"
    );
    assert_eq!(owner_names(&world.list_pods().await[0]), ["ReplicaSet web"]);
}

/// REPLICASET-79.
#[tokio::test(start_paused = true)]
async fn a_set_in_a_terminating_namespace_tries_one_creation() {
    let tries = Arc::new(AtomicUsize::new(0));
    let tried = Arc::clone(&tries);
    let filter = Arc::new(move |request: &Request<Bytes>| {
        let creates = request.method() == Method::POST && request.uri().path().ends_with("/pods");
        tried.fetch_add(usize::from(creates), Ordering::Relaxed);
        creates.then(|| {
            let causes = json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]);
            refusal_response(403, "Forbidden", "forbidden: namespace shop is being terminated", &causes)
        })
    });
    let world = TestCluster::with_setup(TestClusterSetup { filter: Some(filter), ..TestClusterSetup::default() }).await;
    for at in 0..5 {
        world.create_object(crate::world::orphan_pod(&format!("web-{at}"), "web")).await;
    }
    world.create_object(replica_set("web", 5)).await;
    world.wait_until_settled().await;
    // The namespace controller deletes one Pod after the other, and each deletion enqueues the set.
    for at in 0..5 {
        world.sandbox.delete("pods", Some(NAMESPACE), &format!("web-{at}")).await.unwrap();
        world.wait_until_settled().await;
    }
    assert_eq!(tries.load(Ordering::Relaxed), 1);
    assert!(world.conditions_of_set("web").await.is_empty());
    let told = world.loops.as_ref().unwrap().explain(Some("shop/web"))[0]["waiting"].to_string();
    assert!(told.contains("the namespace is terminating"), "{told}");
}

/// Pods in the namespace `hostile` name a set in another namespace as their controller.
/// REPLICASET-8.
#[tokio::test(start_paused = true)]
async fn pods_of_another_namespace_are_not_counted() {
    let world = TestCluster::new().await;
    world
        .sandbox
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hostile"}}))
        .await
        .unwrap();
    let web = world.create_object(replica_set("web", 2)).await;
    world.wait_until_settled().await;
    for at in 0..3 {
        let mut pod = crate::world::orphan_pod(&format!("gift-{at}"), "web");
        pod["metadata"]["namespace"] = json!("hostile");
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
            "uid": web["metadata"]["uid"], "controller": true}]);
        world.create_object(pod).await;
    }
    world.clear_logs();
    world.touch_annotation(REPLICA_SET_RESOURCE, "web").await;
    world.wait_until_settled().await;
    assert_eq!((world.active_pod_names().await.len(), world.own_writes().len()), (2, 0));
    world.set_replicas("web", 3).await;
    world.wait_until_settled().await;
    assert_eq!(world.active_pod_names().await.len(), 3);
    assert_eq!(world.sandbox.list("pods", Some("hostile")).await.unwrap().len(), 3);
}
