//! Tests of the claims of ephemeral volumes.

use crate::world::*;

/// VOLUME-35, VOLUME-37, VOLUME-38, VOLUME-40, VOLUME-41, VOLUME-50, VOLUME-61.
#[tokio::test(start_paused = true)]
async fn each_ephemeral_volume_gets_a_claim_of_its_pod() {
    let world = cluster().start().await;
    let mut first = ephemeral("a");
    first["ephemeral"]["volumeClaimTemplate"]["metadata"] = json!({"labels": {"l": "1"}, "annotations": {"n": "2"}});
    first["ephemeral"]["volumeClaimTemplate"]["spec"]["storageClassName"] = json!("fast");
    let created = world.create_and_settle(without_node(pod("p", json!([first, ephemeral("b")])))).await;
    let claim = world.get(CLAIMS, "p-a").await;
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": created["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true}]);
    let metadata = &claim["metadata"];
    assert_eq!((&metadata["ownerReferences"], &metadata["labels"]), (&owner, &json!({"l": "1"})));
    assert_eq!((&metadata["annotations"], &claim["spec"]["storageClassName"]), (&json!({"n": "2"}), &json!("fast")));
    assert_eq!(finalizers_of(&world, CLAIMS, "p-a").await, [CLAIM_FINALIZER]);
    assert_eq!(world.own_write_lines(), [format!("create {CLAIMS} p-a"), format!("create {CLAIMS} p-b")]);
    assert_eq!(world.metric("ephemeral_volume_controller_create_total"), 2);
    assert_eq!(world.metric("ephemeral_volume_controller_create_failures_total"), 0);
    world.clear_log();
    world.patch_pod_status("p", json!({"phase": "Running"})).await;
    world.patch(CLAIMS, "p-a", json!({"metadata": {"labels": {"l": "other"}}})).await;
    world.wait(600).await;
    world.assert_wrote_nothing();
}

/// VOLUME-36, VOLUME-39.
#[tokio::test(start_paused = true)]
async fn a_pod_that_has_lost_its_claim_gets_a_new_one() {
    let world = cluster().start().await;
    world.create_and_settle(without_node(pod("p", json!([ephemeral("a")])))).await;
    world.patch_pod_status("p", json!({"phase": "Succeeded"})).await;
    let first = world.get(CLAIMS, "p-a").await;
    set_finalizers(&world, CLAIMS, "p-a", &[CLAIM_FINALIZER, FOREIGN]).await;
    world.delete_and_settle(CLAIMS, "p-a").await;
    // A terminating claim counts as existing.
    assert_eq!(world.get(CLAIMS, "p-a").await["metadata"]["uid"], first["metadata"]["uid"]);
    set_finalizers(&world, CLAIMS, "p-a", &[]).await;
    world.settle().await;
    let second = world.get(CLAIMS, "p-a").await;
    assert_ne!(second["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(owners(&second), ["Pod p"]);
}

const NOT_OWNER: &str =
    "Warning FailedBinding ephemeral volume a: PVC shop/p-a was not created for pod shop/p (pod is not owner)";

/// VOLUME-42, VOLUME-44, VOLUME-45.
#[tokio::test(start_paused = true)]
async fn a_claim_of_another_owner_is_refused_until_it_is_gone() {
    let world = cluster().start().await;
    world.create(claim("p-a")).await;
    world.settle().await;
    world.create(without_node(pod("p", json!([ephemeral("0"), ephemeral("a"), ephemeral("z")])))).await;
    world.wait(20).await;
    assert_eq!(world.names(CLAIMS).await, ["p-0", "p-a"], "the volumes are handled in order");
    assert_eq!(owners(&world.get(CLAIMS, "p-a").await), [""; 0]);
    world.assert_event(NOT_OWNER).await;
    let events = world.list("events").await;
    let binding = events.iter().find(|event| event["reason"] == "FailedBinding").unwrap();
    assert_eq!(pick(&binding["involvedObject"], "kind name"), json!(["Pod", "p"]));
    assert_eq!(binding["source"]["component"], "ephemeral_volume");
    world.delete(CLAIMS, "p-a").await;
    world.wait(2).await;
    assert_eq!(world.names(CLAIMS).await, ["p-0", "p-a", "p-z"]);
    assert_eq!(owners(&world.get(CLAIMS, "p-a").await), ["Pod p"]);
}

/// VOLUME-42.
#[tokio::test(start_paused = true)]
async fn of_two_pods_whose_volumes_give_one_name_the_first_gets_the_claim() {
    let world = cluster().start().await;
    world.create_and_settle(without_node(pod("a", json!([ephemeral("b-c")])))).await;
    world.create(without_node(pod("a-b", json!([ephemeral("c")])))).await;
    world.wait(10).await;
    assert_eq!(owners(&world.get(CLAIMS, "a-b-c").await), ["Pod a"]);
    world
        .assert_event("Warning FailedBinding ephemeral volume c: PVC shop/a-b-c was not created for pod shop/a-b")
        .await;
    assert_eq!(world.count("create", CLAIMS), 1);
}

/// VOLUME-39, VOLUME-42, VOLUME-59.
#[tokio::test(start_paused = true)]
async fn a_pod_that_replaces_another_one_in_a_gap_of_the_watch_gets_its_claim() {
    let world = cluster().start().await;
    world.create_and_settle(without_node(pod("p", json!([ephemeral("a")])))).await;
    world.hold("pods");
    remove_pod(&world, "p").await;
    set_finalizers(&world, CLAIMS, "p-a", &[]).await;
    world.delete(CLAIMS, "p-a").await;
    let second = world.create(without_node(pod("p", json!([ephemeral("a")])))).await;
    world.sandbox.compact();
    world.wait(1).await;
    world.release("pods");
    world.wait(60).await;
    let claim = world.get(CLAIMS, "p-a").await;
    if claim["metadata"]["ownerReferences"][0]["uid"] != second["metadata"]["uid"] {
        // A claim for the Pod that is gone came first, and the collector of a real cluster deletes it.
        set_finalizers(&world, CLAIMS, "p-a", &[]).await;
        world.delete(CLAIMS, "p-a").await;
        world.wait(60).await;
    }
    let claim = world.get(CLAIMS, "p-a").await;
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], second["metadata"]["uid"]);
}

/// VOLUME-35, VOLUME-37.
#[tokio::test(start_paused = true)]
async fn a_terminating_pod_gets_no_claim() {
    let mut world = cluster().stopped().await;
    world.create(pod("p", json!([ephemeral("a")]))).await;
    world.delete("pods", "p").await;
    world.start();
    world.wait(60).await;
    world.assert_wrote_nothing();
}

/// VOLUME-43, VOLUME-44, VOLUME-45, VOLUME-50.
#[tokio::test(start_paused = true)]
async fn a_refused_creation_is_reported_and_retried_until_the_pod_is_deleted() {
    for (action, is_in_message) in [(Action::Forbidden, true), (Action::InternalError, true), (Action::Invalid, true)] {
        let world = cluster().start().await;
        world.fault(rule(action.clone(), "create", CLAIMS));
        world.create(pod("p", json!([ephemeral("a"), ephemeral("b")]))).await;
        world.wait(20).await;
        let tries = world.count("create", CLAIMS);
        assert!((8..=14).contains(&tries), "{action:?}: {tries}");
        assert_eq!(world.metric("ephemeral_volume_controller_create_failures_total"), tries);
        let start = "Warning FailedBinding ephemeral volume a: create PVC p-a: ";
        assert_eq!(world.event_count(start).await > 0, is_in_message, "{:?}", world.events().await);
        world.delete("pods", "p").await;
        world.wait(60).await;
        world.clear_log();
        world.wait(2000).await;
        assert_eq!(world.count("create", CLAIMS), 0);
    }
}

/// VOLUME-60.
#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_costs_one_creation_and_no_event() {
    let refuser = Refuser::terminating_namespace(CLAIMS);
    let world = cluster().filter(refuser.filter()).start().await;
    world.create(pod("p", json!([ephemeral("a")]))).await;
    world.wait(600).await;
    assert_eq!((refuser.attempts(), world.event_count("Warning FailedBinding").await), (1, 0));
}

/// VOLUME-39, VOLUME-43.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_or_a_late_cache_leads_to_one_claim() {
    for action in [Action::CutBefore, Action::CutAfter, Action::TooManyRequests(2)] {
        let world = cluster().start().await;
        world.delay(CLAIMS, 3);
        world.fault(rule(action.clone(), "create", CLAIMS).times(1));
        world.create(without_node(pod("p", json!([ephemeral("a")])))).await;
        world.wait(60).await;
        assert_eq!(owners(&world.get(CLAIMS, "p-a").await), ["Pod p"], "{action:?}");
        assert_eq!(world.names(CLAIMS).await, ["p-a"]);
    }
    let world = cluster().start().await;
    world.delay(CLAIMS, 30);
    world.create(without_node(pod("p", json!([ephemeral("a"), ephemeral("b")])))).await;
    world.wait(20).await;
    world.assert_count("create", CLAIMS, 2..=2);
}
