//! Changes of `spec.replicas`.

use crate::world::*;

/// DEPLOYMENT-26, DEPLOYMENT-41.
#[tokio::test(start_paused = true)]
async fn scaling_is_not_a_rollout() {
    let world = cluster().settled(web(4)).await;
    for replicas in [6, 0, 3] {
        world.change_and_settle(json!({"replicas": replicas})).await;
        assert_eq!(world.pods().await.len(), replicas);
        assert_eq!(progress(&world).await, "NewReplicaSetAvailable");
    }
    assert_eq!(size_history(&world), ["a 4", "a 6", "a 0", "a 3"]);
    let annotations = sets(&world).await[0]["metadata"]["annotations"].clone();
    assert_eq!(annotations["deployment.kubernetes.io/desired-replicas"], "3");
    assert_eq!(annotations["deployment.kubernetes.io/max-replicas"], "4");
}

/// DEPLOYMENT-43.
#[tokio::test(start_paused = true)]
async fn all_sets_share_a_change_of_the_size_during_a_rollout() {
    let strategy = json!({"strategy": {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 2}}});
    let world = cluster().settled(with_spec(web(8), strategy)).await;
    annotate_template(&world, json!({"sim/never-ready": "true"})).await;
    world.settle().await;
    assert_eq!(sizes(&world).await, [6, 4]);
    world.change_and_settle(json!({"replicas": 12})).await;
    // The maximum number of Pods grows from 10 to 14: size 6 becomes 8 (8.4), size 4 becomes 6 (5.6), and both remain so.
    assert_eq!(sizes(&world).await, [8, 6]);
    annotate_template(&world, json!({"sim/never-ready": null})).await;
    world.settle().await;
    assert_eq!(sizes(&world).await, [12, 0]);
}

/// DEPLOYMENT-80.
#[tokio::test(start_paused = true)]
async fn a_set_scaled_by_hand_does_not_stop_rollouts_for_good() {
    let world = cluster().settled(web(4)).await;
    let set = name(&sets(&world).await[0]).to_owned();
    // A user sets a stale annotation: upstream would treat every later sync as a scaling event.
    world
        .patch_and_settle(
            REPLICA_SETS,
            &set,
            json!({"metadata": {"annotations": {"deployment.kubernetes.io/desired-replicas": "3"}}}),
        )
        .await;
    let annotations = sets(&world).await[0]["metadata"]["annotations"].clone();
    assert_eq!(annotations["deployment.kubernetes.io/desired-replicas"], "4");
    world.roll_out_and_settle("img:2").await;
    assert_eq!(sizes(&world).await, [0, 4]);
}

#[tokio::test(start_paused = true)]
async fn two_hundred_deployments_are_rolled_out_concurrently() {
    let world = cluster().start().await;
    for n in 0..200 {
        let mut object = web(1);
        object["metadata"]["name"] = json!(format!("web-{n}"));
        object["spec"]["selector"] = json!({"matchLabels": {"app": format!("web-{n}")}});
        object["spec"]["template"]["metadata"]["labels"] = json!({"app": format!("web-{n}")});
        world.create(object).await;
    }
    world.settle().await;
    let deployments = world.list("deployments.apps").await;
    assert!(deployments.iter().all(|web| web["status"]["availableReplicas"] == 1));
    assert_eq!(sets(&world).await.len(), 200);
    assert_eq!(world.count("create", REPLICA_SETS), 200);
}
