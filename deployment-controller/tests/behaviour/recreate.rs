//! Rollouts under the strategy `Recreate`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::world::{NAMESPACE, World, name_of, size_of_set, web_deployment};

fn recreate(replicas: usize) -> Value {
    let mut object = web_deployment(replicas);
    object["spec"]["strategy"] = json!({"type": "Recreate"});
    object
}

/// DEPLOYMENT-35.
#[tokio::test(start_paused = true)]
async fn no_new_pod_starts_before_the_last_old_one_has_ended() {
    let world = World::new().await;
    let mut object = recreate(3);
    object["spec"]["template"]["metadata"]["annotations"] = json!({"sim/terminate-after": "7"});
    world.create_object(object).await;
    world.settle().await;
    world.set_image("img:2").await;
    world.wait(4.0).await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [0]);
    let old = name_of(&world.list_sets().await[0]).to_owned();
    let waiting = world.explain()["waiting"][0].as_str().unwrap().to_owned();
    assert_eq!(waiting, format!("old Pods of {old} still run (Recreate): 3"));
    world.wait(10.0).await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable");
    // Replays the log of writes: at no time did Pods of two templates exist.
    let mut images: BTreeMap<String, String> = BTreeMap::new();
    for write in world.sandbox.writes().all().iter().filter(|w| w.resource == "pods") {
        match write.after() {
            Some(pod) => images.insert(write.name.clone(), pod["spec"]["containers"][0]["image"].to_string()),
            None => images.remove(&write.name),
        };
        let mut distinct: Vec<&String> = images.values().collect();
        distinct.sort();
        distinct.dedup();
        assert!(distinct.len() <= 1, "{images:?}");
    }
}

/// DEPLOYMENT-83.
#[tokio::test(start_paused = true)]
async fn a_rollout_does_not_wait_for_finished_pods() {
    let world = World::new().await;
    let mut object = recreate(2);
    object["spec"]["template"]["metadata"]["annotations"] = json!({"sim/fail-reason": "Evicted", "sim/after": "500"});
    world.create_object(object).await;
    world.settle().await;
    world.wait(600.0).await;
    let failed = world.list_pods().await.iter().filter(|pod| pod["status"]["phase"] == "Failed").count();
    assert_eq!(failed, 2, "evicted Pods are not deleted");
    world.set_image("img:2").await;
    world.wait(10.0).await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [0, 2], "{:#}", world.explain());
}

/// DEPLOYMENT-1, DEPLOYMENT-82.
#[tokio::test(start_paused = true)]
async fn pods_are_watched_only_for_a_rollout_that_waits_for_them() {
    let world = World::new().await;
    world.create_object(web_deployment(2)).await;
    world.settle().await;
    world.set_image("img:2").await;
    world.settle().await;
    world.patch_web(json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}})).await;
    world.settle().await;
    assert_eq!((world.request_count("list", "pods"), world.request_count("watch", "pods")), (0, 0));
    world.set_image("img:3").await;
    world.settle().await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [0, 0, 2]);
    assert_eq!(world.request_count("watch", "pods"), 1);
    // A leaked watch would be reopened after its timeout.
    world.wait(1300.0).await;
    assert_eq!((world.request_count("list", "pods"), world.request_count("watch", "pods")), (0, 1));
    world.set_image("img:4").await;
    world.settle().await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [0, 0, 0, 2]);
    assert_eq!(world.request_count("watch", "pods"), 2);
}

/// DEPLOYMENT-38.
#[tokio::test(start_paused = true)]
async fn a_rollout_completes_after_the_strategy_and_the_size_changed() {
    let world = World::new().await;
    world.create_object(web_deployment(4)).await;
    world.settle().await;
    world.patch_web(json!({"spec": {"template": {"metadata": {"annotations": {"sim/never-ready": "true"}}}}})).await;
    world.settle().await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [3, 2]);
    world.patch_web(json!({"spec": {"replicas": 5, "strategy": {"type": "Recreate", "rollingUpdate": null}}})).await;
    world.settle().await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [0, 5]);
}

/// DEPLOYMENT-83.
#[tokio::test(start_paused = true)]
async fn a_finished_pod_with_a_finalizer_does_not_block_the_rollout() {
    // A finalizer keeps a Pod of the old ReplicaSet, and the status of that ReplicaSet no longer counts the Pod.
    let world = World::new().await;
    world.create_object(recreate(1)).await;
    world.settle().await;
    let pod = name_of(&world.list_pods().await[0]).to_owned();
    let finalizer = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world.sandbox.merge("pods", Some(NAMESPACE), &pod, None, finalizer).await.unwrap();
    world.set_image("img:2").await;
    world.settle().await;
    assert_eq!(world.list_sets().await.len(), 2, "the Pod has finished: {:#}", world.explain());
}

/// DEPLOYMENT-4, DEPLOYMENT-37.
#[tokio::test(start_paused = true)]
async fn recreate_waits_for_pods_of_an_adopted_set_with_other_labels() {
    let world = World::new().await;
    // The ReplicaSet has the label that the Deployment selects; its Pods lack that label.
    let mut adopted = web_deployment(2);
    adopted["kind"] = json!("ReplicaSet");
    adopted["metadata"]["name"] = json!("adopted");
    adopted["spec"]["selector"] = json!({"matchLabels": {"tier": "front"}});
    let template = &mut adopted["spec"]["template"];
    template["metadata"] = json!({"labels": {"tier": "front"}, "annotations": {"sim/terminate-after": "20"}});
    world.create_object(adopted).await;
    world.settle().await;
    world.create_object(recreate(2)).await;
    world.wait(15.0).await;
    let sizes =
        |sets: Vec<Value>| sets.iter().map(|set| (name_of(set).to_owned(), size_of_set(set))).collect::<Vec<_>>();
    assert_eq!(sizes(world.list_sets().await), [("adopted".to_owned(), 0)], "{:#}", world.explain());
    assert_eq!(world.list_pods().await.len(), 2, "the old Pods are still terminating");
    world.wait(15.0).await;
    let sets = sizes(world.list_sets().await);
    assert_eq!(sets.iter().map(|(_, size)| *size).collect::<Vec<_>>(), [0, 2]);
}
