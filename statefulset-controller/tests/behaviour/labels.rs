//! Pods that lose their labels, so that the watch no longer shows them.

use std::time::Duration;

use sandbox::{Action, Operation, Rule, Webhook};
use serde_json::{Value, json};

use crate::world::{CONTROLLER_IDENTITY, NAMESPACE, SETS, World, owners, set};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// Starts a sandbox with a set of `replicas` Pods, and waits until all of them are ready.
async fn settled(replicas: i32, spec: Value) -> World {
    let world = World::new().await;
    world.apply(set(replicas, spec)).await;
    world.settle().await;
    world.reset_counters();
    world
}

async fn uid(world: &World, pod: &str) -> Value {
    world.get("pods", pod).await["metadata"]["uid"].clone()
}

async fn set_labels(world: &World, pod: &str, labels: Value) {
    world.merge("pods", pod, json!({"metadata": {"labels": labels}})).await;
}

async fn owners_of(world: &World, pod: &str) -> Vec<String> {
    owners(&world.get("pods", pod).await)
}

/// Upstream: `test/e2e/apps/statefulset.go`, "should adopt matching orphans and release non-matching pods".
/// STATEFULSET-7, STATEFULSET-79.
#[tokio::test(start_paused = true)]
async fn orphans_that_match_are_adopted_and_pods_that_do_not_match_are_released() {
    // With a rolling update, the Pod would be replaced, because it has lost the label of its revision.
    let world = settled(1, json!({"updateStrategy": {"type": "OnDelete"}})).await;
    let before = uid(&world, "web-0").await;
    world.merge("pods", "web-0", json!({"metadata": {"ownerReferences": null}})).await;
    world.settle().await;
    assert_eq!(owners_of(&world, "web-0").await, ["StatefulSet web"], "it is adopted again");

    set_labels(&world, "web-0", Value::Null).await;
    world.wait(5).await;
    assert!(owners_of(&world, "web-0").await.is_empty(), "it is released");
    assert_eq!(world.status().await["replicas"], 0);

    set_labels(&world, "web-0", json!({"app": "web"})).await;
    world.wait(10).await;
    assert_eq!(owners_of(&world, "web-0").await, ["StatefulSet web"], "it is adopted without the label of its name");
    let pod = world.get("pods", "web-0").await;
    assert_eq!((&pod["metadata"]["uid"], &pod["metadata"]["labels"][POD_NAME]), (&before, &json!("web-0")));
    assert_eq!(world.status().await["readyReplicas"], 1);
    assert!(world.has_event("Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful").await);

    // After the adoption, the watch shows the Pod again.
    let reads = world.request_count("list", "pods");
    assert!(reads <= 8, "{reads} reads");
    world.sandbox.delete("pods", Some(NAMESPACE), "web-0").await.unwrap();
    world.settle().await;
    assert_ne!(uid(&world, "web-0").await, before);
    assert_eq!(world.request_count("list", "pods"), reads);
}

/// STATEFULSET-78.
#[tokio::test(start_paused = true)]
async fn a_released_pod_is_adopted_within_a_minute_of_its_labels_coming_back() {
    let world = settled(1, json!({})).await;
    set_labels(&world, "web-0", Value::Null).await;
    world.wait(3600).await;
    assert!(owners_of(&world, "web-0").await.is_empty());
    set_labels(&world, "web-0", json!({"app": "web"})).await;
    world.wait(62).await;
    assert_eq!(owners_of(&world, "web-0").await, ["StatefulSet web"]);
}

/// STATEFULSET-78.
#[tokio::test(start_paused = true)]
async fn a_pod_without_the_label_of_its_name_gets_it_back_and_is_not_replaced() {
    for patch in [json!({POD_NAME: null}), json!({POD_NAME: null, "apps.kubernetes.io/pod-index": null})] {
        let world = settled(2, json!({})).await;
        let before = uid(&world, "web-1").await;
        set_labels(&world, "web-1", patch).await;
        world.settle().await;
        let labels = world.get("pods", "web-1").await["metadata"]["labels"].clone();
        assert_eq!((&labels[POD_NAME], &labels["apps.kubernetes.io/pod-index"]), (&json!("web-1"), &json!("1")));
        assert_eq!(uid(&world, "web-1").await, before);
        assert_eq!((world.pod_and_claim_writes(), world.request_count("list", "pods")), (vec!["~web-1".to_owned()], 1));
        assert!(world.has_event("Normal SuccessfulUpdate Update Pod web-1 in StatefulSet web successful").await);
        assert_eq!(world.status().await["readyReplicas"], 2);
    }
}

/// STATEFULSET-78.
#[tokio::test(start_paused = true)]
async fn a_pod_gets_the_label_back_although_a_pod_before_it_is_not_ready() {
    let world = settled(3, json!({})).await;
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    world.sandbox.merge("pods", Some(NAMESPACE), "web-0", Some("status"), unready).await.unwrap();
    set_labels(&world, "web-2", json!({POD_NAME: null})).await;
    world.settle().await;
    assert_eq!(world.get("pods", "web-2").await["metadata"]["labels"][POD_NAME], "web-2");
}

/// STATEFULSET-78.
#[tokio::test(start_paused = true)]
async fn no_pod_is_created_until_the_read_of_a_hidden_pod_is_answered() {
    let world = settled(1, json!({})).await;
    let slow =
        Rule::new(Action::Latency(Duration::from_secs(20))).identity(CONTROLLER_IDENTITY).verb("list").resource("pods");
    world.sandbox.faults().add(slow);
    set_labels(&world, "web-0", Value::Null).await;
    // Another event causes a sync of the set.
    world.merge(SETS, "web", json!({"metadata": {"annotations": {"a": "b"}}})).await;
    world.wait(15).await;
    assert_eq!((world.request_count("create", "pods"), world.status().await["replicas"].clone()), (0, json!(1)));
    world.wait(30).await;
    assert!(owners_of(&world, "web-0").await.is_empty());
}

/// STATEFULSET-79.
#[tokio::test(start_paused = true)]
async fn a_pod_that_lost_the_label_while_no_process_ran_is_found_by_its_name() {
    let mut world = settled(2, json!({})).await;
    world.crash();
    let before = uid(&world, "web-0").await;
    set_labels(&world, "web-0", json!({POD_NAME: null})).await;
    world.reset_counters();
    world.start();
    world.settle().await;
    let pod = world.get("pods", "web-0").await;
    assert_eq!((&pod["metadata"]["uid"], &pod["metadata"]["labels"][POD_NAME]), (&before, &json!("web-0")));
    assert_eq!((world.pod_and_claim_writes(), world.request_count("create", "pods")), (vec!["~web-0".to_owned()], 1));
    assert_eq!(world.status().await["readyReplicas"], 2);
    assert_eq!(world.event_count("FailedCreate").await, 0);
}

/// STATEFULSET-78.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_labels_cannot_be_restored_costs_few_requests() {
    let world = settled(1, json!({})).await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::Forbidden).identity(CONTROLLER_IDENTITY).verb("patch").resource("pods"));
    set_labels(&world, "web-0", json!({POD_NAME: null})).await;
    world.wait(3600).await;
    let (tries, reads) = (world.request_count("patch", "pods"), world.request_count("list", "pods"));
    assert!((5..=25).contains(&tries), "it backs off: {tries}");
    assert!(reads <= 100, "{reads}");
    assert_eq!((world.request_count("create", "pods"), world.request_count("delete", "pods")), (0, 0));
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
        world.apply(json!({"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"], "spec": pod["spec"]})).await;
    }
    world.settle().await;
    world.wait(120).await;
    assert_eq!(world.names("pods").await, ["web-0", "web-8"]);
}

/// STATEFULSET-78.
#[tokio::test(start_paused = true)]
async fn deleted_pods_are_not_read() {
    let world = settled(3, json!({})).await;
    world.change_spec(json!({"replicas": 1})).await;
    world.settle().await;
    world.sandbox.delete("pods", Some(NAMESPACE), "web-0").await.unwrap();
    world.settle().await;
    world.roll_out("img:2", json!({})).await;
    world.settle().await;
    assert_eq!(world.names_and_images().await, ["web-0 img:2"]);
    assert_eq!((world.request_count("list", "pods"), world.request_count("get", "pods")), (0, 0));
}

/// Installs a webhook that removes the label `POD_NAME` whenever the controller writes a Pod.
fn strip(world: &World) {
    let path = format!("/metadata/labels/{}", POD_NAME.replace('/', "~1"));
    let patch = json!([{"op": "add", "path": path, "value": ""}, {"op": "remove", "path": path}]);
    for operation in [Operation::Create, Operation::Update] {
        let webhook = Webhook::new("strips", operation, "pods").identity(CONTROLLER_IDENTITY);
        world.sandbox.webhooks().install(webhook.patches(patch.clone()));
    }
}

/// STATEFULSET-78.
#[tokio::test(start_paused = true)]
async fn a_webhook_that_removes_the_label_delays_a_set_and_does_not_stop_it() {
    let world = World::new().await;
    strip(&world);
    world.apply(set(2, json!({}))).await;
    world.wait(600).await;
    assert_eq!(world.names_and_images().await, ["web-0 img:1", "web-1 img:1"]);
    assert_eq!(world.status().await["readyReplicas"], 2);
    let (creates, patches) = (world.request_count("create", "pods"), world.request_count("patch", "pods"));
    assert!(creates <= 10 && patches <= 100, "{creates} creates, {patches} patches");
    world.reset_counters();
    world.sandbox.delete("pods", Some(NAMESPACE), "web-1").await.unwrap();
    world.wait(300).await;
    assert!(world.pod_and_claim_writes().contains(&"+web-1".to_owned()), "{:?}", world.pod_and_claim_writes());
}
