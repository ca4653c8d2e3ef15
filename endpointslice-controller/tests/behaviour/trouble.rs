//! Tests of lost answers, refused requests and lagging caches.

use crate::world::*;

/// ENDPOINTSLICE-67.
#[tokio::test(start_paused = true)]
async fn a_slice_with_a_lost_answer_is_not_created_twice() {
    let world = start(cluster()).await;
    world.fault(rule(Action::CutAfter, "create", "endpointslices").times(1));
    world.create(web_service(json!({}))).await;
    create_pods(&world, 0..3).await;
    world.wait(120).await;
    assert_eq!(slice_sizes(&world).await, [3]);
    assert_eq!(world.count("create", SLICES), 1);
}

/// ENDPOINTSLICE-67.
#[tokio::test(start_paused = true)]
async fn a_create_that_never_arrived_does_not_block_its_service() {
    let world = start(cluster_with_slice_size(3)).await;
    world.create(web_service(json!({}))).await;
    create_pods(&world, 0..3).await;
    world.wait(5).await;
    world.fault(rule(Action::CutBefore, "create", "endpointslices").times(1));
    create_pod(&world, 3).await;
    world.wait(1).await;
    set_pod_ready(&world, 0, false).await;
    world.wait(5).await;
    assert_eq!(slice_sizes(&world).await, [3, 1]);
    let ready: Vec<Value> =
        world.list(SLICES).await.iter().flat_map(endpoints_in).map(|e| e["conditions"]["ready"].clone()).collect();
    assert_eq!(ready.iter().filter(|ready| **ready == json!(false)).count(), 1, "the unready Pod is marked soon");
}

/// ENDPOINTSLICE-32, ENDPOINTSLICE-64.
#[tokio::test(start_paused = true)]
async fn a_refused_deletion_is_retried() {
    let world = world_with_service(json!({})).await;
    world.wait(2).await;
    world.fault(rule(Action::Conflict, "delete", "endpointslices").times(1));
    delete_path(&world, "/api/v1/namespaces/NS/services/web").await;
    let service = world.create(web_service(json!({}))).await;
    world.wait(10).await;
    let slice = only_slice(&world).await;
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], service["metadata"]["uid"]);
}

/// ENDPOINTSLICE-17.
#[tokio::test(start_paused = true)]
async fn a_pod_with_an_address_and_no_node_is_omitted_unless_all_are_published() {
    let world = world_with_service(json!({})).await;
    world
        .create(merged(
            web_service(json!({"publishNotReadyAddresses": true})),
            json!({"metadata": {"name": "published"}}),
        ))
        .await;
    create_pod(&world, 0).await;
    create_pod_with(&world, 1, json!({"nodeName": null}), true).await;
    world.wait(3).await;
    let slices = world.list(SLICES).await;
    let of = |service: &str| {
        let own = |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service;
        slices.iter().filter(own).flat_map(pod_names_in).collect::<Vec<_>>()
    };
    assert_eq!((of("web"), of("published")), (vec!["p000".to_owned()], vec!["p000".to_owned(), "p001".to_owned()]));
}

/// ENDPOINTSLICE-68.
#[tokio::test(start_paused = true)]
async fn no_sync_decides_before_the_cache_shows_own_writes() {
    let world = world_with_service(json!({})).await;
    world.wait(2).await;
    world.hold("endpointslices");
    for index in 0..3 {
        create_pod(&world, index).await;
        world.wait(3).await;
    }
    assert!(
        slice_write_count(&world) <= 2,
        "each write must be in the cache before the next: {}",
        slice_write_count(&world)
    );
    world.release("endpointslices");
    world.wait(60).await;
    assert_eq!(pod_names_in(&only_slice(&world).await), ["p000", "p001", "p002"]);
    assert!(world.events().await.is_empty(), "{:#?}", world.events().await);
}

/// ENDPOINTSLICE-62, ENDPOINTSLICE-64.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_reported_and_retried() {
    let world = start(cluster()).await;
    world.fault(rule(Action::Invalid, "create", "endpointslices"));
    world.create(web_service(json!({}))).await;
    world.wait(20).await;
    world.assert_event("Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service shop/web: failed to create EndpointSlice for Service shop/web: ").await;
    world.assert_count("create", SLICES, 3..=6);
    world.clear_faults();
    world.wait(60).await;
    assert_eq!(slice_sizes(&world).await, [0]);
}

/// ENDPOINTSLICE-17, ENDPOINTSLICE-62.
#[tokio::test(start_paused = true)]
async fn a_pod_on_an_unknown_node_is_omitted_until_the_node_is_known() {
    let world = world_with_service(json!({})).await;
    create_pod(&world, 0).await;
    create_pod_with(&world, 1, json!({"nodeName": "n9"}), true).await;
    world.wait(2).await;
    assert_eq!(pod_names_in(&only_slice(&world).await), ["p000"]);
    let expected = "Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service shop/web: skipping Pod p001 for Service shop/web: Node n9 Not Found";
    world.assert_event(expected).await;
    put_node(&world, 9, "True").await;
    world.wait(60).await;
    assert_eq!(pod_names_in(&only_slice(&world).await), ["p000", "p001"]);
}

/// ENDPOINTSLICE-32, ENDPOINTSLICE-81.
#[tokio::test(start_paused = true)]
async fn a_recreated_service_has_its_own_slices() {
    let world = world_with_service(json!({})).await;
    world.wait(2).await;
    delete_path(&world, "/api/v1/namespaces/NS/services/web").await;
    let service = world.create(web_service(json!({}))).await;
    world.wait(3).await;
    let slice = only_slice(&world).await;
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], service["metadata"]["uid"]);
}

/// ENDPOINTSLICE-66.
#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_costs_few_requests() {
    let world = start(cluster()).await;
    world.patch("namespaces", NAMESPACE, json!({"metadata": {"finalizers": ["test/hold"]}})).await;
    world.create(web_service(json!({}))).await;
    world.wait(2).await;
    delete_path(&world, "/api/v1/namespaces/NS").await;
    world.wait(30).await;
    assert!(world.list(SLICES).await.is_empty());
    assert!(world.count("create", SLICES) <= 3, "{}", world.count("create", SLICES));
}

/// ENDPOINTSLICE-64.
#[tokio::test(start_paused = true)]
async fn a_storm_of_conflicts_ends_in_the_right_slices() {
    let world = start(cluster_with_slice_size(3)).await;
    world.create(web_service(json!({}))).await;
    create_pods(&world, 0..7).await;
    world.wait(5).await;
    assert_eq!(slice_sizes(&world).await, [3, 3, 1]);
    world.fault(rule(Action::Conflict, "", "endpointslices").times(8));
    for index in 0..7 {
        set_pod_ready(&world, index, false).await;
        world.wait(1).await;
    }
    delete_pod(&world, 6).await;
    world.wait(200).await;
    assert_eq!(world.sandbox.faults().hits(&Action::Conflict), 8);
    assert_eq!(slice_sizes(&world).await, [3, 3]);
    let all: Vec<Value> = world.list(SLICES).await.iter().flat_map(endpoints_in).collect();
    assert!(all.iter().all(|endpoint| endpoint["conditions"]["ready"] == false), "{all:#?}");
    assert_eq!(world.explain()["state"], "settled");
    let before = slice_write_count(&world);
    world.wait(600).await;
    assert_eq!(slice_write_count(&world), before, "no retry is pending");
}
