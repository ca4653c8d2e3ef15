//! Adoption and release of Pods.

use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{ME, NS, RCS, SETS, World, name, owners, rc, set, stray};

/// REPLICASET-9, REPLICASET-11, REPLICASET-14.
#[tokio::test(start_paused = true)]
async fn a_matching_orphan_is_adopted_after_a_live_read() {
    let world = World::new().await;
    world.apply(stray("stray", "web")).await;
    world.settle().await;
    world.forget();
    world.apply(set("web", 3)).await;
    world.settle().await;
    assert_eq!(owners(&world.get("pods", "stray").await), ["ReplicaSet web"]);
    assert_eq!((world.asked("create", "pods"), world.asked("patch", "pods"), world.asked("get", SETS)), (2, 1, 1));
    assert_eq!(world.get(SETS, "web").await["status"]["replicas"], 3);
    let first = world.written()[0].clone();
    assert_eq!((first.verb, &*first.name), ("patch", "stray"), "Pods are claimed first");
}

/// REPLICASET-9.
#[tokio::test(start_paused = true)]
async fn an_adopted_orphan_may_be_deleted_as_surplus() {
    let world = World::new().await;
    world.apply(set("web", 1)).await;
    world.settle().await;
    world.forget();
    world.apply(stray("stray", "web")).await;
    world.settle().await;
    assert_eq!((world.active().await.len(), world.asked("delete", "pods")), (1, 1));
}

/// REPLICASET-10.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_relabelled_is_released_and_replaced() {
    let world = World::new().await;
    world.apply(set("web", 2)).await;
    world.settle().await;
    let pod = world.active().await.into_iter().next().unwrap();
    let other = json!({"apiVersion": "example.com/v1", "kind": "Other", "name": "o", "uid": "11111111-1111-4111-8111-111111111111"});
    let mut owners_now = world.get("pods", &pod).await["metadata"]["ownerReferences"].as_array().cloned().unwrap();
    owners_now.push(other);
    world.forget();
    world.merge("pods", &pod, json!({"metadata": {"labels": {"app": "debug"}, "ownerReferences": owners_now}})).await;
    world.settle().await;
    let released = world.get("pods", &pod).await;
    assert_eq!(owners(&released), ["Other o"]);
    assert_eq!(released["status"]["phase"], "Running");
    assert_eq!((world.active().await.len(), world.asked("create", "pods"), world.asked("get", SETS)), (3, 1, 0));
    assert_eq!(world.get(SETS, "web").await["status"]["replicas"], 2);
}

/// REPLICASET-11, REPLICASET-15.
#[tokio::test(start_paused = true)]
async fn a_deleted_set_adopts_nothing() {
    let world = World::new().await;
    world.apply(set("web", 1)).await;
    world.settle().await;
    world.sandbox.faults().hold_watch(ME, "replicasets");
    world.sandbox.delete(SETS, Some(NS), "web").await.unwrap();
    world.apply(set("web", 1)).await;
    world.forget();
    world.apply(stray("stray", "web")).await;
    world.wait(1).await;
    assert!(owners(&world.get("pods", "stray").await).is_empty());
    assert!(world.asked("get", SETS) > 0 && world.asked("patch", "pods") == 0);
    let told = world.loops.as_ref().unwrap().explain(Some("shop/web"));
    assert!(
        told[0]["lastError"]["error"].as_str().unwrap().starts_with(
            "cannot claim Pods: can't recheck DeletionTimestamp: original ReplicaSet shop/web is gone: got uid"
        ),
        "{told}"
    );
    world.sandbox.faults().release_watch(ME, "replicasets");
    world.settle().await;
    // The new set of the same name adopts the orphan.
    assert_eq!(owners(&world.get("pods", "stray").await), ["ReplicaSet web"]);
}

/// REPLICASET-13.
#[tokio::test(start_paused = true)]
async fn a_pod_of_another_controller_is_never_touched() {
    let world = World::new().await;
    let mut taken = stray("taken", "web");
    taken["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j",
        "uid": "11111111-1111-4111-8111-111111111111", "controller": true}]);
    world.apply(taken).await;
    world.apply(set("web", 1)).await;
    world.settle().await;
    world.scale("web", 0).await;
    world.settle().await;
    assert_eq!(world.active().await.into_iter().collect::<Vec<_>>(), ["taken"]);
    assert!(world.written().iter().all(|w| w.name != "taken"));
}

/// REPLICASET-13.
#[tokio::test(start_paused = true)]
async fn a_finished_or_terminating_orphan_is_left_alone() {
    let world = World::new().await;
    world.apply(stray("over", "web")).await;
    let mut going = stray("going", "web");
    going["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.apply(going).await;
    world.settle().await;
    world
        .sandbox
        .merge("pods", Some(NS), "over", Some("status"), json!({"status": {"phase": "Succeeded"}}))
        .await
        .unwrap();
    world.sandbox.delete("pods", Some(NS), "going").await.unwrap();
    world.forget();
    world.apply(set("web", 1)).await;
    world.settle().await;
    assert_eq!((world.asked("create", "pods"), world.asked("patch", "pods")), (1, 0));
    assert_eq!(world.get(SETS, "web").await["status"]["terminatingReplicas"], 0);
}

/// REPLICASET-58.
#[tokio::test(start_paused = true)]
async fn a_changed_selector_of_a_replication_controller_replaces_its_pods() {
    let world = World::new().await;
    world.apply(rc("old", 2)).await;
    world.settle().await;
    let before = world.active().await;
    world.forget();
    let spec =
        json!({"spec": {"selector": {"app": "old", "v": "2"}, "template": {"metadata": {"labels": {"v": "2"}}}}});
    world.merge(RCS, "old", spec).await;
    world.settle().await;
    for pod in &before {
        assert!(owners(&world.get("pods", pod).await).is_empty());
    }
    assert_eq!((world.asked("patch", "pods"), world.asked("create", "pods"), world.active().await.len()), (2, 2, 4));
}

/// REPLICASET-16.
#[tokio::test(start_paused = true)]
async fn each_of_many_orphans_is_adopted_by_one_set() {
    let world = World::new().await;
    for n in 0..20 {
        world.apply(stray(&format!("stray-{n:02}"), "web")).await;
    }
    world.apply(set("web", 20)).await;
    world.apply(rc("web", 20)).await;
    world.settle().await;
    let pods = world.pods().await;
    assert!(pods.iter().all(|p| owners(p).len() == 1), "{:?}", pods.iter().map(name).collect::<Vec<_>>());
    let of = |kind: &str| pods.iter().filter(|p| owners(p)[0] == format!("{kind} web")).count();
    assert_eq!((of("ReplicaSet"), of("ReplicationController")), (20, 20));
    assert_eq!(world.asked("create", "pods"), 20);
}

/// REPLICASET-14, REPLICASET-82.
#[tokio::test(start_paused = true)]
async fn denied_adoptions_are_reported_in_one_event_per_sync() {
    let world = World::new().await;
    world.sandbox.faults().add(Rule::new(Action::Forbidden).identity(ME).verb("patch").resource("pods"));
    for name in ["a", "b", "c"] {
        world.apply(stray(name, "web")).await;
    }
    world.settle().await;
    world.forget();
    world.apply(set("web", 3)).await;
    world.wait(60).await;
    let syncs = world.asked("get", SETS);
    assert_eq!(world.asked("patch", "pods"), 3 * syncs);
    assert!((4..=14).contains(&syncs), "it backs off: {syncs}");
    let events = world.sandbox.list("events", Some(NS)).await.unwrap();
    let told: Vec<_> = events.iter().filter(|event| event["reason"] == "FailedUpdate").collect();
    let [event] = told[..] else { panic!("{events:#?}") };
    let message = event["message"].as_str().unwrap();
    assert!(message.starts_with("Error: cannot adopt Pod shop/") && message.contains("is forbidden: "), "{message}");
    assert!(message.ends_with(" (and 2 more)"), "{message}");
    assert_eq!((&event["type"], &event["involvedObject"]["name"]), (&json!("Warning"), &json!("web")));
    assert_eq!(event["count"].as_u64(), Some(syncs));
    world.sandbox.faults().clear();
    world.wait(120).await;
    assert_eq!(owners(&world.get("pods", "a").await), ["ReplicaSet web"]);
}
