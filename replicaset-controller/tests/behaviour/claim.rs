//! Adoption and release of Pods.

use crate::world::*;

/// REPLICASET-9, REPLICASET-11, REPLICASET-14.
#[tokio::test(start_paused = true)]
async fn a_matching_orphan_is_adopted_after_a_live_read() {
    let world = cluster().settled(orphan_pod("stray", "web")).await;
    world.clear_log();
    world.create_and_settle(web(3)).await;
    assert_eq!(owners(&world.get("pods", "stray").await), ["ReplicaSet web"]);
    assert_eq!((world.count("create", "pods"), world.count("patch", "pods"), world.count("get", SETS)), (2, 1, 1));
    assert_eq!(world.status().await["replicas"], 3);
    let first = world.own_writes()[0].clone();
    assert_eq!((first.verb, &*first.name), ("patch", "stray"), "Pods are claimed first");
}

/// REPLICASET-9.
#[tokio::test(start_paused = true)]
async fn an_adopted_orphan_may_be_deleted_as_surplus() {
    let world = cluster().settled(web(1)).await;
    world.clear_log();
    world.create_and_settle(orphan_pod("stray", "web")).await;
    assert_eq!((world.active_pods().await.len(), world.count("delete", "pods")), (1, 1));
}

/// REPLICASET-10.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_relabelled_is_released_and_replaced() {
    let world = cluster().settled(web(2)).await;
    let pod = world.first_active_pod().await;
    let other = json!({"apiVersion": "example.com/v1", "kind": "Other", "name": "o", "uid": "11111111-1111-4111-8111-111111111111"});
    let mut owners_now = world.get("pods", &pod).await["metadata"]["ownerReferences"].as_array().cloned().unwrap();
    owners_now.push(other);
    world.clear_log();
    world
        .patch_and_settle(
            "pods",
            &pod,
            json!({"metadata": {"labels": {"app": "debug"}, "ownerReferences": owners_now}}),
        )
        .await;
    let released = world.get("pods", &pod).await;
    assert_eq!(owners(&released), ["Other o"]);
    assert_eq!(released["status"]["phase"], "Running");
    assert_eq!((world.active_pods().await.len(), world.count("create", "pods"), world.count("get", SETS)), (3, 1, 0));
    assert_eq!(world.status().await["replicas"], 2);
}

/// REPLICASET-11, REPLICASET-15.
#[tokio::test(start_paused = true)]
async fn a_deleted_set_adopts_nothing() {
    let world = cluster().settled(web(1)).await;
    world.hold("replicasets");
    world.delete(SETS, "web").await;
    world.create(web(1)).await;
    world.clear_log();
    world.create(orphan_pod("stray", "web")).await;
    world.wait(1).await;
    assert!(owners(&world.get("pods", "stray").await).is_empty());
    assert!(world.count("get", SETS) > 0 && world.count("patch", "pods") == 0);
    let told = world.loops().explain(Some("shop/web"));
    assert!(
        told[0]["lastError"]["error"].as_str().unwrap().starts_with(
            "cannot claim Pods: can't recheck DeletionTimestamp: original ReplicaSet shop/web is gone: got uid"
        ),
        "{told}"
    );
    world.release("replicasets");
    world.settle().await;
    // The new set of the same name adopts the orphan.
    assert_eq!(owners(&world.get("pods", "stray").await), ["ReplicaSet web"]);
}

/// REPLICASET-13.
#[tokio::test(start_paused = true)]
async fn a_pod_of_another_controller_is_never_touched() {
    let world = cluster().start().await;
    world
        .create(merged(
            orphan_pod("taken", "web"),
            json!({"metadata": {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j",
        "uid": "11111111-1111-4111-8111-111111111111", "controller": true}]}}),
        ))
        .await;
    world.create_and_settle(web(1)).await;
    world.change_and_settle(json!({"replicas": 0})).await;
    assert_eq!(world.active_pods().await.into_iter().collect::<Vec<_>>(), ["taken"]);
    assert!(world.own_writes().iter().all(|w| w.name != "taken"));
}

/// REPLICASET-13.
#[tokio::test(start_paused = true)]
async fn a_finished_or_terminating_orphan_is_left_alone() {
    let world = cluster().start().await;
    world.create(orphan_pod("over", "web")).await;
    world
        .create_and_settle(merged(
            orphan_pod("going", "web"),
            json!({"metadata": {"finalizers": ["example.com/hold"]}}),
        ))
        .await;
    world.patch_pod_status("over", json!({"phase": "Succeeded"})).await;
    world.delete("pods", "going").await;
    world.clear_log();
    world.create_and_settle(web(1)).await;
    assert_eq!((world.count("create", "pods"), world.count("patch", "pods")), (1, 0));
    assert_eq!(world.status().await["terminatingReplicas"], 0);
}

/// REPLICASET-58.
#[tokio::test(start_paused = true)]
async fn a_changed_selector_of_a_replication_controller_replaces_its_pods() {
    let world = cluster().settled(replication_controller("old", 2)).await;
    let before = world.active_pods().await;
    world.clear_log();
    let spec =
        json!({"spec": {"selector": {"app": "old", "v": "2"}, "template": {"metadata": {"labels": {"v": "2"}}}}});
    world.patch_and_settle(REPLICATION_CONTROLLERS, "old", spec).await;
    for pod in &before {
        assert!(owners(&world.get("pods", pod).await).is_empty());
    }
    assert_eq!(
        (world.count("patch", "pods"), world.count("create", "pods"), world.active_pods().await.len()),
        (2, 2, 4)
    );
}

/// REPLICASET-16.
#[tokio::test(start_paused = true)]
async fn each_of_many_orphans_is_adopted_by_one_set() {
    let world = cluster().start().await;
    for n in 0..20 {
        world.create(orphan_pod(&format!("stray-{n:02}"), "web")).await;
    }
    world.create(web(20)).await;
    world.create_and_settle(replication_controller("web", 20)).await;
    let pods = world.pods().await;
    assert!(pods.iter().all(|p| owners(p).len() == 1), "{:?}", pods.iter().map(name).collect::<Vec<_>>());
    let of = |kind: &str| pods.iter().filter(|p| owners(p)[0] == format!("{kind} web")).count();
    assert_eq!((of("ReplicaSet"), of("ReplicationController")), (20, 20));
    assert_eq!(world.count("create", "pods"), 20);
}

/// REPLICASET-14, REPLICASET-82.
#[tokio::test(start_paused = true)]
async fn denied_adoptions_are_reported_in_one_event_per_sync() {
    let world = cluster().start().await;
    world.fault(rule(Action::Forbidden, "patch", "pods"));
    for name in ["a", "b", "c"] {
        world.create(orphan_pod(name, "web")).await;
    }
    world.settle().await;
    world.clear_log();
    world.create(web(3)).await;
    world.wait(60).await;
    let syncs = world.count("get", SETS);
    assert_eq!(world.count("patch", "pods"), 3 * syncs);
    assert!((4..=14).contains(&syncs), "it backs off: {syncs}");
    let events = world.list("events").await;
    let told: Vec<_> = events.iter().filter(|event| event["reason"] == "FailedUpdate").collect();
    let [event] = told[..] else { panic!("{events:#?}") };
    let message = event["message"].as_str().unwrap();
    assert!(message.starts_with("Error: cannot adopt Pod shop/") && message.contains("is forbidden: "), "{message}");
    assert!(message.ends_with(" (and 2 more)"), "{message}");
    assert_eq!((&event["type"], &event["involvedObject"]["name"]), (&json!("Warning"), &json!("web")));
    assert_eq!(event["count"].as_u64(), Some(syncs));
    world.clear_faults();
    world.wait(120).await;
    assert_eq!(owners(&world.get("pods", "a").await), ["ReplicaSet web"]);
}
