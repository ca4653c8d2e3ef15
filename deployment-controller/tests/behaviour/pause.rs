//! Pausing and resuming a Deployment.

use serde_json::json;

use crate::world::{World, size, web};

/// DEPLOYMENT-44, DEPLOYMENT-45.
#[tokio::test(start_paused = true)]
async fn a_paused_deployment_is_scaled_and_not_rolled_out() {
    let world = World::new().await;
    world.apply(web(3)).await;
    world.settle().await;
    world.merge(json!({"spec": {"paused": true}})).await;
    world.settle().await;
    assert_eq!(
        world.condition("Progressing").await,
        ("DeploymentPaused".into(), "Unknown".into(), "Deployment is paused".into())
    );
    world.image("img:2").await;
    world.scale(5).await;
    world.settle().await;
    assert_eq!(world.sets().await.iter().map(size).collect::<Vec<_>>(), [5]);
    assert_eq!(world.web().await["status"].get("updatedReplicas"), None);
    assert_eq!(world.explain()["waiting"], json!(["paused: the template is not rolled out"]));
    // The pause lasts longer than the progress deadline.
    world.wait(3000.0).await;
    world.merge(json!({"spec": {"paused": false}})).await;
    world.settle().await;
    assert_eq!(world.sets().await.iter().map(size).collect::<Vec<_>>(), [0, 5]);
    assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable");
}

/// DEPLOYMENT-44.
#[tokio::test(start_paused = true)]
async fn a_pause_suspends_a_rollout() {
    let world = World::new().await;
    world.apply(web(4)).await;
    world.settle().await;
    world.image("img:2").await;
    world.wait(0.5).await;
    world.merge(json!({"spec": {"paused": true}})).await;
    world.settle().await;
    let sizes: Vec<i64> = world.sets().await.iter().map(size).collect();
    assert_eq!(sizes, [3, 2]);
    world.merge(json!({"spec": {"paused": false}})).await;
    world.settle().await;
    assert_eq!(world.sets().await.iter().map(size).collect::<Vec<_>>(), [0, 4]);
}
