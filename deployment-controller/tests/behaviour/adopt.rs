//! Adoption and release of ReplicaSets.

use sandbox::{Action, Rule};
use serde_json::{Value, json};

use crate::world::{
    CONTROLLER_IDENTITY, DEPLOYMENTS, NAMESPACE, REPLICA_SETS, World, name_of, revision_of, size_of_set, web_deployment,
};

fn orphan(set_name: &str, image: &str, replicas: usize) -> Value {
    let mut set = web_deployment(replicas);
    set["kind"] = json!("ReplicaSet");
    set["metadata"]["name"] = json!(set_name);
    set["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    set
}

fn owner(set: &Value) -> Option<&str> {
    set["metadata"]["ownerReferences"][0]["name"].as_str()
}

/// DEPLOYMENT-5, DEPLOYMENT-6.
#[tokio::test(start_paused = true)]
async fn orphans_are_adopted_after_one_live_read_and_used() {
    let world = World::new().await;
    world.create_object(orphan("one", "img:1", 2)).await;
    world.create_object(orphan("two", "img:0", 1)).await;
    world.settle().await;
    world.clear_logs();
    world.create_object(web_deployment(3)).await;
    world.settle().await;
    assert_eq!(world.request_count("get", DEPLOYMENTS), 1);
    let mut sets = world.list_sets().await;
    sets.sort_by_key(|set| name_of(set).to_owned());
    assert_eq!(sets.len(), 2, "one orphan already has the current template");
    assert!(sets.iter().all(|set| owner(set) == Some("web")));
    let reference = &sets[0]["metadata"]["ownerReferences"][0];
    assert_eq!((&reference["controller"], &reference["blockOwnerDeletion"]), (&json!(true), &json!(true)));
    assert_eq!(sets.iter().map(size_of_set).collect::<Vec<_>>(), [3, 0]);
    assert_eq!(sets.iter().map(revision_of).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(sets[0]["metadata"]["labels"], json!({"app": "web"}), "no label is added");
}

/// DEPLOYMENT-4, DEPLOYMENT-9, DEPLOYMENT-21.
#[tokio::test(start_paused = true)]
async fn a_set_that_no_longer_matches_is_released_and_replaced() {
    let world = World::new().await;
    world.create_object(web_deployment(2)).await;
    world.settle().await;
    let set = name_of(&world.list_sets().await[0]).to_owned();
    world
        .sandbox
        .merge(REPLICA_SETS, Some(NAMESPACE), &set, None, json!({"metadata": {"labels": {"app": "other"}}}))
        .await
        .unwrap();
    world.settle().await;
    let sets = world.list_sets().await;
    let released = sets.iter().find(|s| name_of(s) == set).unwrap();
    assert_eq!(owner(released), None);
    // The released ReplicaSet keeps its name, so the new ReplicaSet gets another name.
    assert_eq!(sets.len(), 2);
    let made = sets.iter().find(|s| name_of(s) != set).unwrap();
    assert_eq!((owner(made), size_of_set(made)), (Some("web"), 2));
    assert_eq!(world.get_web().await["status"]["collisionCount"], 1);
}

/// Returns a world in which the server has answered the release of a ReplicaSet with `action` for 250 seconds.
async fn releasing(action: Action) -> World {
    let world = World::new().await;
    world.create_object(web_deployment(2)).await;
    world.settle().await;
    let set = name_of(&world.list_sets().await[0]).to_owned();
    world.sandbox.faults().add(Rule::new(action).identity(CONTROLLER_IDENTITY).verb("patch").object(NAMESPACE, &*set));
    world
        .sandbox
        .merge(REPLICA_SETS, Some(NAMESPACE), &set, None, json!({"metadata": {"labels": {"app": "other"}}}))
        .await
        .unwrap();
    world.clear_logs();
    world.wait(250.0).await;
    world
}

/// Returns the number of ReplicaSets without an owner.
async fn released(world: &World) -> usize {
    world.list_sets().await.iter().filter(|set| owner(set).is_none()).count()
}

/// DEPLOYMENT-84.
#[tokio::test(start_paused = true)]
async fn a_refused_release_is_retried_slowly_and_the_set_still_counts() {
    let world = releasing(Action::Invalid).await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [2]);
    assert_eq!(world.request_count("patch", REPLICA_SETS), 1);
    assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable");
    world.wait(3000.0).await;
    assert!(
        (8..13).contains(&world.request_count("patch", REPLICA_SETS)),
        "{}",
        world.request_count("patch", REPLICA_SETS)
    );
    world.sandbox.faults().clear();
    world.wait(320.0).await;
    assert_eq!((released(&world).await, world.list_sets().await.len()), (1, 2));
}

/// DEPLOYMENT-84.
#[tokio::test(start_paused = true)]
async fn a_refused_release_does_not_stop_rollouts() {
    let world = releasing(Action::Invalid).await;
    // From now on the server accepts patches: both the new size and the next release succeed.
    world.sandbox.faults().clear();
    world.set_image("img:2").await;
    world.wait(60.0).await;
    let sets = world.list_sets().await;
    assert_eq!(size_of_set(sets.last().unwrap()), 2);
    assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable");
    assert_eq!(released(&world).await, 1);
}

/// DEPLOYMENT-10.
#[tokio::test(start_paused = true)]
async fn a_failed_release_ends_the_sync() {
    let world = releasing(Action::InternalError).await;
    assert_eq!(world.list_sets().await.len(), 1);
    let error = world.explain()["lastError"]["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("cannot release ReplicaSet web-"), "{error}");
    world.sandbox.faults().clear();
    world.wait(600.0).await;
    assert_eq!((released(&world).await, world.list_sets().await.len()), (1, 2));
}

/// DEPLOYMENT-11.
#[tokio::test(start_paused = true)]
async fn a_set_that_matches_again_unseen_is_kept() {
    let world = releasing(Action::InternalError).await;
    let set = name_of(&world.list_sets().await[0]).to_owned();
    // From now on the server accepts patches, but the watch delivers no events.
    world.sandbox.faults().clear();
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "replicasets");
    world
        .sandbox
        .merge(REPLICA_SETS, Some(NAMESPACE), &set, None, json!({"metadata": {"labels": {"app": "web"}}}))
        .await
        .unwrap();
    world.clear_logs();
    world.wait(600.0).await;
    assert!(world.request_count("patch", REPLICA_SETS) >= 1, "no release was attempted");
    assert_eq!((released(&world).await, world.list_sets().await.len()), (0, 1));
    world.sandbox.faults().clear();
    world.wait(60.0).await;
    assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable");
    assert_eq!((released(&world).await, world.list_sets().await.len()), (0, 1));
}

/// DEPLOYMENT-4.
#[tokio::test(start_paused = true)]
async fn sets_with_another_owner_are_left_alone() {
    let world = World::new().await;
    let mut set = orphan("theirs", "img:1", 1);
    set["metadata"]["ownerReferences"] = json!([{"apiVersion": "example.com/v1", "kind": "Thing", "name": "t",
        "uid": "11111111-1111-1111-1111-111111111111", "controller": true}]);
    world.create_object(set).await;
    world.settle().await;
    world.clear_logs();
    world.create_object(web_deployment(1)).await;
    world.settle().await;
    assert!(world.own_writes().iter().all(|write| !write.ends_with("theirs")), "{:?}", world.own_writes());
    assert_eq!(world.list_sets().await.len(), 2);
}

/// DEPLOYMENT-88.
#[tokio::test(start_paused = true)]
async fn denied_adoptions_are_reported_in_one_event_per_sync() {
    let world = World::new().await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::Forbidden).identity(CONTROLLER_IDENTITY).verb("patch").resource("replicasets"));
    world.create_object(orphan("one", "img:1", 2)).await;
    world.create_object(orphan("two", "img:0", 1)).await;
    world.settle().await;
    world.clear_logs();
    world.create_object(web_deployment(3)).await;
    world.wait(60.0).await;
    let events = world.sandbox.list("events", Some(NAMESPACE)).await.unwrap();
    let told: Vec<_> = events.iter().filter(|event| event["reason"] == "FailedUpdate").collect();
    let [event] = told[..] else { panic!("{events:#?}") };
    let message = event["message"].as_str().unwrap();
    assert!(message.starts_with("Error: cannot adopt ReplicaSet ") && message.contains("is forbidden: "), "{message}");
    let syncs = world.request_count("get", DEPLOYMENTS);
    assert!((4..=14).contains(&syncs), "it backs off: {syncs}");
    assert_eq!((event["count"].as_u64(), &event["type"]), (Some(syncs), &json!("Warning")));
    world.sandbox.faults().clear();
    world.wait(120.0).await;
    assert!(world.list_sets().await.iter().all(|set| owner(set) == Some("web")));
}
