//! Lost answers, refused requests and stale caches.

use std::time::Duration;

use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{CLAIMS, CONTROLLER_IDENTITY, REVISIONS, SETS, World, claims, set};

/// STATEFULSET-57.
#[tokio::test(start_paused = true)]
async fn lost_answers_create_nothing_twice() {
    for (verb, resource) in [
        ("create", "pods"),
        ("create", CLAIMS),
        ("create", "controllerrevisions"),
        ("patch", "statefulsets/status"),
        ("patch", CLAIMS),
    ] {
        for lost in [Action::CutBefore, Action::CutAfter] {
            let world = World::new().await;
            let rule = Rule::new(lost.clone()).identity(CONTROLLER_IDENTITY).verb(verb).resource(resource).times(1);
            world.sandbox.faults().add(rule);
            world.apply(set(2, claims("Delete", "Retain"))).await;
            world.wait(30).await;
            let status = world.status().await;
            assert_eq!(status["readyReplicas"], 2, "{verb} {resource} {lost:?}");
            assert_eq!(status["collisionCount"], 0);
            assert_eq!(world.names(REVISIONS).await.len(), 1);
            let mut created = world.pod_and_claim_writes();
            created.retain(|done| done.starts_with('+'));
            assert_eq!(created, ["+data-web-0", "+web-0", "+data-web-1", "+web-1"], "{verb} {resource} {lost:?}");
        }
    }
}

/// STATEFULSET-53, STATEFULSET-55, STATEFULSET-56.
#[tokio::test(start_paused = true)]
async fn a_refused_pod_is_reported_and_tried_again() {
    let world = World::new().await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::Invalid).identity(CONTROLLER_IDENTITY).verb("create").resource("pods"));
    world.apply(set(2, json!({}))).await;
    world.wait(20).await;
    assert!(world.has_event("Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: ").await);
    assert_eq!(world.status().await["observedGeneration"], 1, "the status is written in spite of the refusal");
    let tries = world.request_count("create", "pods");
    assert!((5..=14).contains(&tries), "it backs off: {tries}");
    world.sandbox.faults().clear();
    world.wait(60).await;
    assert_eq!(world.status().await["readyReplicas"], 2);
}

/// STATEFULSET-55, STATEFULSET-58.
#[tokio::test(start_paused = true)]
async fn a_failed_deletion_is_reported_and_no_other_pod_is_deleted() {
    let world = World::new().await;
    world.apply(set(3, json!({}))).await;
    world.settle().await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::InternalError).identity(CONTROLLER_IDENTITY).verb("delete").resource("pods"));
    world.roll_out("img:2", json!({})).await;
    world.wait(20).await;
    assert!(world.has_event("Warning FailedDelete Delete Pod web-2 in StatefulSet web failed error: ").await);
    let status = world.status().await;
    assert_eq!((&status["currentReplicas"], world.names("pods").await.len()), (&json!(3), 3));
    world.sandbox.faults().clear();
    world.wait(60).await;
    assert!(world.names_and_images().await.iter().all(|image| image.ends_with("img:2")));
}

/// STATEFULSET-74.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_causes_no_second_write() {
    for held in ["pods", "controllerrevisions", "statefulsets"] {
        let world = World::new().await;
        world.apply(set(3, claims("Delete", "Delete"))).await;
        world.settle().await;
        world.reset_counters();
        world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, held);
        world.roll_out("img:2", json!({})).await;
        for n in 0..20 {
            world.wait(1).await;
            world.merge(SETS, "web", json!({"metadata": {"annotations": {"poke": n.to_string()}}})).await;
        }
        assert!(world.request_count("delete", "pods") <= 1, "{held}: {:?}", world.pod_and_claim_writes());
        assert!(world.request_count("create", "pods") <= 1 && world.request_count("create", REVISIONS) <= 1, "{held}");
        world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, held);
        world.settle().await;
        assert_eq!((world.request_count("create", "pods"), world.request_count("delete", "pods")), (3, 3), "{held}");
        assert!(world.names_and_images().await.iter().all(|image| image.ends_with("img:2")));
    }
}

/// STATEFULSET-59.
#[tokio::test(start_paused = true)]
async fn a_slow_cache_causes_no_further_requests() {
    let world = World::new().await;
    for plural in ["pods", CLAIMS, "statefulsets", "controllerrevisions"] {
        world.sandbox.faults().delay_watch(CONTROLLER_IDENTITY, plural, Duration::from_secs(3));
    }
    world.apply(set(3, claims("Delete", "Retain"))).await;
    world.wait(120).await;
    assert_eq!(world.status().await["readyReplicas"], 3);
    assert_eq!((world.request_count("create", "pods"), world.request_count("create", CLAIMS)), (3, 3));
    assert_eq!(world.request_count("create", REVISIONS), 1);
}

/// STATEFULSET-59.
#[tokio::test(start_paused = true)]
async fn a_set_continues_as_soon_as_the_cache_shows_its_claim_or_revision() {
    for slower in [CLAIMS, "controllerrevisions"] {
        let world = World::new().await;
        world.sandbox.faults().delay_watch(CONTROLLER_IDENTITY, slower, Duration::from_millis(300));
        let began = world.clock.monotonic_now();
        world.apply(set(3, claims("Delete", "Retain"))).await;
        while world.status().await["readyReplicas"] != 3 {
            world.clock.sleep(Duration::from_millis(100)).await;
            assert!(world.clock.monotonic_now() - began < Duration::from_secs(60), "no progress");
        }
        // Each step waits only for the watch of the delayed resource, and not for a timer.
        let taken = world.clock.monotonic_now() - began;
        assert!(taken < Duration::from_millis(1900), "{slower}: {taken:?}");
    }
}

/// STATEFULSET-9, STATEFULSET-77.
#[tokio::test(start_paused = true)]
async fn a_pod_of_another_controller_with_the_same_name_is_never_changed() {
    let world = World::new().await;
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs-uid", "controller": true}]);
    world
        .apply(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-0", "namespace": "shop", "labels": {"app": "web"}, "ownerReferences": owner},
            "spec": {"containers": [{"name": "c", "image": "img:0"}]}}))
        .await;
    world.reset_counters();
    world.apply(set(1, json!({}))).await;
    world.wait(60).await;
    assert_eq!(world.pod_and_claim_writes(), Vec::<String>::new());
    assert_eq!(world.names_and_images().await, ["web-0 img:0"]);
    let event = "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: pods \"web-0\" already exists \
                 and is controlled by ReplicaSet rs";
    assert!(world.has_event(event).await, "{:#?}", world.events().await);
    assert!(world.explain()["lastError"]["error"].as_str().unwrap().contains("already exists"), "{}", world.explain());
}

/// STATEFULSET-44, STATEFULSET-74.
#[tokio::test(start_paused = true)]
async fn condemned_pods_wait_until_the_cache_shows_their_claims() {
    let world = World::new().await;
    world.apply(set(3, claims("Retain", "Delete"))).await;
    world.settle().await;
    world.reset_counters();
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, CLAIMS);
    world.change_spec(json!({"replicas": 1})).await;
    for n in 0..20 {
        world.wait(1).await;
        world.merge(SETS, "web", json!({"metadata": {"annotations": {"poke": n.to_string()}}})).await;
    }
    assert!(world.request_count("delete", "pods") <= 1, "{:?}", world.pod_and_claim_writes());
    assert_eq!(
        world.request_count("patch", CLAIMS),
        2,
        "the owners of each claim are written once: {:?}",
        world.pod_and_claim_writes()
    );
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, CLAIMS);
    world.settle().await;
    assert_eq!(world.pod_and_claim_writes(), ["~data-web-2", "~data-web-1", "-web-2", "-web-1"]);
}

/// STATEFULSET-42.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_about_to_be_deleted_is_not_used_on_a_stale_cache() {
    let world = World::new().await;
    world.apply(set(2, claims("Retain", "Delete"))).await;
    world.settle().await;
    world.reset_counters();
    // One sync writes the owners of the claim and deletes the Pod. A new Pod must not use the claim, even while the cache does
    // not show the claim's new owners.
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, CLAIMS);
    world.change_spec(json!({"replicas": 1})).await;
    world.wait(10).await;
    world.change_spec(json!({"replicas": 2})).await;
    world.wait(20).await;
    assert_eq!(world.request_count("create", "pods"), 0, "{:?}", world.pod_and_claim_writes());
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, CLAIMS);
    world.wait(5).await;
    assert_eq!(
        world.request_count("create", "pods"),
        0,
        "the claim is about to be deleted: {:?}",
        world.pod_and_claim_writes()
    );
}

/// STATEFULSET-71.
#[tokio::test(start_paused = true)]
async fn a_pod_that_has_changed_since_the_decision_is_not_deleted() {
    for reason in ["outdated", "condemned", "finished"] {
        let world = World::new().await;
        world.apply(set(3, json!({"podManagementPolicy": "Parallel"}))).await;
        world.settle().await;
        let uid = async || world.get("pods", "web-2").await["metadata"]["uid"].clone();
        let before = uid().await;
        world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
        // The cache shows an earlier version of the Pod. The controller cannot know whether the change matters.
        world.merge("pods", "web-2", json!({"metadata": {"annotations": {"newer": "yes"}}})).await;
        match reason {
            "outdated" => world.roll_out("img:2", json!({})).await,
            "condemned" => world.change_spec(json!({"replicas": 2})).await,
            _ => {
                world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "pods");
                let failed = json!({"status": {"phase": "Failed"}});
                let rule = Rule::new(Action::Latency(Duration::from_secs(3)))
                    .identity(CONTROLLER_IDENTITY)
                    .verb("delete")
                    .resource("pods");
                world.sandbox.faults().add(rule.times(1));
                world.sandbox.merge("pods", Some("shop"), "web-2", Some("status"), failed).await.unwrap();
                world.wait(1).await;
                // The Pod recovers while the deletion is in flight.
                world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
                let runs = json!({"status": {"phase": "Running"}});
                world.sandbox.merge("pods", Some("shop"), "web-2", Some("status"), runs).await.unwrap();
            }
        }
        world.wait(10).await;
        assert!(world.request_count("delete", "pods") > 0, "{reason}: a deletion is tried");
        assert_eq!(uid().await, before, "{reason}");
        assert!(!world.has_event("Warning FailedDelete").await, "{reason}");
        world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "pods");
        world.settle().await;
        match reason {
            "outdated" => assert_ne!(uid().await, before),
            "condemned" => assert_eq!(world.names("pods").await, ["web-0", "web-1"]),
            _ => assert_eq!(uid().await, before, "the Pod runs again"),
        }
    }
}

/// STATEFULSET-71.
#[tokio::test(start_paused = true)]
async fn a_revision_that_has_changed_since_the_decision_is_not_deleted() {
    let world = World::new().await;
    world.apply(set(1, json!({"revisionHistoryLimit": 1}))).await;
    world.settle().await;
    let first = world.names(REVISIONS).await.remove(0);
    world.roll_out("img:2", json!({})).await;
    world.settle().await;
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "controllerrevisions");
    world.merge(REVISIONS, &first, json!({"metadata": {"annotations": {"kept": "for now"}}})).await;
    world.change_spec(json!({"revisionHistoryLimit": 0})).await;
    world.wait(10).await;
    assert!(world.names(REVISIONS).await.contains(&first));
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "controllerrevisions");
    world.settle().await;
    assert!(!world.names(REVISIONS).await.contains(&first));
}

/// STATEFULSET-39.
#[tokio::test(start_paused = true)]
async fn a_revision_without_a_template_is_reported_and_the_others_work() {
    let world = World::new().await;
    world.apply(set(2, json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}))).await;
    world.settle().await;
    let first = world.names(REVISIONS).await.remove(0);
    let owner = world.get(REVISIONS, &first).await["metadata"]["ownerReferences"].clone();
    world
        .apply(json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {"spec": 7},
            "metadata": {"name": "broken", "namespace": "shop", "labels": {"app": "web"}, "ownerReferences": owner}}))
        .await;
    let broken = json!({"status": {"currentRevision": "broken"}});
    world.roll_out("img:2", json!({})).await;
    world.settle().await;
    world.sandbox.merge(SETS, Some("shop"), "web", Some("status"), broken).await.unwrap();
    world.settle().await;
    // Ordinal 0 is below the partition, so its Pod needs the current revision, which holds no template.
    world.sandbox.delete("pods", Some("shop"), "web-0").await.unwrap();
    world.wait(20).await;
    assert_eq!(world.names("pods").await, ["web-1"]);
    let event = "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: cannot make Pod web-0 from revision broken";
    assert!(world.has_event(event).await, "{:#?}", world.events().await);
    world.apply(other()).await;
    world.wait(20).await;
    assert!(world.names("pods").await.contains(&"db-0".to_owned()), "other sets are synced");
    // Without a partition, the broken revision is no longer needed.
    world.change_spec(json!({"updateStrategy": {"rollingUpdate": {"partition": 0}}})).await;
    world.wait(60).await;
    assert_eq!(world.status().await["readyReplicas"], 2);
}

/// Builds a set named `db` with Pods that have the label `app=db`.
fn other() -> serde_json::Value {
    let mut other = set(1, json!({}));
    other["metadata"]["name"] = json!("db");
    other["spec"]["selector"]["matchLabels"]["app"] = json!("db");
    other["spec"]["template"]["metadata"]["labels"]["app"] = json!("db");
    other
}

/// STATEFULSET-54.
#[tokio::test(start_paused = true)]
async fn a_pod_that_becomes_available_during_a_sync_is_not_overlooked() {
    let mut world = World::new().await;
    world.apply(set(1, json!({"minReadySeconds": 30}))).await;
    world.wait(5).await;
    assert_eq!(world.status().await["readyReplicas"], 1);
    // A new process has not seen a Pod become ready. Its first sync begins before the Pod is available, and ends after that.
    world.crash();
    let pod = world.get("pods", "web-0").await;
    let ready = pod["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
    let since: jiff::Timestamp = ready["lastTransitionTime"].as_str().unwrap().parse().unwrap();
    let available = since + Duration::from_secs(30);
    world.merge(SETS, "web", json!({"spec": {"replicas": 1, "revisionHistoryLimit": 3}})).await;
    let wait = Duration::try_from(available.duration_since(world.clock.now())).unwrap();
    world.clock.sleep(wait.saturating_sub(Duration::from_millis(1500))).await;
    let slow = Rule::new(Action::Latency(Duration::from_secs(3))).identity(CONTROLLER_IDENTITY).verb("patch");
    world.sandbox.faults().add(slow.resource("statefulsets/status").times(1));
    world.start();
    world.wait(8).await;
    assert_eq!(world.status().await["availableReplicas"], 1, "{}", world.status().await);
}

/// STATEFULSET-60.
#[tokio::test(start_paused = true)]
async fn a_set_that_needs_no_change_is_not_written() {
    let world = World::new().await;
    world.apply(set(3, claims("Delete", "Delete"))).await;
    world.settle().await;
    world.reset_counters();
    world.wait(100_000).await;
    assert!(world.controller_writes().is_empty(), "{:?}", world.controller_writes());
}
