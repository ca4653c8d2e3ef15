//! Tests of lost answers, refused requests and lagging caches.

use sandbox::{Action, Rule};
use serde_json::{Value, json};

use crate::world::{
    CONTROLLER_IDENTITY, NAMESPACE, SLICE_RESOURCE, TestCluster, endpoints_in, pod_names_in, web_service,
};

/// ENDPOINTSLICE-67.
#[tokio::test(start_paused = true)]
async fn a_slice_with_a_lost_answer_is_not_created_twice() {
    let world = TestCluster::new().await;
    world.sandbox.faults().add(
        Rule::new(Action::CutAfter).identity(CONTROLLER_IDENTITY).verb("create").resource("endpointslices").times(1),
    );
    world.create_object(web_service(&json!({}))).await;
    world.create_pods(0..3).await;
    world.wait_seconds(120).await;
    assert_eq!(world.slice_sizes().await, [3]);
    assert_eq!(world.request_count("create", SLICE_RESOURCE), 1);
}

/// ENDPOINTSLICE-67.
#[tokio::test(start_paused = true)]
async fn a_create_that_never_arrived_does_not_block_its_service() {
    let world = TestCluster::with_slice_size(3).await;
    world.create_object(web_service(&json!({}))).await;
    world.create_pods(0..3).await;
    world.wait_seconds(5).await;
    let lost =
        Rule::new(Action::CutBefore).identity(CONTROLLER_IDENTITY).verb("create").resource("endpointslices").times(1);
    world.sandbox.faults().add(lost);
    world.create_pod(3).await;
    world.wait_seconds(1).await;
    world.set_pod_ready(0, false).await;
    world.wait_seconds(5).await;
    assert_eq!(world.slice_sizes().await, [3, 1]);
    let ready: Vec<Value> =
        world.list_slices().await.iter().flat_map(endpoints_in).map(|e| e["conditions"]["ready"].clone()).collect();
    assert_eq!(ready.iter().filter(|ready| **ready == json!(false)).count(), 1, "the unready Pod is marked soon");
}

/// ENDPOINTSLICE-32, ENDPOINTSLICE-64.
#[tokio::test(start_paused = true)]
async fn a_refused_deletion_is_retried() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    world.wait_seconds(2).await;
    let conflict =
        Rule::new(Action::Conflict).identity(CONTROLLER_IDENTITY).verb("delete").resource("endpointslices").times(1);
    world.sandbox.faults().add(conflict);
    world.delete_path("/api/v1/namespaces/NS/services/web").await;
    let service = world.create_object(web_service(&json!({}))).await;
    world.wait_seconds(10).await;
    let slice = world.only_slice().await;
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], service["metadata"]["uid"]);
}

/// ENDPOINTSLICE-17.
#[tokio::test(start_paused = true)]
async fn a_pod_with_an_address_and_no_node_is_omitted_unless_all_are_published() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    let mut published = web_service(&json!({"publishNotReadyAddresses": true}));
    published["metadata"]["name"] = json!("published");
    world.create_object(published).await;
    world.create_pod(0).await;
    world.create_pod_with(1, json!({"nodeName": null}), true).await;
    world.wait_seconds(3).await;
    let slices = world.list_slices().await;
    let of = |service: &str| {
        let own = |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service;
        slices.iter().filter(own).flat_map(pod_names_in).collect::<Vec<_>>()
    };
    assert_eq!((of("web"), of("published")), (vec!["p000".to_owned()], vec!["p000".to_owned(), "p001".to_owned()]));
}

/// ENDPOINTSLICE-68.
#[tokio::test(start_paused = true)]
async fn no_sync_decides_before_the_cache_shows_own_writes() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    world.wait_seconds(2).await;
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "endpointslices");
    for index in 0..3 {
        world.create_pod(index).await;
        world.wait_seconds(3).await;
    }
    assert!(
        world.slice_write_count() <= 2,
        "each write must be in the cache before the next: {}",
        world.slice_write_count()
    );
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "endpointslices");
    world.wait_seconds(60).await;
    assert_eq!(pod_names_in(&world.only_slice().await), ["p000", "p001", "p002"]);
    assert!(world.events().await.is_empty(), "{:#?}", world.events().await);
}

/// ENDPOINTSLICE-62, ENDPOINTSLICE-64.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_reported_and_retried() {
    let world = TestCluster::new().await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::Invalid).identity(CONTROLLER_IDENTITY).verb("create").resource("endpointslices"));
    world.create_object(web_service(&json!({}))).await;
    world.wait_seconds(20).await;
    let start = "Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service shop/web: failed to create EndpointSlice for Service shop/web: ";
    assert!(world.events().await.iter().any(|event| event.starts_with(start)), "{:#?}", world.events().await);
    let tries = world.request_count("create", SLICE_RESOURCE);
    assert!((3..=6).contains(&tries), "after 1, 2, 4 and 8 seconds: {tries}");
    world.sandbox.faults().clear();
    world.wait_seconds(60).await;
    assert_eq!(world.slice_sizes().await, [0]);
}

/// ENDPOINTSLICE-17, ENDPOINTSLICE-62.
#[tokio::test(start_paused = true)]
async fn a_pod_on_an_unknown_node_is_omitted_until_the_node_is_known() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    world.create_pod(0).await;
    world.create_pod_with(1, json!({"nodeName": "n9"}), true).await;
    world.wait_seconds(2).await;
    assert_eq!(pod_names_in(&world.only_slice().await), ["p000"]);
    let expected = "Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service shop/web: skipping Pod p001 for Service shop/web: Node n9 Not Found";
    assert!(world.events().await.iter().any(|event| event == expected), "{:#?}", world.events().await);
    world.put_node(9, "True").await;
    world.wait_seconds(60).await;
    assert_eq!(pod_names_in(&world.only_slice().await), ["p000", "p001"]);
}

/// ENDPOINTSLICE-32, ENDPOINTSLICE-81.
#[tokio::test(start_paused = true)]
async fn a_recreated_service_has_its_own_slices() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    world.wait_seconds(2).await;
    world.delete_path("/api/v1/namespaces/NS/services/web").await;
    let service = world.create_object(web_service(&json!({}))).await;
    world.wait_seconds(3).await;
    let slice = world.only_slice().await;
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], service["metadata"]["uid"]);
}

/// ENDPOINTSLICE-66.
#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_costs_few_requests() {
    let world = TestCluster::new().await;
    world
        .sandbox
        .merge("namespaces", None, NAMESPACE, None, json!({"metadata": {"finalizers": ["test/hold"]}}))
        .await
        .unwrap();
    world.create_object(web_service(&json!({}))).await;
    world.wait_seconds(2).await;
    world.delete_path("/api/v1/namespaces/NS").await;
    world.wait_seconds(30).await;
    assert!(world.list_slices().await.is_empty());
    assert!(world.request_count("create", SLICE_RESOURCE) <= 3, "{}", world.request_count("create", SLICE_RESOURCE));
}

/// ENDPOINTSLICE-64.
#[tokio::test(start_paused = true)]
async fn a_storm_of_conflicts_ends_in_the_right_slices() {
    let world = TestCluster::with_slice_size(3).await;
    world.create_object(web_service(&json!({}))).await;
    world.create_pods(0..7).await;
    world.wait_seconds(5).await;
    assert_eq!(world.slice_sizes().await, [3, 3, 1]);
    let conflicts = Rule::new(Action::Conflict).identity(CONTROLLER_IDENTITY).resource("endpointslices").times(8);
    world.sandbox.faults().add(conflicts);
    for index in 0..7 {
        world.set_pod_ready(index, false).await;
        world.wait_seconds(1).await;
    }
    world.delete_pod(6).await;
    world.wait_seconds(200).await;
    assert_eq!(world.sandbox.faults().hits(&Action::Conflict), 8);
    assert_eq!(world.slice_sizes().await, [3, 3]);
    let all: Vec<Value> = world.list_slices().await.iter().flat_map(endpoints_in).collect();
    assert!(all.iter().all(|endpoint| endpoint["conditions"]["ready"] == false), "{all:#?}");
    assert_eq!(world.explain("shop/web")["state"], "settled");
    let before = world.slice_write_count();
    world.wait_seconds(600).await;
    assert_eq!(world.slice_write_count(), before, "no retry is pending");
}
