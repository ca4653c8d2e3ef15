//! Rollouts from one template to the next under `RollingUpdate`.

use crate::world::*;

/// DEPLOYMENT-20, DEPLOYMENT-71, DEPLOYMENT-77.
#[tokio::test(start_paused = true)]
async fn the_first_creation_takes_three_writes_and_no_read() {
    let mut world = cluster().start().await;
    world.stop_replica_sets();
    // The Deployment is younger than this leader's term, so no earlier leader can have created a ReplicaSet for it.
    world.wait(30).await;
    world.create_and_settle(web(4)).await;
    let set = name(&sets(&world).await[0]).to_owned();
    assert_eq!(
        world.own_write_lines(),
        [
            format!("create replicasets {set}"),
            "update deployments/status web".to_owned(),
            "update deployments/status web".to_owned(),
        ]
    );
    assert_eq!((world.count("get", DEPLOYMENTS), world.count("list", "replicasets.apps")), (0, 0));
    assert!(!world.metrics().contains("\nnonet_sync_errors_total{"), "{}", world.metrics());
}
