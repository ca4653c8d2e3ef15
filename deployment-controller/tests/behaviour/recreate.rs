//! Rollouts under the strategy `Recreate`.

use crate::world::*;

fn recreate(replicas: usize) -> Value {
    with_spec(web(replicas), json!({"strategy": {"type": "Recreate"}}))
}

/// DEPLOYMENT-83.
#[tokio::test(start_paused = true)]
async fn a_rollout_does_not_wait_for_finished_pods() {
    let world =
        cluster().settled(annotated(recreate(2), json!({"sim/fail-reason": "Evicted", "sim/after": "500"}))).await;
    world.wait(600).await;
    let failed = world.pods().await.iter().filter(|pod| pod["status"]["phase"] == "Failed").count();
    assert_eq!(failed, 2, "evicted Pods are not deleted");
    // A finalizer keeps a Pod of the old ReplicaSet, and the status of that ReplicaSet no longer counts the Pod.
    let running = world.first_active_pod().await;
    world.patch("pods", &running, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    world.roll_out("img:2", json!({})).await;
    world.wait(10).await;
    assert_eq!(sizes(&world).await, [0, 2], "{:#}", world.explain());
}

/// DEPLOYMENT-1, DEPLOYMENT-82.
#[tokio::test(start_paused = true)]
async fn pods_are_watched_only_for_a_rollout_that_waits_for_them() {
    let world = cluster().settled(web(2)).await;
    world.roll_out_and_settle("img:2").await;
    world.change_and_settle(json!({"strategy": {"type": "Recreate", "rollingUpdate": null}})).await;
    assert_eq!((world.count("list", "pods"), world.count("watch", "pods")), (0, 0));
    world.roll_out_and_settle("img:3").await;
    assert_eq!(sizes(&world).await, [0, 0, 2]);
    assert_eq!(world.count("watch", "pods"), 1);
    // A leaked watch would be reopened after its timeout.
    world.wait(1300).await;
    assert_eq!((world.count("list", "pods"), world.count("watch", "pods")), (0, 1));
    world.roll_out_and_settle("img:4").await;
    assert_eq!(sizes(&world).await, [0, 0, 0, 2]);
    assert_eq!(world.count("watch", "pods"), 2);
}

/// DEPLOYMENT-38.
#[tokio::test(start_paused = true)]
async fn a_rollout_completes_after_the_strategy_and_the_size_changed() {
    let world = cluster().settled(web(4)).await;
    annotate_template(&world, json!({"sim/never-ready": "true"})).await;
    world.settle().await;
    assert_eq!(sizes(&world).await, [3, 2]);
    world.change_and_settle(json!({"replicas": 5, "strategy": {"type": "Recreate", "rollingUpdate": null}})).await;
    assert_eq!(sizes(&world).await, [0, 5]);
}

/// DEPLOYMENT-4, DEPLOYMENT-37.
#[tokio::test(start_paused = true)]
async fn recreate_waits_for_pods_of_an_adopted_set_with_other_labels() {
    let world = cluster().start().await;
    // The ReplicaSet has the label that the Deployment selects; its Pods lack that label.
    let mut adopted = web(2);
    adopted["kind"] = json!("ReplicaSet");
    adopted["metadata"]["name"] = json!("adopted");
    adopted["spec"]["selector"] = json!({"matchLabels": {"tier": "front"}});
    let template = &mut adopted["spec"]["template"];
    template["metadata"] = json!({"labels": {"tier": "front"}, "annotations": {"sim/terminate-after": "20"}});
    world.create_and_settle(adopted).await;
    world.create(recreate(2)).await;
    world.wait(15).await;
    let sizes = |sets: Vec<Value>| sets.iter().map(|set| (name(set).to_owned(), size_of(set))).collect::<Vec<_>>();
    assert_eq!(sizes(sets(&world).await), [("adopted".to_owned(), 0)], "{:#}", world.explain());
    assert_eq!(world.pods().await.len(), 2, "the old Pods are still terminating");
    world.wait(15).await;
    let sets = sizes(sets(&world).await);
    assert_eq!(sets.iter().map(|(_, size)| *size).collect::<Vec<_>>(), [0, 2]);
}
