//! Taken names, refused requests and lost answers.

use std::time::Duration;

use common::settings::Settings;
use sandbox::{Action, Rule, Sandbox};
use serde_json::json;

use crate::world::{DEPLOYMENTS, ME, NS, SETS, World, name, size, web};

/// DEPLOYMENT-21.
#[tokio::test(start_paused = true)]
async fn a_taken_name_is_replaced_by_another() {
    let mut world = World::new().await;
    // Create a ReplicaSet once to learn its name.
    world.apply(web(1)).await;
    world.settle().await;
    let wanted = name(&world.sets().await[0]).to_owned();
    world.crash();
    world.sandbox.delete(DEPLOYMENTS, Some(NS), "web").await.unwrap();
    world.sandbox.delete(SETS, Some(NS), &wanted).await.unwrap();
    let mut squatter = web(0);
    squatter["kind"] = json!("ReplicaSet");
    squatter["metadata"]["name"] = json!(wanted);
    for at in ["/spec/selector/matchLabels", "/spec/template/metadata/labels", "/metadata/labels"] {
        *squatter.pointer_mut(at).unwrap() = json!({"app": "squatter"});
    }
    world.apply(squatter).await;
    world.start();
    world.apply(web(2)).await;
    world.settle().await;
    assert_eq!(world.web().await["status"]["collisionCount"], 1);
    let sets = world.sets().await;
    assert_eq!(sets.iter().map(size).collect::<Vec<_>>(), [0, 2]);
    assert!(name(&sets[1]).starts_with("web-") && name(&sets[1]) != wanted);
    assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable");
}

/// DEPLOYMENT-23, DEPLOYMENT-63, DEPLOYMENT-87.
#[tokio::test(start_paused = true)]
async fn a_refused_creation_is_reported_and_retried() {
    let world = World::new().await;
    world.sandbox.faults().add(Rule::new(Action::InternalError).identity(ME).verb("create").resource("replicasets"));
    world.apply(web(2)).await;
    world.wait(5.0).await;
    let (reason, status, message) = world.condition("Progressing").await;
    assert_eq!((&*reason, &*status), ("ReplicaSetCreateError", "False"));
    assert!(message.starts_with("Failed to create new replica set \"web-"), "{message}");
    assert!(world.events().await[0].starts_with("ReplicaSetCreateError Failed to create new replica set"));
    let tries = world.asked("create", SETS);
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
        .add(Rule::new(Action::CutAfter).identity(ME).verb("create").resource("replicasets").times(1));
    world.apply(web(2)).await;
    world.settle().await;
    assert_eq!((world.sets().await.len(), world.asked("create", SETS)), (1, 1));
    assert_eq!(world.web().await["status"].get("collisionCount"), None);
    let set = name(&world.sets().await[0]).to_owned();
    assert_eq!(world.events().await, [format!("ScalingReplicaSet Scaled up replica set {set} from 0 to 2")]);
    assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable");
}

/// DEPLOYMENT-76.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_causes_no_second_creation_or_scaling() {
    let world = World::new().await;
    world.sandbox.faults().delay_watch(ME, "replicasets", Duration::from_secs(4));
    world.apply(web(4)).await;
    world.wait(2.0).await;
    assert!(world.explain()["waiting"][0].as_str().unwrap().contains("is not as new as written version"));
    world.wait(60.0).await;
    world.image("img:2").await;
    world.wait(200.0).await;
    assert_eq!(world.sets().await.iter().map(size).collect::<Vec<_>>(), [0, 4]);
    let (most, fewest) = world.extremes(4);
    assert!(most <= 5 && fewest >= 3, "{most} {fewest}");
    assert_eq!(world.asked("create", SETS), 2);
    assert!(world.web().await["status"].get("collisionCount").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_causes_neither_events_nor_retries() {
    let world = World::new().await;
    world.apply(web(1)).await;
    world.settle().await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world.merge(hold).await;
    world.sandbox.delete("namespaces", None, NS).await.unwrap();
    world.settle().await;
    world.forget();
    let before = world.events().await;
    // In a namespace that is not terminating, the new image would cause a new ReplicaSet.
    world.image("img:2").await;
    world.wait(600.0).await;
    assert_eq!(world.asked("create", SETS), 0);
    assert_eq!(world.events().await, before);
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
            world.apply(web(3)).await;
            world.settle().await;
            for verb in ["create", "patch"] {
                let rule = Rule::new(action.clone()).identity(ME).verb(verb).skip(skip).times(1);
                world.sandbox.faults().add(rule);
            }
            world.image("img:2").await;
            world.settle().await;
            world.settle().await;
            let sets = world.sets().await;
            assert_eq!(sets.iter().map(size).collect::<Vec<_>>(), [0, 3], "{action:?} after {skip}");
            assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable", "{action:?} after {skip}");
            let (most, fewest) = world.extremes(3);
            assert!(most <= 4 && fewest >= 3, "{action:?} after {skip}: {most} {fewest}");
        }
    }
}

/// DEPLOYMENT-65.
#[tokio::test(start_paused = true)]
async fn a_rollout_completes_after_an_outage_of_a_minute() {
    let world = World::new().await;
    world.apply(web(4)).await;
    world.settle().await;
    world.image("img:2").await;
    world.wait(0.7).await;
    world.sandbox.faults().go_down_for(Duration::from_mins(1));
    world.wait(120.0).await;
    world.settle().await;
    assert_eq!(world.sets().await.iter().map(size).collect::<Vec<_>>(), [0, 4]);
}

/// DEPLOYMENT-75.
#[tokio::test(start_paused = true)]
async fn without_the_gate_terminating_pods_are_not_counted() {
    let gate = deployment_controller::TERMINATING_REPLICAS.name;
    let world = World::with(Sandbox::builder(), Settings::new().with_gate(gate, false)).await;
    world.apply(web(2)).await;
    world.settle().await;
    assert_eq!(world.web().await["status"].get("terminatingReplicas"), None);
}

/// DEPLOYMENT-75.
#[tokio::test(start_paused = true)]
async fn a_server_that_drops_the_count_gets_no_further_writes() {
    let gate = deployment_controller::TERMINATING_REPLICAS.name;
    let mut world = World::with(Sandbox::builder().gate(gate, false), Settings::new()).await;
    // Without a ReplicaSet controller, the ReplicaSet does not report a count.
    world.neighbours = None;
    world.apply(web(2)).await;
    world.settle().await;
    world.forget();
    world.wait(500.0).await;
    world.merge(json!({"metadata": {"labels": {"poke": "1"}}})).await;
    world.settle().await;
    assert_eq!(world.written(), Vec::<String>::new());
}

/// The watch of Deployments is stale while the garbage collector deletes the dependents of a deleted Deployment.
/// DEPLOYMENT-66.
#[tokio::test(start_paused = true)]
async fn an_unseen_deletion_causes_at_most_two_creations() {
    let world = World::new().await;
    world.apply(web(3)).await;
    world.settle().await;
    world.sandbox.faults().hold_watch(ME, "deployments");
    world.sandbox.delete("deployments.apps", Some(NS), "web").await.unwrap();
    world.forget();
    for _ in 0..300 {
        for set in world.sets().await {
            world.sandbox.delete(SETS, Some(NS), name(&set)).await.unwrap();
        }
        world.wait(0.1).await;
    }
    let created = world.asked("create", SETS);
    assert!((1..=2).contains(&created), "{created} ReplicaSets in 30 seconds");
    world.sandbox.faults().release_watch(ME, "deployments");
    world.settle().await;
    assert_eq!(world.asked("create", SETS), created);
}
