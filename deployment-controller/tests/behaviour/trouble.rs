//! Taken names, refused requests and lost answers.

use crate::world::*;

/// DEPLOYMENT-23, DEPLOYMENT-63, DEPLOYMENT-87.
#[tokio::test(start_paused = true)]
async fn a_refused_creation_is_reported_and_retried() {
    let world = cluster().start().await;
    world.fault(rule(Action::InternalError, "create", "replicasets"));
    world.create(web(2)).await;
    world.wait(5).await;
    let condition = world.condition("Progressing").await;
    assert_eq!(pick(&condition, "reason status"), json!(["ReplicaSetCreateError", "False"]));
    let message = text(&condition, "message");
    assert!(message.starts_with("Failed to create new replica set \"web-"), "{message}");
    world.assert_event("Warning ReplicaSetCreateError Failed to create new replica set").await;
    world.assert_count("create", REPLICA_SETS, 8..=12);
    assert!(world.explain()["lastError"]["error"].as_str().unwrap().starts_with("cannot create ReplicaSet web-"));
    // Upstream gives up after 16 attempts, or 164 seconds.
    world.wait(2000).await;
    world.clear_faults();
    world.wait(1100).await;
    assert_eq!(progress(&world).await, "NewReplicaSetAvailable");
}

/// DEPLOYMENT-22.
#[tokio::test(start_paused = true)]
async fn a_creation_without_an_answer_is_not_repeated_and_gets_its_event() {
    let world = cluster().start().await;
    world.fault(rule(Action::CutAfter, "create", "replicasets").times(1));
    world.create_and_settle(web(2)).await;
    assert_eq!((sets(&world).await.len(), world.count("create", REPLICA_SETS)), (1, 1));
    assert_eq!(world.status().await.get("collisionCount"), None);
    let set = name(&sets(&world).await[0]).to_owned();
    let scaled = format!("Normal ScalingReplicaSet Scaled up replica set {set} from 0 to 2");
    assert_eq!((world.repetitions_of("Normal ScalingReplicaSet").await, world.event_count(&scaled).await), (1, 1));
    assert_eq!(progress(&world).await, "NewReplicaSetAvailable");
}

/// DEPLOYMENT-24. The ReplicaSet goes with its namespace before the controller sees that the Deployment is terminating, too.
#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_causes_neither_events_nor_retries() {
    let world = cluster().settled(web(1)).await;
    patch_web(&world, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    world.settle().await;
    let conditions = world.status().await["conditions"].clone();
    world.clear_log();
    world.hold("deployments");
    world.delete("namespaces", NAMESPACE).await;
    // Less than the progress deadline, at which each Deployment is synced.
    world.wait(300).await;
    assert_eq!(world.count("create", REPLICA_SETS), 1);
    assert_eq!(world.count("create", "events"), 0);
    assert_eq!(world.status().await["conditions"], conditions);
}

/// DEPLOYMENT-65.
#[tokio::test(start_paused = true)]
async fn a_rollout_completes_after_an_outage_of_a_minute() {
    let world = cluster().settled(web(4)).await;
    world.roll_out("img:2", json!({})).await;
    world.wait(0.7).await;
    world.sandbox.faults().go_down_for(Duration::from_mins(1));
    world.wait(120).await;
    world.settle().await;
    assert_eq!(sizes(&world).await, [0, 4]);
}

/// DEPLOYMENT-75.
#[tokio::test(start_paused = true)]
async fn without_the_gate_terminating_pods_are_not_counted() {
    let gate = deployment_controller::TERMINATING_REPLICAS_GATE.name;
    let world = cluster().gate(gate, false).settled(web(2)).await;
    assert_eq!(world.status().await.get("terminatingReplicas"), None);
}

/// DEPLOYMENT-75.
#[tokio::test(start_paused = true)]
async fn a_server_that_drops_the_count_gets_no_further_writes() {
    let gate = deployment_controller::TERMINATING_REPLICAS_GATE.name;
    let mut world = cluster().server(|server| server.gate(gate, false)).start().await;
    // Without a ReplicaSet controller, the ReplicaSet does not report its number of terminating Pods.
    world.stop_replica_sets();
    world.create_and_settle(web(2)).await;
    world.clear_log();
    world.wait(500).await;
    patch_web(&world, json!({"metadata": {"labels": {"poke": "1"}}})).await;
    world.settle().await;
    world.assert_wrote_nothing();
}

/// The watch of Deployments is stale while the garbage collector deletes the dependents of a deleted Deployment.
/// DEPLOYMENT-66.
#[tokio::test(start_paused = true)]
async fn an_unseen_deletion_causes_at_most_two_creations() {
    let world = cluster().settled(web(3)).await;
    world.hold("deployments");
    world.delete("deployments.apps", "web").await;
    world.clear_log();
    for _ in 0..300 {
        for set in sets(&world).await {
            world.delete(REPLICA_SETS, name(&set)).await;
        }
        world.wait(0.1).await;
    }
    let created = world.count("create", REPLICA_SETS);
    assert!((1..=2).contains(&created), "{created} ReplicaSets in 30 seconds");
    world.release("deployments");
    world.settle().await;
    assert_eq!(world.count("create", REPLICA_SETS), created);
}
