//! Names that are taken, servers that refuse, answers that get lost.

use std::time::Duration;

use common::settings::Settings;
use sandbox::{Action, Rule, Sandbox};
use serde_json::json;

use crate::world::{DEPLOYMENTS, ME, NS, SETS, World, name, size, web};

#[tokio::test(start_paused = true)]
async fn a_taken_name_leads_to_another() {
    let mut world = World::new().await;
    // What name will be wanted.
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

#[tokio::test(start_paused = true)]
async fn a_refused_creation_is_said_and_tried_again() {
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
    // Upstream gives up after 16 times, 164 seconds.
    world.wait(2000.0).await;
    world.sandbox.faults().clear();
    world.wait(1100.0).await;
    assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable");
}

#[tokio::test(start_paused = true)]
async fn a_creation_whose_answer_was_lost_is_not_repeated_and_is_told() {
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

#[tokio::test(start_paused = true)]
async fn a_cache_that_lags_neither_creates_nor_sizes_twice() {
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
async fn a_terminating_namespace_gets_no_event_and_no_more_tries() {
    let world = World::new().await;
    world.apply(web(1)).await;
    world.settle().await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world.merge(hold).await;
    world.sandbox.delete("namespaces", None, NS).await.unwrap();
    world.settle().await;
    world.forget();
    let before = world.events().await;
    // Were it not for the namespace, a new ReplicaSet would be made; the Deployment is being deleted, too.
    world.image("img:2").await;
    world.wait(600.0).await;
    assert_eq!(world.asked("create", SETS), 0);
    assert_eq!(world.events().await, before);
}

#[tokio::test(start_paused = true)]
async fn every_error_in_a_rollout_is_got_over() {
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

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_for_a_minute_stops_nothing_for_good() {
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

#[tokio::test(start_paused = true)]
async fn without_the_gate_nobody_counts_terminating_pods() {
    let gate = deployment_controller::TERMINATING_REPLICAS.name;
    let world = World::with(Sandbox::builder(), Settings::new().with_gate(gate, false)).await;
    world.apply(web(2)).await;
    world.settle().await;
    assert_eq!(world.web().await["status"].get("terminatingReplicas"), None);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_drops_the_count_is_not_written_to_for_ever() {
    let gate = deployment_controller::TERMINATING_REPLICAS.name;
    let mut world = World::with(Sandbox::builder().gate(gate, false), Settings::new()).await;
    // Nobody looks at its ReplicaSet, which therefore says nothing.
    world.neighbours = None;
    world.apply(web(2)).await;
    world.settle().await;
    world.forget();
    world.wait(500.0).await;
    world.merge(json!({"metadata": {"labels": {"poke": "1"}}})).await;
    world.settle().await;
    assert_eq!(world.written(), Vec::<String>::new());
}

/// The watch of Deployments is behind while the garbage collector deletes what a deleted Deployment owned.
#[tokio::test(start_paused = true)]
async fn a_deployment_that_is_gone_unseen_is_not_rolled_out_again_and_again() {
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
