//! Pods that lose their labels, so that the watch no longer shows them.

use crate::world::*;

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// Starts a sandbox with a set of `replicas` Pods, and waits until all of them are ready.
async fn settled(replicas: i32, spec: Value) -> World {
    let world = cluster().settled(set(replicas, spec)).await;
    world.clear_log();
    world
}

async fn uid(world: &World, pod: &str) -> Value {
    world.get("pods", pod).await["metadata"]["uid"].clone()
}

async fn owners_of(world: &World, pod: &str) -> Vec<String> {
    owners(&world.get("pods", pod).await)
}

/// STATEFULSET-78.
#[tokio::test(start_paused = true)]
async fn a_released_pod_is_adopted_within_a_minute_of_its_labels_coming_back() {
    let world = settled(1, json!({})).await;
    world.label("pods", "web-0", Value::Null).await;
    world.wait(3600).await;
    assert!(owners_of(&world, "web-0").await.is_empty());
    world.label("pods", "web-0", json!({"app": "web"})).await;
    world.wait(62).await;
    assert_eq!(owners_of(&world, "web-0").await, ["StatefulSet web"]);
}

/// STATEFULSET-78.
#[tokio::test(start_paused = true)]
async fn a_pod_without_the_label_of_its_name_gets_it_back_and_is_not_replaced() {
    for patch in [json!({POD_NAME: null}), json!({POD_NAME: null, "apps.kubernetes.io/pod-index": null})] {
        let world = settled(2, json!({})).await;
        let before = uid(&world, "web-1").await;
        world.label("pods", "web-1", patch).await;
        world.settle().await;
        let labels = world.get("pods", "web-1").await["metadata"]["labels"].clone();
        assert_eq!((&labels[POD_NAME], &labels["apps.kubernetes.io/pod-index"]), (&json!("web-1"), &json!("1")));
        assert_eq!(uid(&world, "web-1").await, before);
        assert_eq!((pod_and_claim_writes(&world), world.count("list", "pods")), (vec!["~web-1".to_owned()], 1));
        world.assert_event("Normal SuccessfulUpdate Update Pod web-1 in StatefulSet web successful").await;
        assert_eq!(world.status().await["readyReplicas"], 2);
        // The watch shows the Pod again, so its deletion needs no read of Pods.
        world.delete_and_settle("pods", "web-1").await;
        assert_ne!(uid(&world, "web-1").await, before);
        assert_eq!(world.count("list", "pods"), 1);
    }
}

/// STATEFULSET-78.
#[tokio::test(start_paused = true)]
async fn no_pod_is_created_until_the_read_of_a_hidden_pod_is_answered() {
    let world = settled(1, json!({})).await;
    world.fault(rule(Action::Latency(Duration::from_secs(20)), "list", "pods"));
    world.label("pods", "web-0", Value::Null).await;
    // Another event causes a sync of the set.
    world.patch(SETS, "web", json!({"metadata": {"annotations": {"a": "b"}}})).await;
    world.wait(15).await;
    assert_eq!((world.count("create", "pods"), world.status().await["replicas"].clone()), (0, json!(1)));
    world.wait(30).await;
    assert!(owners_of(&world, "web-0").await.is_empty());
}

/// STATEFULSET-79.
#[tokio::test(start_paused = true)]
async fn a_pod_that_lost_the_label_while_no_process_ran_is_found_by_its_name() {
    let mut world = settled(2, json!({})).await;
    world.crash();
    let before = uid(&world, "web-0").await;
    world.label("pods", "web-0", json!({POD_NAME: null})).await;
    world.clear_log();
    world.start();
    world.settle().await;
    let pod = world.get("pods", "web-0").await;
    assert_eq!((&pod["metadata"]["uid"], &pod["metadata"]["labels"][POD_NAME]), (&before, &json!("web-0")));
    assert_eq!((pod_and_claim_writes(&world), world.count("create", "pods")), (vec!["~web-0".to_owned()], 1));
    assert_eq!(world.status().await["readyReplicas"], 2);
    assert_eq!(world.event_repetitions("FailedCreate").await, 0);
}

/// STATEFULSET-78.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_labels_cannot_be_restored_costs_few_requests() {
    let world = settled(1, json!({})).await;
    world.fault(rule(Action::Forbidden, "patch", "pods"));
    world.label("pods", "web-0", json!({POD_NAME: null})).await;
    world.wait(3600).await;
    let (tries, reads) = (world.count("patch", "pods"), world.count("list", "pods"));
    assert!((5..=25).contains(&tries), "it backs off: {tries}");
    assert!(reads <= 100, "{reads}");
    assert_eq!((world.count("create", "pods"), world.count("delete", "pods")), (0, 0));
    assert_eq!(world.status().await["readyReplicas"], 1);
}

/// STATEFULSET-93.
#[tokio::test(start_paused = true)]
async fn a_pod_beyond_the_range_that_a_user_made_is_deleted_if_it_has_the_label() {
    let world = settled(1, json!({})).await;
    let mut pod = world.get("pods", "web-0").await;
    for (name, labels) in [("web-8", json!({"app": "web"})), ("web-9", json!({"app": "web", POD_NAME: "web-9"}))] {
        pod["metadata"] = json!({"name": name, "namespace": NAMESPACE, "labels": labels});
        pod["spec"]["hostname"] = json!(name);
        pod["spec"].as_object_mut().unwrap().remove("nodeName");
        world
            .create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"], "spec": pod["spec"]}))
            .await;
    }
    world.settle().await;
    world.wait(120).await;
    assert_eq!(world.names("pods").await, ["web-0", "web-8"]);
}

/// STATEFULSET-78.
#[tokio::test(start_paused = true)]
async fn deleted_pods_are_not_read() {
    let world = settled(3, json!({})).await;
    world.change_and_settle(json!({"replicas": 1})).await;
    world.delete_and_settle("pods", "web-0").await;
    world.roll_out_and_settle("img:2").await;
    assert_eq!(images(&world).await, ["web-0 img:2"]);
    assert_eq!((world.count("list", "pods"), world.count("get", "pods")), (0, 0));
}

/// STATEFULSET-78.
#[tokio::test(start_paused = true)]
async fn a_webhook_that_removes_the_label_delays_a_set_and_does_not_stop_it() {
    let world = cluster().start().await;
    world.strip_label(POD_NAME);
    world.create(web(2)).await;
    world.wait(600).await;
    assert_eq!(images(&world).await, ["web-0 img:1", "web-1 img:1"]);
    assert_eq!(world.status().await["readyReplicas"], 2);
    let (creates, patches) = (world.count("create", "pods"), world.count("patch", "pods"));
    assert!(creates <= 10 && patches <= 100, "{creates} creates, {patches} patches");
    world.clear_log();
    world.delete("pods", "web-1").await;
    world.wait(300).await;
    assert!(pod_and_claim_writes(&world).contains(&"+web-1".to_owned()), "{:?}", pod_and_claim_writes(&world));
}
