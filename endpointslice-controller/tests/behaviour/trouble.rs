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

/// ENDPOINTSLICE-32, ENDPOINTSLICE-64, ENDPOINTSLICE-81.
#[tokio::test(start_paused = true)]
async fn a_recreated_service_has_its_own_slices_even_if_a_deletion_is_refused() {
    for refused in [0, 1] {
        let world = world_with_service(json!({})).await;
        world.wait(2).await;
        world.fault(rule(Action::Conflict, "delete", "endpointslices").times(refused));
        delete_path(&world, "/api/v1/namespaces/NS/services/web").await;
        let service = world.create(web_service(json!({}))).await;
        world.wait(if refused == 0 { 3 } else { 10 }).await;
        let owner = &only_slice(&world).await["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], service["metadata"]["uid"], "{refused} deletions are refused");
    }
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
    let writes = slice_write_count(&world);
    assert!(writes <= 2, "each write must be in the cache before the next: {writes}");
    world.release("endpointslices");
    world.wait(60).await;
    assert_eq!(pod_names_in(&only_slice(&world).await), ["p000", "p001", "p002"]);
    assert!(world.events().await.is_empty(), "{:#?}", world.events().await);
}

/// ENDPOINTSLICE-62, ENDPOINTSLICE-64.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_reported_and_retried() {
    let world = start(cluster()).await;
    let create = world.create(web_service(json!({})));
    let event = "Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service shop/web: failed to create \
        EndpointSlice for Service shop/web: ";
    let refused = (Action::Invalid, "create", "endpointslices");
    conformance::refusals_back_off(&world, refused, create, 3..=6, event, async || {}).await;
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
    world.assert_count("create", SLICES, ..=3);
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
