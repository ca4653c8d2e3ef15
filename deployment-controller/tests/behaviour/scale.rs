//! Changes of `spec.replicas`.

use serde_json::json;

use crate::world::{NAMESPACE, REPLICA_SETS, World, name_of, size_of_set, web_deployment};

/// DEPLOYMENT-26, DEPLOYMENT-41.
#[tokio::test(start_paused = true)]
async fn scaling_is_not_a_rollout() {
    let world = World::new().await;
    world.create_object(web_deployment(4)).await;
    world.settle().await;
    for replicas in [6, 0, 3] {
        world.set_replicas(replicas).await;
        world.settle().await;
        assert_eq!(world.list_pods().await.len(), replicas);
        assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable");
    }
    assert_eq!(world.size_history(), ["a 4", "a 6", "a 0", "a 3"]);
    let annotations = world.list_sets().await[0]["metadata"]["annotations"].clone();
    assert_eq!(annotations["deployment.kubernetes.io/desired-replicas"], "3");
    assert_eq!(annotations["deployment.kubernetes.io/max-replicas"], "4");
}

/// DEPLOYMENT-43.
#[tokio::test(start_paused = true)]
async fn all_sets_share_a_change_of_the_size_during_a_rollout() {
    let world = World::new().await;
    let mut object = web_deployment(8);
    object["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 2}});
    world.create_object(object).await;
    world.settle().await;
    world.patch_web(json!({"spec": {"template": {"metadata": {"annotations": {"sim/never-ready": "true"}}}}})).await;
    world.settle().await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [6, 4]);
    world.set_replicas(12).await;
    world.settle().await;
    // The maximum number of Pods grows from 10 to 14: size 6 becomes 8 (8.4), size 4 becomes 6 (5.6), and both remain so.
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [8, 6]);
    world.patch_web(json!({"spec": {"template": {"metadata": {"annotations": {"sim/never-ready": null}}}}})).await;
    world.settle().await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [12, 0]);
}

/// DEPLOYMENT-80.
#[tokio::test(start_paused = true)]
async fn a_set_scaled_by_hand_does_not_stop_rollouts_for_good() {
    let world = World::new().await;
    world.create_object(web_deployment(4)).await;
    world.settle().await;
    let set = name_of(&world.list_sets().await[0]).to_owned();
    // A user sets a stale annotation: upstream would treat every later sync as a scaling event.
    let by_hand = json!({"metadata": {"annotations": {"deployment.kubernetes.io/desired-replicas": "3"}}});
    world.sandbox.merge(REPLICA_SETS, Some(NAMESPACE), &set, None, by_hand).await.unwrap();
    world.settle().await;
    let annotations = world.list_sets().await[0]["metadata"]["annotations"].clone();
    assert_eq!(annotations["deployment.kubernetes.io/desired-replicas"], "4");
    world.set_image("img:2").await;
    world.settle().await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [0, 4]);
}

#[tokio::test(start_paused = true)]
async fn two_hundred_deployments_are_rolled_out_concurrently() {
    let world = World::new().await;
    for n in 0..200 {
        let mut object = web_deployment(1);
        object["metadata"]["name"] = json!(format!("web-{n}"));
        object["spec"]["selector"] = json!({"matchLabels": {"app": format!("web-{n}")}});
        object["spec"]["template"]["metadata"]["labels"] = json!({"app": format!("web-{n}")});
        world.create_object(object).await;
    }
    world.settle().await;
    let deployments = world.sandbox.list("deployments.apps", Some(NAMESPACE)).await.unwrap();
    assert!(deployments.iter().all(|web| web["status"]["availableReplicas"] == 1));
    assert_eq!(world.list_sets().await.len(), 200);
    assert_eq!(world.request_count("create", REPLICA_SETS), 200);
}
