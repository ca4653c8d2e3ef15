//! Adoption and release of ReplicaSets.

use crate::world::*;

fn owner(set: &Value) -> Option<&str> {
    set["metadata"]["ownerReferences"][0]["name"].as_str()
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
async fn a_refused_release_is_retried_slowly_and_the_set_still_counts_and_rolls_out() {
    let world = releasing(Action::Invalid).await;
    assert_eq!(sizes(&world).await, [2]);
    assert_eq!(world.count("patch", REPLICA_SETS), 1);
    assert_eq!(progress(&world).await, "NewReplicaSetAvailable");
    world.wait(3000).await;
    world.assert_count("patch", REPLICA_SETS, 8..13);
    world.clear_faults();
    world.roll_out("img:2", json!({})).await;
    world.wait(60).await;
    assert_eq!(size_of(sets(&world).await.last().unwrap()), 2);
    assert_eq!(progress(&world).await, "NewReplicaSetAvailable");
    world.wait(260).await;
    assert_eq!((released(&world).await, sets(&world).await.len()), (1, 2));
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

/// DEPLOYMENT-6, DEPLOYMENT-88.
#[tokio::test(start_paused = true)]
async fn denied_adoptions_are_reported_in_one_event_per_sync() {
    let world = cluster().start().await;
    world.fault(rule(Action::Forbidden, "patch", "replicasets"));
    world.create(orphan("one", "img:1", 2)).await;
    world.create_and_settle(orphan("two", "img:0", 1)).await;
    world.clear_log();
    world.create(web(3)).await;
    world.wait(60).await;
    let syncs = world.count("get", DEPLOYMENTS);
    assert!((4..=14).contains(&syncs), "it backs off: {syncs}");
    let events = world.events().await;
    let denied: Vec<&String> = events.iter().filter(|event| event.contains(" FailedUpdate ")).collect();
    let is_denial = |event: &str| {
        event.starts_with("Warning FailedUpdate Error: cannot adopt ReplicaSet ") && event.contains("is forbidden: ")
    };
    assert!(matches!(denied[..], [event] if is_denial(event)), "{events:#?}");
    assert_eq!(world.event_repetitions("FailedUpdate").await, syncs.cast_signed(), "one live read a sync");
    world.clear_faults();
    world.wait(120).await;
    assert!(sets(&world).await.iter().all(|set| owner(set) == Some("web")));
}
