//! Tests of lost answers, refused requests and lagging caches.

use sandbox::{Action, Rule};
use serde_json::{Value, json};

use crate::world::{ME, NS, SLICES, World, endpoints, names, web};

/// ENDPOINTSLICE-67.
#[tokio::test(start_paused = true)]
async fn a_slice_with_a_lost_answer_is_not_created_twice() {
    let world = World::new().await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::CutAfter).identity(ME).verb("create").resource("endpointslices").times(1));
    world.apply(web(&json!({}))).await;
    world.pods(0..3).await;
    world.wait(120).await;
    assert_eq!(world.sizes().await, [3]);
    assert_eq!(world.asked("create", SLICES), 1);
}

/// ENDPOINTSLICE-67.
#[tokio::test(start_paused = true)]
async fn a_create_that_never_arrived_does_not_block_its_service() {
    let world = World::filled_with(3).await;
    world.apply(web(&json!({}))).await;
    world.pods(0..3).await;
    world.wait(5).await;
    let lost = Rule::new(Action::CutBefore).identity(ME).verb("create").resource("endpointslices").times(1);
    world.sandbox.faults().add(lost);
    world.pod(3).await;
    world.wait(1).await;
    world.ready(0, false).await;
    world.wait(5).await;
    assert_eq!(world.sizes().await, [3, 1]);
    let ready: Vec<Value> =
        world.slices().await.iter().flat_map(endpoints).map(|e| e["conditions"]["ready"].clone()).collect();
    assert_eq!(ready.iter().filter(|ready| **ready == json!(false)).count(), 1, "the unready Pod is marked soon");
}

/// ENDPOINTSLICE-32, ENDPOINTSLICE-64.
#[tokio::test(start_paused = true)]
async fn a_refused_deletion_is_retried() {
    let world = World::new().await;
    world.apply(web(&json!({}))).await;
    world.wait(2).await;
    let conflict = Rule::new(Action::Conflict).identity(ME).verb("delete").resource("endpointslices").times(1);
    world.sandbox.faults().add(conflict);
    world.remove("/api/v1/namespaces/NS/services/web").await;
    let service = world.apply(web(&json!({}))).await;
    world.wait(10).await;
    let slice = world.slice().await;
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], service["metadata"]["uid"]);
}

/// ENDPOINTSLICE-17.
#[tokio::test(start_paused = true)]
async fn a_pod_with_an_address_and_no_node_is_omitted_unless_all_are_published() {
    let world = World::new().await;
    world.apply(web(&json!({}))).await;
    let mut published = web(&json!({"publishNotReadyAddresses": true}));
    published["metadata"]["name"] = json!("published");
    world.apply(published).await;
    world.pod(0).await;
    world.pod_with(1, json!({"nodeName": null}), true).await;
    world.wait(3).await;
    let slices = world.slices().await;
    let of = |service: &str| {
        let own = |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service;
        slices.iter().filter(own).flat_map(names).collect::<Vec<_>>()
    };
    assert_eq!((of("web"), of("published")), (vec!["p000".to_owned()], vec!["p000".to_owned(), "p001".to_owned()]));
}

/// ENDPOINTSLICE-68.
#[tokio::test(start_paused = true)]
async fn no_sync_decides_before_the_cache_shows_own_writes() {
    let world = World::new().await;
    world.apply(web(&json!({}))).await;
    world.wait(2).await;
    world.sandbox.faults().hold_watch(ME, "endpointslices");
    for index in 0..3 {
        world.pod(index).await;
        world.wait(3).await;
    }
    assert!(world.written() <= 2, "each write must be in the cache before the next: {}", world.written());
    world.sandbox.faults().release_watch(ME, "endpointslices");
    world.wait(60).await;
    assert_eq!(names(&world.slice().await), ["p000", "p001", "p002"]);
    assert!(world.events().await.is_empty(), "{:#?}", world.events().await);
}

/// ENDPOINTSLICE-62, ENDPOINTSLICE-64.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_reported_and_retried() {
    let world = World::new().await;
    world.sandbox.faults().add(Rule::new(Action::Invalid).identity(ME).verb("create").resource("endpointslices"));
    world.apply(web(&json!({}))).await;
    world.wait(20).await;
    let start = "Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service shop/web: failed to create EndpointSlice for Service shop/web: ";
    assert!(world.events().await.iter().any(|event| event.starts_with(start)), "{:#?}", world.events().await);
    let tries = world.asked("create", SLICES);
    assert!((3..=6).contains(&tries), "after 1, 2, 4 and 8 seconds: {tries}");
    world.sandbox.faults().clear();
    world.wait(60).await;
    assert_eq!(world.sizes().await, [0]);
}

/// ENDPOINTSLICE-17, ENDPOINTSLICE-62.
#[tokio::test(start_paused = true)]
async fn a_pod_on_an_unknown_node_is_omitted_until_the_node_is_known() {
    let world = World::new().await;
    world.apply(web(&json!({}))).await;
    world.pod(0).await;
    world.pod_with(1, json!({"nodeName": "n9"}), true).await;
    world.wait(2).await;
    assert_eq!(names(&world.slice().await), ["p000"]);
    let expected = "Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service shop/web: skipping Pod p001 for Service shop/web: Node n9 Not Found";
    assert!(world.events().await.iter().any(|event| event == expected), "{:#?}", world.events().await);
    world.node(9, "True").await;
    world.wait(60).await;
    assert_eq!(names(&world.slice().await), ["p000", "p001"]);
}

/// ENDPOINTSLICE-32, ENDPOINTSLICE-81.
#[tokio::test(start_paused = true)]
async fn a_recreated_service_has_its_own_slices() {
    let world = World::new().await;
    world.apply(web(&json!({}))).await;
    world.wait(2).await;
    world.remove("/api/v1/namespaces/NS/services/web").await;
    let service = world.apply(web(&json!({}))).await;
    world.wait(3).await;
    let slice = world.slice().await;
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], service["metadata"]["uid"]);
}

/// ENDPOINTSLICE-66.
#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_costs_few_requests() {
    let world = World::new().await;
    world
        .sandbox
        .merge("namespaces", None, NS, None, json!({"metadata": {"finalizers": ["test/hold"]}}))
        .await
        .unwrap();
    world.apply(web(&json!({}))).await;
    world.wait(2).await;
    world.remove("/api/v1/namespaces/NS").await;
    world.wait(30).await;
    assert!(world.slices().await.is_empty());
    assert!(world.asked("create", SLICES) <= 3, "{}", world.asked("create", SLICES));
}

/// ENDPOINTSLICE-64.
#[tokio::test(start_paused = true)]
async fn a_storm_of_conflicts_ends_in_the_right_slices() {
    let world = World::filled_with(3).await;
    world.apply(web(&json!({}))).await;
    world.pods(0..7).await;
    world.wait(5).await;
    assert_eq!(world.sizes().await, [3, 3, 1]);
    let conflicts = Rule::new(Action::Conflict).identity(ME).resource("endpointslices").times(8);
    world.sandbox.faults().add(conflicts);
    for index in 0..7 {
        world.ready(index, false).await;
        world.wait(1).await;
    }
    world.remove_pod(6).await;
    world.wait(200).await;
    assert_eq!(world.sandbox.faults().hits(&Action::Conflict), 8);
    assert_eq!(world.sizes().await, [3, 3]);
    let all: Vec<Value> = world.slices().await.iter().flat_map(endpoints).collect();
    assert!(all.iter().all(|endpoint| endpoint["conditions"]["ready"] == false), "{all:#?}");
    assert_eq!(world.explain("shop/web")["state"], "settled");
    let before = world.written();
    world.wait(600).await;
    assert_eq!(world.written(), before, "no retry is pending");
}
