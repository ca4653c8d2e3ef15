use std::time::Duration;

use common::settings::{OperatorSettings, TunableValue};
use sandbox::{Action, Rule};
use serde_json::{Value, json};

use crate::world::{CONTROLLER_IDENTITY, NAMESPACE, SLICE_RESOURCE, TestCluster, endpoints_in, web_service};

fn service() -> Value {
    web_service(&json!({"selector": null}))
}

fn hand_made(subsets: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Endpoints", "subsets": subsets,
        "metadata": {"name": "web", "namespace": NAMESPACE, "labels": {"l": "1"}, "annotations": {"a": "1",
            "kubectl.kubernetes.io/last-applied-configuration": "{}"}}})
}

fn two() -> Value {
    json!([{"addresses": [{"ip": "10.2.0.1", "nodeName": "n0"}], "notReadyAddresses": [{"ip": "10.2.0.2"}],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}])
}

/// ENDPOINTSLICE-46, ENDPOINTSLICE-48, ENDPOINTSLICE-49.
#[tokio::test(start_paused = true)]
async fn endpoints_are_mirrored_with_their_labels_and_annotations() {
    let world = TestCluster::new().await;
    world.create_object(service()).await;
    let owner = world.create_object(hand_made(&two())).await;
    world.wait_seconds(2).await;
    let slice = world.only_slice().await;
    let meta = &slice["metadata"];
    assert_eq!(
        meta["labels"],
        json!({"l": "1", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"})
    );
    assert_eq!(meta["annotations"], json!({"a": "1"}));
    assert_eq!(
        (&meta["ownerReferences"][0]["kind"], &meta["ownerReferences"][0]["uid"]),
        (&json!("Endpoints"), &owner["metadata"]["uid"])
    );
    assert_eq!(
        endpoints_in(&slice),
        [
            json!({"addresses": ["10.2.0.1"], "conditions": {"ready": true}, "nodeName": "n0"}),
            json!({"addresses": ["10.2.0.2"], "conditions": {"ready": false}})
        ]
    );
    assert_eq!(slice["ports"], json!([{"name": "http", "port": 80, "protocol": "TCP"}]));
    let before = world.slice_write_count();
    world.patch_object("services", "web", json!({"metadata": {"labels": {"x": "1"}}})).await;
    world.wait_seconds(5).await;
    assert_eq!(world.slice_write_count(), before);
}

/// ENDPOINTSLICE-47, ENDPOINTSLICE-53.
#[tokio::test(start_paused = true)]
async fn mirrored_slices_follow_the_endpoints_and_are_deleted() {
    let world = TestCluster::new().await;
    world.create_object(service()).await;
    world.create_object(hand_made(&two())).await;
    world.wait_seconds(2).await;
    let name = world.only_slice().await["metadata"]["name"].clone();
    let subsets = json!([{"addresses": [{"ip": "10.2.0.3"}], "ports": [{"name": "http", "port": 81}]}]);
    world.patch_object("endpoints", "web", json!({"subsets": subsets, "metadata": {"annotations": {"a": "2"}}})).await;
    world.wait_seconds(2).await;
    let slice = world.only_slice().await;
    assert_eq!(slice["metadata"]["name"], name, "the name is reused");
    assert_eq!((&slice["ports"][0]["port"], &endpoints_in(&slice)[0]["addresses"]), (&json!(81), &json!(["10.2.0.3"])));
    assert_eq!(slice["metadata"]["annotations"], json!({"a": "2"}));
    let skip = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}});
    world.patch_object("endpoints", "web", skip).await;
    world.wait_seconds(2).await;
    assert!(world.list_slices().await.is_empty());
}

/// ENDPOINTSLICE-47.
#[tokio::test(start_paused = true)]
async fn a_service_with_a_selector_is_not_mirrored() {
    let world = TestCluster::new().await;
    world.create_object(service()).await;
    world.create_object(hand_made(&two())).await;
    world.wait_seconds(2).await;
    world.patch_object("services", "web", json!({"spec": {"selector": {"app": "web"}}})).await;
    world.wait_seconds(3).await;
    let labels = world.only_slice().await["metadata"]["labels"].clone();
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "endpointslice-controller.k8s.io");
}

/// ENDPOINTSLICE-46.
#[tokio::test(start_paused = true)]
async fn families_are_mirrored_in_separate_slices() {
    let world = TestCluster::new().await;
    world.create_object(service()).await;
    let subsets = json!([{"addresses": [{"ip": "10.2.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}]}]);
    world.create_object(hand_made(&subsets)).await;
    world.wait_seconds(2).await;
    let mut kinds: Vec<Value> = world.list_slices().await.iter().map(|slice| slice["addressType"].clone()).collect();
    kinds.sort_by_key(ToString::to_string);
    assert_eq!(kinds, ["IPv4", "IPv6"]);
}

/// ENDPOINTSLICE-64.
#[tokio::test(start_paused = true)]
async fn a_create_that_never_arrived_is_retried_soon() {
    let world = TestCluster::new().await;
    world.create_object(service()).await;
    let lost =
        Rule::new(Action::CutBefore).identity(CONTROLLER_IDENTITY).verb("create").resource("endpointslices").times(1);
    world.sandbox.faults().add(lost);
    world.create_object(hand_made(&two())).await;
    world.wait_seconds(5).await;
    assert_eq!(world.slice_sizes().await, [2]);
    let subsets = json!([{"addresses": [{"ip": "10.2.0.3"}], "ports": [{"name": "http", "port": 80}]}]);
    world.patch_object("endpoints", "web", json!({"subsets": subsets})).await;
    world.wait_seconds(2).await;
    assert_eq!(world.slice_sizes().await, [1], "the lost create delays no sync");
}

/// ENDPOINTSLICE-54.
#[tokio::test(start_paused = true)]
async fn only_changes_of_slices_wait_for_the_batch_period() {
    let batch = OperatorSettings::new()
        .with_tunable("mirroring-endpointslice-updates-batch-period", TunableValue::Duration(Duration::from_secs(20)));
    let world = TestCluster::with_settings(batch).await;
    world.create_object(service()).await;
    world.create_object(hand_made(&two())).await;
    world.wait_seconds(1).await;
    let name = world.only_slice().await["metadata"]["name"].as_str().unwrap().to_owned();
    world.patch_object(SLICE_RESOURCE, &name, json!({"endpoints": []})).await;
    world.wait_seconds(15).await;
    assert_eq!(world.slice_sizes().await, [0]);
    world.wait_seconds(10).await;
    assert_eq!(world.slice_sizes().await, [2]);
}
