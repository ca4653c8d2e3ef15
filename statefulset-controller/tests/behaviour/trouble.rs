//! Lost answers, refused requests and stale caches.

use crate::world::*;

/// STATEFULSET-57.
#[tokio::test(start_paused = true)]
async fn lost_answers_create_nothing_twice() {
    let steps = vec![Step::Create(set(2, claims("Delete", "Retain")))];
    let scene = Scene { cluster: cluster(), settled: vec![], steps };
    let writes = [
        ("create", "pods"),
        ("create", CLAIMS),
        ("create", "controllerrevisions"),
        ("update", "statefulsets/status"),
        ("patch", CLAIMS),
    ];
    scene
        .one_fault(&[Action::CutBefore, Action::CutAfter], &writes, 30, async |world, case| {
            assert_eq!(pick(&world.status().await, "readyReplicas collisionCount"), json!([2, 0]), "{case}");
            assert_eq!(world.names(REVISIONS).await.len(), 1);
            let mut created = pod_and_claim_writes(world);
            created.retain(|done| done.starts_with('+'));
            assert_eq!(created, ["+data-web-0", "+web-0", "+data-web-1", "+web-1"], "{case}");
        })
        .await;
}

/// STATEFULSET-53, STATEFULSET-55, STATEFULSET-56.
#[tokio::test(start_paused = true)]
async fn a_refused_pod_is_reported_and_tried_again() {
    let world = cluster().start().await;
    let event = "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: ";
    let refused = (Action::Invalid, "create", "pods");
    conformance::refusals_back_off(&world, refused, world.create(web(2)), 5..=14, event, async || {
        assert_eq!(world.status().await["observedGeneration"], 1, "the status is written in spite of the refusal");
    })
    .await;
    assert_eq!(world.status().await["readyReplicas"], 2);
}

/// STATEFULSET-55, STATEFULSET-58.
#[tokio::test(start_paused = true)]
async fn a_failed_deletion_is_reported_and_no_other_pod_is_deleted() {
    let world = cluster().settled(web(3)).await;
    let failed = (Action::InternalError, "delete", "pods");
    let change = world.roll_out("img:2", json!({}));
    let event = "Warning FailedDelete Delete Pod web-2 in StatefulSet web failed error: ";
    conformance::refusals_back_off(&world, failed, change, 5..=14, event, async || {
        assert_eq!((&world.status().await["currentReplicas"], world.names("pods").await.len()), (&json!(3), 3));
    })
    .await;
    assert_images(&world, "img:2").await;
}

/// STATEFULSET-74.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_causes_no_second_write() {
    for held in ["pods", "controllerrevisions", "statefulsets"] {
        let world = cluster().settled(set(3, claims("Delete", "Delete"))).await;
        world.clear_log();
        world.hold(held);
        world.roll_out("img:2", json!({})).await;
        world.touch_subject_for(20).await;
        assert!(world.count("delete", "pods") <= 1, "{held}: {:?}", pod_and_claim_writes(&world));
        assert!(world.count("create", "pods") <= 1 && world.count("create", REVISIONS) <= 1, "{held}");
        world.release(held);
        world.settle().await;
        assert_eq!((world.count("create", "pods"), world.count("delete", "pods")), (3, 3), "{held}");
        assert_images(&world, "img:2").await;
    }
}

/// STATEFULSET-59.
#[tokio::test(start_paused = true)]
async fn a_set_continues_as_soon_as_the_cache_shows_its_claim_or_revision() {
    for slower in [CLAIMS, "controllerrevisions"] {
        let world = cluster().start().await;
        world.delay(slower, 0.3);
        let began = world.clock.monotonic_now();
        world.create(set(3, claims("Delete", "Retain"))).await;
        while world.status().await["readyReplicas"] != 3 {
            world.wait(0.1).await;
            assert!(world.clock.monotonic_now() - began < Duration::from_secs(60), "no progress");
        }
        // Each step waits only for the watch of the delayed resource, and not for a timer.
        let taken = world.clock.monotonic_now() - began;
        assert!(taken < Duration::from_millis(1900), "{slower}: {taken:?}");
        let created = ["pods", CLAIMS, REVISIONS].map(|resource| world.count("create", resource));
        assert_eq!(created, [3, 3, 1], "{slower}");
    }
}

/// STATEFULSET-44, STATEFULSET-74.
#[tokio::test(start_paused = true)]
async fn condemned_pods_wait_until_the_cache_shows_their_claims() {
    let world = cluster().settled(set(3, claims("Retain", "Delete"))).await;
    world.clear_log();
    world.hold(CLAIMS);
    world.change(json!({"replicas": 1})).await;
    world.touch_subject_for(20).await;
    assert!(world.count("delete", "pods") <= 1, "{:?}", pod_and_claim_writes(&world));
    assert_eq!(
        world.count("patch", CLAIMS),
        2,
        "the owners of each claim are written once: {:?}",
        pod_and_claim_writes(&world)
    );
    world.release(CLAIMS);
    world.settle().await;
    assert_eq!(pod_and_claim_writes(&world), ["~data-web-2", "~data-web-1", "-web-2", "-web-1"]);
}

/// STATEFULSET-42.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_about_to_be_deleted_is_not_used_on_a_stale_cache() {
    let world = cluster().settled(set(2, claims("Retain", "Delete"))).await;
    world.clear_log();
    // One sync writes the owners of the claim and deletes the Pod. A new Pod must not use the claim, even while the cache does
    // not show the claim's new owners.
    world.hold(CLAIMS);
    world.change(json!({"replicas": 1})).await;
    world.wait(10).await;
    world.change(json!({"replicas": 2})).await;
    world.wait(20).await;
    assert_eq!(world.count("create", "pods"), 0, "{:?}", pod_and_claim_writes(&world));
    world.release(CLAIMS);
    world.wait(5).await;
    assert_eq!(
        world.count("create", "pods"),
        0,
        "the claim is about to be deleted: {:?}",
        pod_and_claim_writes(&world)
    );
}

/// STATEFULSET-71.
#[tokio::test(start_paused = true)]
async fn a_pod_that_has_changed_since_the_decision_is_not_deleted() {
    for reason in ["outdated", "condemned", "finished"] {
        let world = cluster().settled(set(3, json!({"podManagementPolicy": "Parallel"}))).await;
        let uid = async || world.get("pods", "web-2").await["metadata"]["uid"].clone();
        let before = uid().await;
        world.hold("pods");
        // The cache shows an earlier version of the Pod. The controller cannot know whether the change matters.
        world.patch("pods", "web-2", json!({"metadata": {"annotations": {"newer": "yes"}}})).await;
        match reason {
            "outdated" => world.roll_out("img:2", json!({})).await,
            "condemned" => world.change(json!({"replicas": 2})).await,
            _ => {
                world.release("pods");
                let failed = json!({"phase": "Failed"});
                world.fault(rule(Action::Latency(Duration::from_secs(3)), "delete", "pods").times(1));
                world.patch_pod_status("web-2", failed).await;
                world.wait(1).await;
                // The Pod recovers while the deletion is in flight.
                world.hold("pods");
                let runs = json!({"phase": "Running"});
                world.patch_pod_status("web-2", runs).await;
            }
        }
        world.wait(10).await;
        assert!(world.count("delete", "pods") > 0, "{reason}: a deletion is tried");
        assert_eq!(uid().await, before, "{reason}");
        assert!(world.event_count("Warning FailedDelete").await == 0, "{reason}");
        world.release("pods");
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
    let world = cluster().settled(set(1, json!({"revisionHistoryLimit": 1}))).await;
    let first = world.names(REVISIONS).await.remove(0);
    world.roll_out_and_settle("img:2").await;
    world.hold("controllerrevisions");
    world.patch(REVISIONS, &first, json!({"metadata": {"annotations": {"kept": "for now"}}})).await;
    world.change(json!({"revisionHistoryLimit": 0})).await;
    world.wait(10).await;
    assert!(world.names(REVISIONS).await.contains(&first));
    world.release("controllerrevisions");
    world.settle().await;
    assert!(!world.names(REVISIONS).await.contains(&first));
}

/// STATEFULSET-39.
#[tokio::test(start_paused = true)]
async fn a_revision_without_a_template_is_reported_and_the_others_work() {
    let world = cluster()
        .settled(set(2, json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}})))
        .await;
    let first = world.names(REVISIONS).await.remove(0);
    let owner = world.get(REVISIONS, &first).await["metadata"]["ownerReferences"].clone();
    world
        .create(json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {"spec": 7},
            "metadata": {"name": "broken", "namespace": "shop", "labels": {"app": "web"}, "ownerReferences": owner}}))
        .await;
    let broken = json!({"currentRevision": "broken"});
    world.roll_out_and_settle("img:2").await;
    world.patch_status(SETS, "web", broken).await;
    world.settle().await;
    // Ordinal 0 is below the partition, so its Pod needs the current revision, which holds no template.
    world.delete("pods", "web-0").await;
    world.wait(20).await;
    assert_eq!(world.names("pods").await, ["web-1"]);
    world.assert_event("Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: cannot make Pod web-0 from revision broken").await;
    world.create(renamed(web(1), NAMESPACE, "db")).await;
    world.wait(20).await;
    assert!(world.names("pods").await.contains(&"db-0".to_owned()), "other sets are synced");
    // Without a partition, the broken revision is no longer needed.
    world.change(json!({"updateStrategy": {"rollingUpdate": {"partition": 0}}})).await;
    world.wait(60).await;
    assert_eq!(world.status().await["readyReplicas"], 2);
}

/// STATEFULSET-54.
#[tokio::test(start_paused = true)]
async fn a_pod_that_becomes_available_during_a_sync_is_not_overlooked() {
    let mut world = cluster().start().await;
    world.create(set(1, json!({"minReadySeconds": 30}))).await;
    world.wait(5).await;
    assert_eq!(world.status().await["readyReplicas"], 1);
    // A new process has not seen a Pod become ready. Its first sync begins before the Pod is available, and ends after that.
    world.crash();
    let since = time(&condition(&world.get("pods", "web-0").await, "Ready")["lastTransitionTime"]);
    let available = since + Duration::from_secs(30);
    world.change(json!({"replicas": 1, "revisionHistoryLimit": 3})).await;
    let wait = Duration::try_from(available.duration_since(world.clock.now())).unwrap();
    world.clock.sleep(wait.saturating_sub(Duration::from_millis(1500))).await;
    world.fault(rule(Action::Latency(Duration::from_secs(3)), "update", "").resource("statefulsets/status").times(1));
    world.start();
    world.wait(8).await;
    assert_eq!(world.status().await["availableReplicas"], 1, "{}", world.status().await);
}
