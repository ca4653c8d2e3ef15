//! Adoption and release of ReplicaSets.

use crate::world::*;

fn owner(set: &Value) -> Option<&str> {
    set["metadata"]["ownerReferences"][0]["name"].as_str()
}

/// DEPLOYMENT-5, DEPLOYMENT-6.
#[tokio::test(start_paused = true)]
async fn orphans_are_adopted_after_one_live_read_and_used() {
    let world = cluster().start().await;
    world.create(orphan("one", "img:1", 2)).await;
    world.create_and_settle(orphan("two", "img:0", 1)).await;
    world.clear_log();
    world.create_and_settle(web(3)).await;
    assert_eq!(world.count("get", DEPLOYMENTS), 1);
    let mut sets = sets(&world).await;
    sets.sort_by_key(|set| name(set).to_owned());
    assert_eq!(sets.len(), 2, "one orphan already has the current template");
    assert!(sets.iter().all(|set| owner(set) == Some("web")));
    let reference = &sets[0]["metadata"]["ownerReferences"][0];
    assert_eq!(pick(reference, "controller blockOwnerDeletion"), json!([true, true]));
    assert_eq!(sets.iter().map(size_of).collect::<Vec<_>>(), [3, 0]);
    assert_eq!(sets.iter().map(revision_of).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(sets[0]["metadata"]["labels"], json!({"app": "web"}), "no label is added");
}

/// DEPLOYMENT-4, DEPLOYMENT-9, DEPLOYMENT-21.
#[tokio::test(start_paused = true)]
async fn a_set_that_no_longer_matches_is_released_and_replaced() {
    let world = cluster().settled(web(2)).await;
    let set = name(&sets(&world).await[0]).to_owned();
    world.patch_and_settle(REPLICA_SETS, &set, json!({"metadata": {"labels": {"app": "other"}}})).await;
    let sets = sets(&world).await;
    let released = sets.iter().find(|s| name(s) == set).unwrap();
    assert_eq!(owner(released), None);
    // The released ReplicaSet keeps its name, so the new ReplicaSet gets another name.
    assert_eq!(sets.len(), 2);
    let made = sets.iter().find(|s| name(s) != set).unwrap();
    assert_eq!((owner(made), size_of(made)), (Some("web"), 2));
    assert_eq!(world.status().await["collisionCount"], 1);
}

/// Returns a world in which the server has answered the release of a ReplicaSet with `action` for 250 seconds.
async fn releasing(action: Action) -> World {
    let world = cluster().settled(web(2)).await;
    let set = name(&sets(&world).await[0]).to_owned();
    world.fault(rule(action, "patch", "").object(NAMESPACE, &*set));
    world.label(REPLICA_SETS, &set, json!({"app": "other"})).await;
    world.clear_log();
    world.wait(250).await;
    world
}

/// Returns the number of ReplicaSets without an owner.
async fn released(world: &World) -> usize {
    sets(world).await.iter().filter(|set| owner(set).is_none()).count()
}

/// DEPLOYMENT-84.
#[tokio::test(start_paused = true)]
async fn a_refused_release_is_retried_slowly_and_the_set_still_counts() {
    let world = releasing(Action::Invalid).await;
    assert_eq!(sizes(&world).await, [2]);
    assert_eq!(world.count("patch", REPLICA_SETS), 1);
    assert_eq!(progress(&world).await, "NewReplicaSetAvailable");
    world.wait(3000).await;
    world.assert_count("patch", REPLICA_SETS, 8..13);
    world.clear_faults();
    world.wait(320).await;
    assert_eq!((released(&world).await, sets(&world).await.len()), (1, 2));
}

/// DEPLOYMENT-84.
#[tokio::test(start_paused = true)]
async fn a_refused_release_does_not_stop_rollouts() {
    let world = releasing(Action::Invalid).await;
    // From now on the server accepts patches: both the new size and the next release succeed.
    world.clear_faults();
    world.roll_out("img:2", json!({})).await;
    world.wait(60).await;
    let sets = sets(&world).await;
    assert_eq!(size_of(sets.last().unwrap()), 2);
    assert_eq!(progress(&world).await, "NewReplicaSetAvailable");
    assert_eq!(released(&world).await, 1);
}

/// DEPLOYMENT-10.
#[tokio::test(start_paused = true)]
async fn a_failed_release_ends_the_sync() {
    let world = releasing(Action::InternalError).await;
    assert_eq!(sets(&world).await.len(), 1);
    let error = world.explain()["lastError"]["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("cannot release ReplicaSet web-"), "{error}");
    world.clear_faults();
    world.wait(600).await;
    assert_eq!((released(&world).await, sets(&world).await.len()), (1, 2));
}

/// DEPLOYMENT-11.
#[tokio::test(start_paused = true)]
async fn a_set_that_matches_again_unseen_is_kept() {
    let world = releasing(Action::InternalError).await;
    let set = name(&sets(&world).await[0]).to_owned();
    // From now on the server accepts patches, but the watch delivers no events.
    world.clear_faults();
    world.hold("replicasets");
    world.label(REPLICA_SETS, &set, json!({"app": "web"})).await;
    world.clear_log();
    world.wait(600).await;
    assert!(world.count("patch", REPLICA_SETS) >= 1, "no release was attempted");
    assert_eq!((released(&world).await, sets(&world).await.len()), (0, 1));
    world.clear_faults();
    world.wait(60).await;
    assert_eq!(progress(&world).await, "NewReplicaSetAvailable");
    assert_eq!((released(&world).await, sets(&world).await.len()), (0, 1));
}

/// DEPLOYMENT-4.
#[tokio::test(start_paused = true)]
async fn sets_with_another_owner_are_left_alone() {
    let world = cluster()
        .settled(merged(
            orphan("theirs", "img:1", 1),
            json!({"metadata": {"ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Thing", "name": "t",
        "uid": "11111111-1111-1111-1111-111111111111", "controller": true}]}}),
        ))
        .await;
    world.clear_log();
    world.create_and_settle(web(1)).await;
    assert!(world.own_write_lines().iter().all(|write| !write.ends_with("theirs")), "{:?}", world.own_write_lines());
    assert_eq!(sets(&world).await.len(), 2);
}

/// DEPLOYMENT-88.
#[tokio::test(start_paused = true)]
async fn denied_adoptions_are_reported_in_one_event_per_sync() {
    let world = cluster().start().await;
    world.fault(rule(Action::Forbidden, "patch", "replicasets"));
    world.create(orphan("one", "img:1", 2)).await;
    world.create_and_settle(orphan("two", "img:0", 1)).await;
    world.clear_log();
    world.create(web(3)).await;
    world.wait(60).await;
    let events = world.list("events").await;
    let told: Vec<_> = events.iter().filter(|event| event["reason"] == "FailedUpdate").collect();
    let [event] = told[..] else { panic!("{events:#?}") };
    let message = event["message"].as_str().unwrap();
    assert!(message.starts_with("Error: cannot adopt ReplicaSet ") && message.contains("is forbidden: "), "{message}");
    let syncs = world.count("get", DEPLOYMENTS);
    assert!((4..=14).contains(&syncs), "it backs off: {syncs}");
    assert_eq!((event["count"].as_u64(), &event["type"]), (Some(syncs), &json!("Warning")));
    world.clear_faults();
    world.wait(120).await;
    assert!(sets(&world).await.iter().all(|set| owner(set) == Some("web")));
}
