//! Pausing and resuming a Deployment.

use serde_json::json;

use crate::world::{World, size_of_set, web_deployment};

/// DEPLOYMENT-44, DEPLOYMENT-45.
#[tokio::test(start_paused = true)]
async fn a_paused_deployment_is_scaled_and_not_rolled_out() {
    let world = World::new().await;
    world.create_object(web_deployment(3)).await;
    world.settle().await;
    world.patch_web(json!({"spec": {"paused": true}})).await;
    world.settle().await;
    assert_eq!(
        world.condition("Progressing").await,
        ("DeploymentPaused".into(), "Unknown".into(), "Deployment is paused".into())
    );
    world.set_image("img:2").await;
    world.set_replicas(5).await;
    world.settle().await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [5]);
    assert_eq!(world.get_web().await["status"].get("updatedReplicas"), None);
    assert_eq!(world.explain()["waiting"], json!(["paused: the template is not rolled out"]));
    // The pause lasts longer than the progress deadline.
    world.wait(3000.0).await;
    world.patch_web(json!({"spec": {"paused": false}})).await;
    world.settle().await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [0, 5]);
    assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable");
}

/// DEPLOYMENT-44.
#[tokio::test(start_paused = true)]
async fn a_pause_suspends_a_rollout() {
    let world = World::new().await;
    world.create_object(web_deployment(4)).await;
    world.settle().await;
    world.set_image("img:2").await;
    world.wait(0.5).await;
    world.patch_web(json!({"spec": {"paused": true}})).await;
    world.settle().await;
    let sizes: Vec<i64> = world.list_sets().await.iter().map(size_of_set).collect();
    assert_eq!(sizes, [3, 2]);
    world.patch_web(json!({"spec": {"paused": false}})).await;
    world.settle().await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [0, 4]);
}
