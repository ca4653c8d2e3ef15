use crate::world::*;

fn service() -> Value {
    web_service(json!({"selector": null}))
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
    let world = start(cluster()).await;
    world.create(service()).await;
    let owner = world.create(hand_made(&two())).await;
    world.wait(2).await;
    let slice = only_slice(&world).await;
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
    let before = slice_write_count(&world);
    world.label("services", "web", json!({"x": "1"})).await;
    world.wait(5).await;
    assert_eq!(slice_write_count(&world), before);
}

/// ENDPOINTSLICE-47, ENDPOINTSLICE-53.
#[tokio::test(start_paused = true)]
async fn mirrored_slices_follow_the_endpoints_and_are_deleted() {
    let world = start(cluster()).await;
    world.create(service()).await;
    world.create(hand_made(&two())).await;
    world.wait(2).await;
    let name = only_slice(&world).await["metadata"]["name"].clone();
    let subsets = json!([{"addresses": [{"ip": "10.2.0.3"}], "ports": [{"name": "http", "port": 81}]}]);
    world.patch("endpoints", "web", json!({"subsets": subsets, "metadata": {"annotations": {"a": "2"}}})).await;
    world.wait(2).await;
    let slice = only_slice(&world).await;
    assert_eq!(slice["metadata"]["name"], name, "the name is reused");
    assert_eq!((&slice["ports"][0]["port"], &endpoints_in(&slice)[0]["addresses"]), (&json!(81), &json!(["10.2.0.3"])));
    assert_eq!(slice["metadata"]["annotations"], json!({"a": "2"}));
    world.label("endpoints", "web", json!({"endpointslice.kubernetes.io/skip-mirror": "true"})).await;
    world.wait(2).await;
    assert!(world.list(SLICES).await.is_empty());
}

/// ENDPOINTSLICE-47.
#[tokio::test(start_paused = true)]
async fn a_service_with_a_selector_is_not_mirrored() {
    let world = start(cluster()).await;
    world.create(service()).await;
    world.create(hand_made(&two())).await;
    world.wait(2).await;
    world.change(json!({"selector": {"app": "web"}})).await;
    world.wait(3).await;
    let labels = only_slice(&world).await["metadata"]["labels"].clone();
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "endpointslice-controller.k8s.io");
}

/// ENDPOINTSLICE-46.
#[tokio::test(start_paused = true)]
async fn families_are_mirrored_in_separate_slices() {
    let world = start(cluster()).await;
    world.create(service()).await;
    let subsets = json!([{"addresses": [{"ip": "10.2.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}]}]);
    world.create(hand_made(&subsets)).await;
    world.wait(2).await;
    let mut kinds: Vec<Value> = world.list(SLICES).await.iter().map(|slice| slice["addressType"].clone()).collect();
    kinds.sort_by_key(ToString::to_string);
    assert_eq!(kinds, ["IPv4", "IPv6"]);
}

/// ENDPOINTSLICE-64.
#[tokio::test(start_paused = true)]
async fn a_create_that_never_arrived_is_retried_soon() {
    let world = start(cluster()).await;
    world.create(service()).await;
    world.fault(rule(Action::CutBefore, "create", "endpointslices").times(1));
    world.create(hand_made(&two())).await;
    world.wait(5).await;
    assert_eq!(slice_sizes(&world).await, [2]);
    let subsets = json!([{"addresses": [{"ip": "10.2.0.3"}], "ports": [{"name": "http", "port": 80}]}]);
    world.patch("endpoints", "web", json!({"subsets": subsets})).await;
    world.wait(2).await;
    assert_eq!(slice_sizes(&world).await, [1], "the lost create delays no sync");
}

/// ENDPOINTSLICE-54.
#[tokio::test(start_paused = true)]
async fn only_changes_of_slices_wait_for_the_batch_period() {
    let batch = OperatorSettings::new()
        .with_tunable("mirroring-endpointslice-updates-batch-period", TunableValue::Duration(Duration::from_secs(20)));
    let world = start(cluster().settings(batch)).await;
    world.create(service()).await;
    world.create(hand_made(&two())).await;
    world.wait(1).await;
    let name = only_slice(&world).await["metadata"]["name"].as_str().unwrap().to_owned();
    world.patch(SLICES, &name, json!({"endpoints": []})).await;
    world.wait(15).await;
    assert_eq!(slice_sizes(&world).await, [0]);
    world.wait(10).await;
    assert_eq!(slice_sizes(&world).await, [2]);
}
