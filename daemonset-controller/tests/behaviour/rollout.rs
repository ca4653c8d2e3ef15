//! Rolling updates and `OnDelete`.

use crate::world::*;

/// DAEMONSET-21, DAEMONSET-33, DAEMONSET-36, DAEMONSET-56, DAEMONSET-60.
#[tokio::test(start_paused = true)]
async fn every_node_gets_a_pod_and_a_rollout_replaces_one_at_a_time() {
    let world = cluster().settled(agent()).await;
    assert_eq!(pod_writes(&world), ["+node-0", "+node-1", "+node-2"]);
    let pod = pod_on(&world, "node-1").await;
    assert_eq!(pod["spec"]["nodeName"], "node-1");
    assert_eq!(pod["metadata"]["generateName"], "agent-");
    let revision = world.get(REVISIONS, &world.names(REVISIONS).await[0]).await;
    let hash = &revision["metadata"]["labels"]["controller-revision-hash"];
    assert_eq!(revision["metadata"]["name"], format!("agent-{}", hash.as_str().unwrap()));
    let labels = &pod["metadata"]["labels"];
    assert_eq!((&labels["app"], &labels["controller-revision-hash"]), (&json!("agent"), hash));
    assert_eq!(labels["pod-template-generation"], "1");
    assert_eq!(
        world.status().await,
        json!({"currentNumberScheduled": 3, "numberMisscheduled": 0, "desiredNumberScheduled": 3, "numberReady": 3,
            "observedGeneration": 1, "updatedNumberScheduled": 3, "numberAvailable": 3})
    );
    world.clear_log();
    world.roll_out_and_settle("img:2").await;
    assert_eq!(pod_writes(&world), ["-node-0", "+node-0", "-node-1", "+node-1", "-node-2", "+node-2"]);
    assert_images(&world, "img:2", "").await;
    assert_eq!(pick(&world.status().await, "updatedNumberScheduled observedGeneration"), json!([3, 2]));
    assert_eq!(world.names(REVISIONS).await.len(), 2);
    let events = world.events().await;
    let count = |reason: &str| events.iter().filter(|event| event.contains(reason)).count();
    assert_eq!((count("SuccessfulCreate Created pod: agent-"), count("SuccessfulDelete Deleted pod: agent-")), (6, 3));
}

/// DAEMONSET-52.
#[tokio::test(start_paused = true)]
async fn with_surge_the_new_pod_is_available_before_the_old_one_is_deleted() {
    let world = cluster().settled(rolling(0, 1)).await;
    world.clear_log();
    world.roll_out("img:2", json!({"sim/ready-after": "10"})).await;
    world.settle().await;
    world.wait(60).await;
    assert_eq!(pod_writes(&world), ["+node-0", "-node-0", "+node-1", "-node-1", "+node-2", "-node-2"]);
    assert_images(&world, "img:2", "").await;
}

/// DAEMONSET-49.
#[tokio::test(start_paused = true)]
async fn at_most_the_allowed_number_of_nodes_has_no_available_pod() {
    let world = cluster().settled(rolling("50%", 0)).await;
    world.clear_log();
    world.roll_out("img:2", json!({"sim/ready-after": "600"})).await;
    world.wait(300).await;
    assert_eq!(pod_writes(&world), ["-node-0", "-node-1", "+node-0", "+node-1"]);
    let waiting = world.waiting();
    assert!(
        waiting.contains("1 outdated Pods wait: maxUnavailable is 2, and 2 nodes have no available Pod"),
        "{waiting}"
    );
    assert!(waiting.contains("node node-0: Pod agent-"), "{waiting}");
    world.wait(1500).await;
    assert_images(&world, "img:2", "").await;
}

/// DAEMONSET-55.
#[tokio::test(start_paused = true)]
async fn on_delete_replaces_only_pods_that_users_delete() {
    let world = cluster().settled(daemon_set(json!({"updateStrategy": {"type": "OnDelete"}}))).await;
    world.roll_out_and_settle("img:2").await;
    assert_images(&world, "img:1", "").await;
    let pod = pod_on(&world, "node-1").await;
    world.delete_and_settle("pods", pod["metadata"]["name"].as_str().unwrap()).await;
    assert_eq!(images(&world).await, ["node-0 img:1", "node-1 img:2", "node-2 img:1"]);
    assert_eq!(world.status().await["updatedNumberScheduled"], json!(1));
}

/// DAEMONSET-10, DAEMONSET-48.
#[tokio::test(start_paused = true)]
async fn a_rollout_waits_until_a_ready_pod_becomes_available() {
    let world = cluster().start().await;
    world.create(daemon_set(json!({"minReadySeconds": 30}))).await;
    world.wait(20).await;
    assert_eq!(world.status().await.get("numberAvailable"), None::<&Value>);
    world.wait(15).await;
    assert_eq!(world.status().await["numberAvailable"], json!(3));
    world.clear_log();
    world.roll_out("img:2", json!({})).await;
    world.wait(20).await;
    assert_eq!(pod_writes(&world), ["-node-0", "+node-0"]);
    world.wait(100).await;
    assert_images(&world, "img:2", "").await;
}
