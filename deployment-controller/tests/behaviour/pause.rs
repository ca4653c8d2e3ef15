//! Pausing and resuming a Deployment.

use crate::world::*;

/// DEPLOYMENT-44, DEPLOYMENT-45.
#[tokio::test(start_paused = true)]
async fn a_paused_deployment_is_scaled_and_not_rolled_out() {
    let world = cluster().settled(web(3)).await;
    world.change_and_settle(json!({"paused": true})).await;
    assert_eq!(whole_progress(&world).await, json!(["DeploymentPaused", "Unknown", "Deployment is paused"]));
    world.roll_out("img:2", json!({})).await;
    world.change_and_settle(json!({"replicas": 5})).await;
    assert_eq!(sizes(&world).await, [5]);
    assert_eq!(world.status().await.get("updatedReplicas"), None);
    assert_eq!(world.explain()["waiting"], json!(["paused: the template is not rolled out"]));
    // The pause lasts longer than the progress deadline.
    world.wait(3000).await;
    world.change_and_settle(json!({"paused": false})).await;
    assert_eq!(sizes(&world).await, [0, 5]);
    assert_eq!(progress(&world).await, "NewReplicaSetAvailable");
}

/// DEPLOYMENT-44.
#[tokio::test(start_paused = true)]
async fn a_pause_suspends_a_rollout() {
    let world = cluster().settled(web(4)).await;
    world.roll_out("img:2", json!({})).await;
    world.wait(0.5).await;
    world.change_and_settle(json!({"paused": true})).await;
    assert_eq!(sizes(&world).await, [3, 2]);
    world.change_and_settle(json!({"paused": false})).await;
    assert_eq!(sizes(&world).await, [0, 4]);
}
