use crate::world::*;

async fn there(world: &World) -> Value {
    world.get("endpoints", "web").await
}

#[tokio::test(start_paused = true)]
async fn a_write_with_a_lost_answer_is_corrected_once_the_cache_shows_it() {
    let world = world_with_service(json!({})).await;
    create_pod(&world, 0).await;
    world.wait(5).await;
    world.hold("endpoints");
    world.fault(rule(Action::CutAfter, "patch", "endpoints").times(1));
    set_pod_ready(&world, 0, false).await;
    world.wait(1).await;
    assert!(there(&world).await["subsets"][0]["addresses"].is_null(), "the write took effect");
    // The Pod becomes ready again. In the cached Endpoints, which do not show the write yet, the Pod has always been ready.
    set_pod_ready(&world, 0, true).await;
    world.wait(30).await;
    world.release("endpoints");
    world.wait(5).await;
    assert_eq!(there(&world).await["subsets"][0]["addresses"][0]["ip"], "10.1.0.1");
}

/// Returns Endpoints that a user has written, with this annotation.
fn hand_made(name: &str, annotation: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Endpoints", "subsets": [{"addresses": [{"ip": "10.2.0.1"}], "ports": [{"port": 80}]}],
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {annotation: "x"}}})
}

/// ENDPOINTSLICE-59.
#[tokio::test(start_paused = true)]
async fn leftover_endpoints_are_deleted_at_the_start_and_hand_made_ones_stay() {
    let mut world = world_with_service(json!({"selector": null})).await;
    world.crash();
    world.create(hand_made("left", "a")).await;
    world.create(hand_made("lock", "control-plane.alpha.kubernetes.io/leader")).await;
    let made = world.create(hand_made("web", "a")).await;
    world.start();
    world.wait(30).await;
    assert_eq!(world.names("endpoints").await, ["lock", "web"]);
    assert_eq!(there(&world).await["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
}

/// ENDPOINTSLICE-61.
#[tokio::test(start_paused = true)]
async fn endpoints_that_wait_for_a_finalizer_are_kept_up_to_date() {
    let world = world_with_service(json!({})).await;
    create_pod(&world, 0).await;
    world.wait(2).await;
    world.patch("endpoints", "web", json!({"metadata": {"finalizers": ["test/hold"]}})).await;
    delete_path(&world, "/api/v1/namespaces/NS/endpoints/web").await;
    create_pod(&world, 1).await;
    world.wait(60).await;
    assert_eq!(there(&world).await["subsets"][0]["addresses"].as_array().unwrap().len(), 2);
    assert_eq!(world.count("create", "endpoints"), 1);
    assert_eq!(world.events().await, Vec::<String>::new());
    world.patch("endpoints", "web", json!({"metadata": {"finalizers": null}})).await;
    world.wait(5).await;
    assert_eq!(there(&world).await["metadata"]["deletionTimestamp"], Value::Null, "created again");
}
