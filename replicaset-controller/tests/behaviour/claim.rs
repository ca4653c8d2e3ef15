//! Adoption and release of Pods.

use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{
    CONTROLLER_IDENTITY, NAMESPACE, REPLICA_SET_RESOURCE, REPLICATION_CONTROLLER_RESOURCE, TestCluster, object_name,
    orphan_pod, owner_names, replica_set, replication_controller,
};

/// REPLICASET-9, REPLICASET-11, REPLICASET-14.
#[tokio::test(start_paused = true)]
async fn a_matching_orphan_is_adopted_after_a_live_read() {
    let world = TestCluster::new().await;
    world.create_object(orphan_pod("stray", "web")).await;
    world.wait_until_settled().await;
    world.clear_logs();
    world.create_object(replica_set("web", 3)).await;
    world.wait_until_settled().await;
    assert_eq!(owner_names(&world.get_object("pods", "stray").await), ["ReplicaSet web"]);
    assert_eq!(
        (
            world.request_count("create", "pods"),
            world.request_count("patch", "pods"),
            world.request_count("get", REPLICA_SET_RESOURCE)
        ),
        (2, 1, 1)
    );
    assert_eq!(world.get_object(REPLICA_SET_RESOURCE, "web").await["status"]["replicas"], 3);
    let first = world.own_writes()[0].clone();
    assert_eq!((first.verb, &*first.name), ("patch", "stray"), "Pods are claimed first");
}

/// REPLICASET-9.
#[tokio::test(start_paused = true)]
async fn an_adopted_orphan_may_be_deleted_as_surplus() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 1)).await;
    world.wait_until_settled().await;
    world.clear_logs();
    world.create_object(orphan_pod("stray", "web")).await;
    world.wait_until_settled().await;
    assert_eq!((world.active_pod_names().await.len(), world.request_count("delete", "pods")), (1, 1));
}

/// REPLICASET-10.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_relabelled_is_released_and_replaced() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 2)).await;
    world.wait_until_settled().await;
    let pod = world.active_pod_names().await.into_iter().next().unwrap();
    let other = json!({"apiVersion": "example.com/v1", "kind": "Other", "name": "o", "uid": "11111111-1111-4111-8111-111111111111"});
    let mut owners_now =
        world.get_object("pods", &pod).await["metadata"]["ownerReferences"].as_array().cloned().unwrap();
    owners_now.push(other);
    world.clear_logs();
    world
        .merge_patch("pods", &pod, json!({"metadata": {"labels": {"app": "debug"}, "ownerReferences": owners_now}}))
        .await;
    world.wait_until_settled().await;
    let released = world.get_object("pods", &pod).await;
    assert_eq!(owner_names(&released), ["Other o"]);
    assert_eq!(released["status"]["phase"], "Running");
    assert_eq!(
        (
            world.active_pod_names().await.len(),
            world.request_count("create", "pods"),
            world.request_count("get", REPLICA_SET_RESOURCE)
        ),
        (3, 1, 0)
    );
    assert_eq!(world.get_object(REPLICA_SET_RESOURCE, "web").await["status"]["replicas"], 2);
}

/// REPLICASET-11, REPLICASET-15.
#[tokio::test(start_paused = true)]
async fn a_deleted_set_adopts_nothing() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 1)).await;
    world.wait_until_settled().await;
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "replicasets");
    world.sandbox.delete(REPLICA_SET_RESOURCE, Some(NAMESPACE), "web").await.unwrap();
    world.create_object(replica_set("web", 1)).await;
    world.clear_logs();
    world.create_object(orphan_pod("stray", "web")).await;
    world.wait_seconds(1).await;
    assert!(owner_names(&world.get_object("pods", "stray").await).is_empty());
    assert!(world.request_count("get", REPLICA_SET_RESOURCE) > 0 && world.request_count("patch", "pods") == 0);
    let told = world.loops.as_ref().unwrap().explain(Some("shop/web"));
    assert!(
        told[0]["lastError"]["error"].as_str().unwrap().starts_with(
            "cannot claim Pods: can't recheck DeletionTimestamp: original ReplicaSet shop/web is gone: got uid"
        ),
        "{told}"
    );
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "replicasets");
    world.wait_until_settled().await;
    // The new set of the same name adopts the orphan.
    assert_eq!(owner_names(&world.get_object("pods", "stray").await), ["ReplicaSet web"]);
}

/// REPLICASET-13.
#[tokio::test(start_paused = true)]
async fn a_pod_of_another_controller_is_never_touched() {
    let world = TestCluster::new().await;
    let mut taken = orphan_pod("taken", "web");
    taken["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j",
        "uid": "11111111-1111-4111-8111-111111111111", "controller": true}]);
    world.create_object(taken).await;
    world.create_object(replica_set("web", 1)).await;
    world.wait_until_settled().await;
    world.set_replicas("web", 0).await;
    world.wait_until_settled().await;
    assert_eq!(world.active_pod_names().await.into_iter().collect::<Vec<_>>(), ["taken"]);
    assert!(world.own_writes().iter().all(|w| w.name != "taken"));
}

/// REPLICASET-13.
#[tokio::test(start_paused = true)]
async fn a_finished_or_terminating_orphan_is_left_alone() {
    let world = TestCluster::new().await;
    world.create_object(orphan_pod("over", "web")).await;
    let mut going = orphan_pod("going", "web");
    going["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create_object(going).await;
    world.wait_until_settled().await;
    world
        .sandbox
        .merge("pods", Some(NAMESPACE), "over", Some("status"), json!({"status": {"phase": "Succeeded"}}))
        .await
        .unwrap();
    world.sandbox.delete("pods", Some(NAMESPACE), "going").await.unwrap();
    world.clear_logs();
    world.create_object(replica_set("web", 1)).await;
    world.wait_until_settled().await;
    assert_eq!((world.request_count("create", "pods"), world.request_count("patch", "pods")), (1, 0));
    assert_eq!(world.get_object(REPLICA_SET_RESOURCE, "web").await["status"]["terminatingReplicas"], 0);
}

/// REPLICASET-58.
#[tokio::test(start_paused = true)]
async fn a_changed_selector_of_a_replication_controller_replaces_its_pods() {
    let world = TestCluster::new().await;
    world.create_object(replication_controller("old", 2)).await;
    world.wait_until_settled().await;
    let before = world.active_pod_names().await;
    world.clear_logs();
    let spec =
        json!({"spec": {"selector": {"app": "old", "v": "2"}, "template": {"metadata": {"labels": {"v": "2"}}}}});
    world.merge_patch(REPLICATION_CONTROLLER_RESOURCE, "old", spec).await;
    world.wait_until_settled().await;
    for pod in &before {
        assert!(owner_names(&world.get_object("pods", pod).await).is_empty());
    }
    assert_eq!(
        (
            world.request_count("patch", "pods"),
            world.request_count("create", "pods"),
            world.active_pod_names().await.len()
        ),
        (2, 2, 4)
    );
}

/// REPLICASET-16.
#[tokio::test(start_paused = true)]
async fn each_of_many_orphans_is_adopted_by_one_set() {
    let world = TestCluster::new().await;
    for n in 0..20 {
        world.create_object(orphan_pod(&format!("stray-{n:02}"), "web")).await;
    }
    world.create_object(replica_set("web", 20)).await;
    world.create_object(replication_controller("web", 20)).await;
    world.wait_until_settled().await;
    let pods = world.list_pods().await;
    assert!(pods.iter().all(|p| owner_names(p).len() == 1), "{:?}", pods.iter().map(object_name).collect::<Vec<_>>());
    let of = |kind: &str| pods.iter().filter(|p| owner_names(p)[0] == format!("{kind} web")).count();
    assert_eq!((of("ReplicaSet"), of("ReplicationController")), (20, 20));
    assert_eq!(world.request_count("create", "pods"), 20);
}

/// REPLICASET-14, REPLICASET-82.
#[tokio::test(start_paused = true)]
async fn denied_adoptions_are_reported_in_one_event_per_sync() {
    let world = TestCluster::new().await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::Forbidden).identity(CONTROLLER_IDENTITY).verb("patch").resource("pods"));
    for name in ["a", "b", "c"] {
        world.create_object(orphan_pod(name, "web")).await;
    }
    world.wait_until_settled().await;
    world.clear_logs();
    world.create_object(replica_set("web", 3)).await;
    world.wait_seconds(60).await;
    let syncs = world.request_count("get", REPLICA_SET_RESOURCE);
    assert_eq!(world.request_count("patch", "pods"), 3 * syncs);
    assert!((4..=14).contains(&syncs), "it backs off: {syncs}");
    let events = world.sandbox.list("events", Some(NAMESPACE)).await.unwrap();
    let told: Vec<_> = events.iter().filter(|event| event["reason"] == "FailedUpdate").collect();
    let [event] = told[..] else { panic!("{events:#?}") };
    let message = event["message"].as_str().unwrap();
    assert!(message.starts_with("Error: cannot adopt Pod shop/") && message.contains("is forbidden: "), "{message}");
    assert!(message.ends_with(" (and 2 more)"), "{message}");
    assert_eq!((&event["type"], &event["involvedObject"]["name"]), (&json!("Warning"), &json!("web")));
    assert_eq!(event["count"].as_u64(), Some(syncs));
    world.sandbox.faults().clear();
    world.wait_seconds(120).await;
    assert_eq!(owner_names(&world.get_object("pods", "a").await), ["ReplicaSet web"]);
}
