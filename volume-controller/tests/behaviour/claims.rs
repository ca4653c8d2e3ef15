//! Tests of the protection of claims, with caches that are up to date.

use crate::world::*;

/// VOLUME-8, VOLUME-10, VOLUME-14, VOLUME-17, VOLUME-21, VOLUME-22.
#[tokio::test(start_paused = true)]
async fn a_deleted_claim_goes_with_the_last_pod_that_uses_it() {
    let world = cluster().start().await;
    world.create(claim("data")).await;
    for name in ["running", "finished", "ending"] {
        world.create(pod_with_claims(name, &["data"])).await;
    }
    world.patch_pod_status("finished", json!({"phase": "Succeeded"})).await;
    world.delete("pods", "ending").await;
    world.delete_and_settle(CLAIMS, "data").await;
    for name in ["ending", "running", "finished"] {
        assert_eq!((finalizers_of(&world, CLAIMS, "data").await, pod_lists(&world)), (vec![CLAIM_FINALIZER.into()], 0));
        world.assert_wrote_nothing();
        world.assert_waits(&format!("Pod {name} uses it"));
        remove_pod(&world, name).await;
        world.settle().await;
    }
    assert!(!exists(&world, CLAIMS, "data").await);
    assert_eq!((world.own_write_lines(), pod_lists(&world)), (vec![format!("patch {CLAIMS} data")], 1));
}

/// VOLUME-16.
#[tokio::test(start_paused = true)]
async fn a_pod_without_a_node_does_not_keep_a_claim() {
    let world = cluster().start().await;
    world.create(claim("data")).await;
    world.create(without_node(pod_with_claims("p", &["data"]))).await;
    world.delete_and_settle(CLAIMS, "data").await;
    assert!(!exists(&world, CLAIMS, "data").await && exists(&world, "pods", "p").await);
}

/// VOLUME-17.
#[tokio::test(start_paused = true)]
async fn a_pod_that_a_finalizer_keeps_without_a_grace_period_still_uses_its_claim() {
    let world = cluster().start().await;
    world.create(claim("data")).await;
    world.create(pod_with_claims("p", &["data"])).await;
    set_finalizers(&world, "pods", "p", &[FOREIGN]).await;
    world.delete(CLAIMS, "data").await;
    remove_pod(&world, "p").await;
    world.wait(600).await;
    assert!(exists(&world, CLAIMS, "data").await);
    set_finalizers(&world, "pods", "p", &[]).await;
    world.settle().await;
    assert!(!exists(&world, CLAIMS, "data").await);
}

/// VOLUME-15, VOLUME-18, VOLUME-20, VOLUME-53.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_shut_down_frees_its_ephemeral_claims_and_no_others() {
    let world = cluster().start().await;
    world.create(claim("data")).await;
    let volumes = json!([ephemeral("e"), {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]);
    world.create_and_settle(pod("p", volumes)).await;
    world.patch_pod_status("p", json!({"containerStatuses": [{"name": "c", "state": {"running": {}}}]})).await;
    set_finalizers(&world, "pods", "p", &[FOREIGN]).await;
    world.delete(CLAIMS, "p-e").await;
    world.delete(CLAIMS, "data").await;
    world.delete_and_settle("pods", "p").await;
    assert!(exists(&world, CLAIMS, "p-e").await, "a grace period is left");
    remove_pod(&world, "p").await;
    world.settle().await;
    assert!(!exists(&world, CLAIMS, "p-e").await && exists(&world, CLAIMS, "data").await);
}

/// VOLUME-19.
#[tokio::test(start_paused = true)]
async fn an_ephemeral_volume_does_not_keep_a_foreign_claim() {
    let world = cluster().start().await;
    world.create(claim("p-e")).await;
    world.create(pod("p", json!([ephemeral("e")]))).await;
    world.wait(1).await;
    world.delete(CLAIMS, "p-e").await;
    world.wait(10).await;
    // Its place is free for the claim of the Pod.
    assert_eq!(owners(&world.get(CLAIMS, "p-e").await), ["Pod p"]);
}

/// VOLUME-7, VOLUME-9, VOLUME-10, VOLUME-13, VOLUME-21.
#[tokio::test(start_paused = true)]
async fn a_missing_finalizer_is_added_behind_those_of_others() {
    let world = cluster().start().await;
    world.create(claim("data")).await;
    set_finalizers(&world, CLAIMS, "data", &["example.com/z", FOREIGN]).await;
    world.settle().await;
    assert_eq!(finalizers_of(&world, CLAIMS, "data").await, ["example.com/z", FOREIGN, CLAIM_FINALIZER]);
    let after = world.get(CLAIMS, "data").await;
    assert_eq!((&after["spec"]["resources"], &after["metadata"]["labels"]), (&claim_spec()["resources"], &Value::Null));
    world.delete_and_settle(CLAIMS, "data").await;
    assert_eq!(finalizers_of(&world, CLAIMS, "data").await, ["example.com/z", FOREIGN]);
    assert_eq!(world.own_write_lines(), vec![format!("patch {CLAIMS} data"); 2]);
    // It has lost its finalizer, and is ignored.
    world.clear_log();
    world.touch(CLAIMS, "data").await;
    world.wait(600).await;
    assert_eq!((world.count_all(), pod_lists(&world)), (0, 0));
}

/// VOLUME-7, VOLUME-10.
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_another_client_adds_at_the_same_time_is_not_lost() {
    let world = cluster().start().await;
    world.create(claim("data")).await;
    world.settle().await;
    world.delay(CLAIMS, 5);
    set_finalizers(&world, CLAIMS, "data", &[]).await;
    world.wait(4).await;
    set_finalizers(&world, CLAIMS, "data", &[FOREIGN]).await;
    world.wait(60).await;
    assert_eq!(finalizers_of(&world, CLAIMS, "data").await, [FOREIGN, CLAIM_FINALIZER]);
}

/// VOLUME-57.
#[tokio::test(start_paused = true)]
async fn the_condition_unused_is_left_as_it_is() {
    let world = cluster().start().await;
    world.create(claim("data")).await;
    world.patch_status(CLAIMS, "data", json!({"conditions": [{"type": "Unused", "status": "True"}]})).await;
    world.create(pod_with_claims("p", &["data"])).await;
    world.wait(60).await;
    world.assert_wrote_nothing();
}

/// VOLUME-9.
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_is_listed_twice_goes_as_a_whole() {
    let world = cluster().start().await;
    world.create(claim("data")).await;
    set_finalizers(&world, CLAIMS, "data", &[CLAIM_FINALIZER, FOREIGN, CLAIM_FINALIZER]).await;
    world.delete_and_settle(CLAIMS, "data").await;
    assert_eq!(finalizers_of(&world, CLAIMS, "data").await, [FOREIGN]);
}

/// VOLUME-8.
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_is_removed_by_hand_does_not_come_back_to_a_deleted_claim() {
    let world = cluster().start().await;
    world.create(claim("data")).await;
    world.create(pod_with_claims("p", &["data"])).await;
    set_finalizers(&world, CLAIMS, "data", &[CLAIM_FINALIZER, FOREIGN]).await;
    world.delete_and_settle(CLAIMS, "data").await;
    set_finalizers(&world, CLAIMS, "data", &[FOREIGN]).await;
    world.wait(600).await;
    assert_eq!(finalizers_of(&world, CLAIMS, "data").await, [FOREIGN]);
    world.assert_wrote_nothing();
}

/// VOLUME-3, VOLUME-15, VOLUME-53.
#[tokio::test(start_paused = true)]
async fn a_pod_with_forty_volumes_frees_what_it_names() {
    let world = cluster().start().await;
    let mut volumes = Vec::new();
    for number in 0..15 {
        world.create(claim(&format!("data-{number}"))).await;
        let claim = json!({"claimName": format!("data-{number}")});
        volumes.push(json!({"name": format!("d{number}"), "persistentVolumeClaim": claim}));
    }
    for number in 0..10 {
        // Foreign claims have the names for ephemeral volumes.
        world.create(claim(&format!("p-f{number}"))).await;
        volumes.push(ephemeral(&format!("f{number}")));
    }
    volumes.extend((0..15).map(|number| json!({"name": format!("n{number}"), "emptyDir": {}})));
    world.create(pod("p", json!(volumes))).await;
    for status in ["Running", "Succeeded"] {
        world.patch_pod_status("p", json!({"phase": status})).await;
    }
    for name in world.names(CLAIMS).await {
        world.delete(CLAIMS, &name).await;
    }
    world.wait(5).await;
    let left = world.names(CLAIMS).await;
    assert_eq!(left.iter().filter(|name| name.starts_with("data-")).count(), 15);
    remove_pod(&world, "p").await;
    world.wait(5).await;
    assert!(world.names(CLAIMS).await.iter().all(|name| name.starts_with("p-f")));
}

/// VOLUME-13, VOLUME-15, VOLUME-53.
#[tokio::test(start_paused = true)]
async fn events_of_pods_and_claims_at_rest_cost_no_request() {
    let mut world = cluster().start().await;
    for number in 0..20 {
        let name = format!("data-{number}");
        world.create(claim(&name)).await;
        world.create(pod_with_claims(&format!("p-{number}"), &[&name])).await;
    }
    world.settle().await;
    world.clear_log();
    for number in 0..20 {
        world.touch(CLAIMS, &format!("data-{number}")).await;
        world.patch_pod_status(&format!("p-{number}"), json!({"phase": "Failed"})).await;
    }
    for number in 0..10 {
        remove_pod(&world, &format!("p-{number}")).await;
    }
    world.wait(2 * 86_400).await;
    world.restart();
    world.wait(60).await;
    world.assert_wrote_nothing();
    assert_eq!(pod_lists(&world), 0);
}

/// VOLUME-14, VOLUME-58.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_pod_in_a_gap_of_the_watch_frees_its_claim() {
    for is_replaced in [false, true] {
        let world = cluster().start().await;
        world.create(claim("data")).await;
        world.create(pod_with_claims("p", &["data"])).await;
        world.delete_and_settle(CLAIMS, "data").await;
        world.hold("pods");
        remove_pod(&world, "p").await;
        if is_replaced {
            world.create(pod("p", json!([]))).await;
        }
        world.sandbox.compact();
        world.wait(5).await;
        assert!(exists(&world, CLAIMS, "data").await);
        world.release("pods");
        world.wait(60).await;
        assert!(!exists(&world, CLAIMS, "data").await, "{is_replaced}");
    }
}

/// VOLUME-27.
#[tokio::test(start_paused = true)]
async fn claims_of_a_terminating_namespace_are_protected_as_any_others() {
    let world = cluster().server(sandbox::Builder::without_namespace_controller).start().await;
    world.create(claim("data")).await;
    world.create(claim("bare")).await;
    world.create(pod_with_claims("p", &["data"])).await;
    world.delete_and_settle("namespaces", NAMESPACE).await;
    set_finalizers(&world, CLAIMS, "bare", &[]).await;
    world.settle().await;
    assert_eq!(finalizers_of(&world, CLAIMS, "bare").await, [CLAIM_FINALIZER]);
    world.delete(CLAIMS, "bare").await;
    world.delete(CLAIMS, "data").await;
    world.settle().await;
    assert!(!exists(&world, CLAIMS, "bare").await && exists(&world, CLAIMS, "data").await);
    remove_pod(&world, "p").await;
    world.settle().await;
    assert!(!exists(&world, CLAIMS, "data").await);
}
