//! Taken names, refused requests and lost answers.

use std::time::Duration;

use common::settings::OperatorSettings;
use sandbox::{Action, Rule, Sandbox};
use serde_json::json;

use crate::world::{
    CONTROLLER_IDENTITY, DEPLOYMENTS, NAMESPACE, REPLICA_SETS, World, name_of, size_of_set, web_deployment,
};

/// DEPLOYMENT-21.
#[tokio::test(start_paused = true)]
async fn a_taken_name_is_replaced_by_another() {
    let mut world = World::new().await;
    // Create a ReplicaSet once to learn its name.
    world.create_object(web_deployment(1)).await;
    world.settle().await;
    let wanted = name_of(&world.list_sets().await[0]).to_owned();
    world.crash();
    world.sandbox.delete(DEPLOYMENTS, Some(NAMESPACE), "web").await.unwrap();
    world.sandbox.delete(REPLICA_SETS, Some(NAMESPACE), &wanted).await.unwrap();
    let mut squatter = web_deployment(0);
    squatter["kind"] = json!("ReplicaSet");
    squatter["metadata"]["name"] = json!(wanted);
    for at in ["/spec/selector/matchLabels", "/spec/template/metadata/labels", "/metadata/labels"] {
        *squatter.pointer_mut(at).unwrap() = json!({"app": "squatter"});
    }
    world.create_object(squatter).await;
    world.start();
    world.create_object(web_deployment(2)).await;
    world.settle().await;
    assert_eq!(world.get_web().await["status"]["collisionCount"], 1);
    let sets = world.list_sets().await;
    assert_eq!(sets.iter().map(size_of_set).collect::<Vec<_>>(), [0, 2]);
    assert!(name_of(&sets[1]).starts_with("web-") && name_of(&sets[1]) != wanted);
    assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable");
}

/// DEPLOYMENT-23, DEPLOYMENT-63, DEPLOYMENT-87.
#[tokio::test(start_paused = true)]
async fn a_refused_creation_is_reported_and_retried() {
    let world = World::new().await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::InternalError).identity(CONTROLLER_IDENTITY).verb("create").resource("replicasets"));
    world.create_object(web_deployment(2)).await;
    world.wait(5.0).await;
    let (reason, status, message) = world.condition("Progressing").await;
    assert_eq!((&*reason, &*status), ("ReplicaSetCreateError", "False"));
    assert!(message.starts_with("Failed to create new replica set \"web-"), "{message}");
    assert!(world.deployment_events().await[0].starts_with("ReplicaSetCreateError Failed to create new replica set"));
    let tries = world.request_count("create", REPLICA_SETS);
    assert!((8..=12).contains(&tries), "it backs off: {tries}");
    assert!(world.explain()["lastError"]["error"].as_str().unwrap().starts_with("cannot create ReplicaSet web-"));
    // Upstream gives up after 16 attempts, or 164 seconds.
    world.wait(2000.0).await;
    world.sandbox.faults().clear();
    world.wait(1100.0).await;
    assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable");
}

/// DEPLOYMENT-22.
#[tokio::test(start_paused = true)]
async fn a_creation_without_an_answer_is_not_repeated_and_gets_its_event() {
    let world = World::new().await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::CutAfter).identity(CONTROLLER_IDENTITY).verb("create").resource("replicasets").times(1));
    world.create_object(web_deployment(2)).await;
    world.settle().await;
    assert_eq!((world.list_sets().await.len(), world.request_count("create", REPLICA_SETS)), (1, 1));
    assert_eq!(world.get_web().await["status"].get("collisionCount"), None);
    let set = name_of(&world.list_sets().await[0]).to_owned();
    assert_eq!(world.deployment_events().await, [format!("ScalingReplicaSet Scaled up replica set {set} from 0 to 2")]);
    assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable");
}

/// DEPLOYMENT-76.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_causes_no_second_creation_or_scaling() {
    let world = World::new().await;
    world.sandbox.faults().delay_watch(CONTROLLER_IDENTITY, "replicasets", Duration::from_secs(4));
    world.create_object(web_deployment(4)).await;
    world.wait(2.0).await;
    assert!(world.explain()["waiting"][0].as_str().unwrap().contains("is not as new as written version"));
    world.wait(60.0).await;
    world.set_image("img:2").await;
    world.wait(200.0).await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [0, 4]);
    let (most, fewest) = world.pod_count_extremes(4);
    assert!(most <= 5 && fewest >= 3, "{most} {fewest}");
    assert_eq!(world.request_count("create", REPLICA_SETS), 2);
    assert!(world.get_web().await["status"].get("collisionCount").is_none());
}

/// DEPLOYMENT-24. The ReplicaSet goes with its namespace before the controller sees that the Deployment is terminating, too.
#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_causes_neither_events_nor_retries() {
    let world = World::new().await;
    world.create_object(web_deployment(1)).await;
    world.settle().await;
    world.patch_web(json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    world.settle().await;
    let conditions = world.get_web().await["status"]["conditions"].clone();
    world.clear_logs();
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "deployments");
    world.sandbox.delete("namespaces", None, NAMESPACE).await.unwrap();
    // Less than the progress deadline, at which each Deployment is synced.
    world.wait(300.0).await;
    assert_eq!(world.request_count("create", REPLICA_SETS), 1);
    assert_eq!(world.request_count("create", "events"), 0);
    assert_eq!(world.get_web().await["status"]["conditions"], conditions);
}

/// DEPLOYMENT-65.
#[tokio::test(start_paused = true)]
async fn a_rollout_completes_after_any_error() {
    for action in [
        Action::Conflict,
        Action::TooManyRequests(1),
        Action::InternalError,
        Action::Unavailable,
        Action::CutBefore,
        Action::CutAfter,
    ] {
        for skip in [0, 1, 2, 3, 5, 8] {
            let world = World::new().await;
            world.create_object(web_deployment(3)).await;
            world.settle().await;
            for verb in ["create", "patch"] {
                let rule = Rule::new(action.clone()).identity(CONTROLLER_IDENTITY).verb(verb).skip(skip).times(1);
                world.sandbox.faults().add(rule);
            }
            world.set_image("img:2").await;
            world.settle().await;
            world.settle().await;
            let sets = world.list_sets().await;
            assert_eq!(sets.iter().map(size_of_set).collect::<Vec<_>>(), [0, 3], "{action:?} after {skip}");
            assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable", "{action:?} after {skip}");
            let (most, fewest) = world.pod_count_extremes(3);
            assert!(most <= 4 && fewest >= 3, "{action:?} after {skip}: {most} {fewest}");
        }
    }
}

/// DEPLOYMENT-65.
#[tokio::test(start_paused = true)]
async fn a_rollout_completes_after_an_outage_of_a_minute() {
    let world = World::new().await;
    world.create_object(web_deployment(4)).await;
    world.settle().await;
    world.set_image("img:2").await;
    world.wait(0.7).await;
    world.sandbox.faults().go_down_for(Duration::from_mins(1));
    world.wait(120.0).await;
    world.settle().await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [0, 4]);
}

/// DEPLOYMENT-75.
#[tokio::test(start_paused = true)]
async fn without_the_gate_terminating_pods_are_not_counted() {
    let gate = deployment_controller::TERMINATING_REPLICAS_GATE.name;
    let world = World::with_sandbox(Sandbox::builder(), OperatorSettings::new().with_feature_gate(gate, false)).await;
    world.create_object(web_deployment(2)).await;
    world.settle().await;
    assert_eq!(world.get_web().await["status"].get("terminatingReplicas"), None);
}

/// DEPLOYMENT-75.
#[tokio::test(start_paused = true)]
async fn a_server_that_drops_the_count_gets_no_further_writes() {
    let gate = deployment_controller::TERMINATING_REPLICAS_GATE.name;
    let mut world = World::with_sandbox(Sandbox::builder().gate(gate, false), OperatorSettings::new()).await;
    // Without a ReplicaSet controller, the ReplicaSet does not report its number of terminating Pods.
    world.replica_set_controller = None;
    world.create_object(web_deployment(2)).await;
    world.settle().await;
    world.clear_logs();
    world.wait(500.0).await;
    world.patch_web(json!({"metadata": {"labels": {"poke": "1"}}})).await;
    world.settle().await;
    assert_eq!(world.own_writes(), Vec::<String>::new());
}

/// The watch of Deployments is stale while the garbage collector deletes the dependents of a deleted Deployment.
/// DEPLOYMENT-66.
#[tokio::test(start_paused = true)]
async fn an_unseen_deletion_causes_at_most_two_creations() {
    let world = World::new().await;
    world.create_object(web_deployment(3)).await;
    world.settle().await;
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "deployments");
    world.sandbox.delete("deployments.apps", Some(NAMESPACE), "web").await.unwrap();
    world.clear_logs();
    for _ in 0..300 {
        for set in world.list_sets().await {
            world.sandbox.delete(REPLICA_SETS, Some(NAMESPACE), name_of(&set)).await.unwrap();
        }
        world.wait(0.1).await;
    }
    let created = world.request_count("create", REPLICA_SETS);
    assert!((1..=2).contains(&created), "{created} ReplicaSets in 30 seconds");
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "deployments");
    world.settle().await;
    assert_eq!(world.request_count("create", REPLICA_SETS), created);
}
