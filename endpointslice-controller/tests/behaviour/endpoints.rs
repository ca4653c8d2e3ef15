use crate::world::*;

async fn there(world: &World) -> Value {
    world.get("endpoints", "web").await
}

/// ENDPOINTSLICE-55, ENDPOINTSLICE-59.
#[tokio::test(start_paused = true)]
async fn endpoints_are_kept_beside_slices() {
    let world = world_with_service(json!({})).await;
    create_pod(&world, 0).await;
    create_pod_with(&world, 1, json!({}), false).await;
    world.wait(2).await;
    let endpoints = there(&world).await;
    let meta = &endpoints["metadata"];
    assert_eq!(meta["labels"], json!({"tier": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}));
    let uid = |pod: Value| pod["metadata"]["uid"].clone();
    let target = async |name: &str| {
        let uid = uid(world.get("pods", name).await);
        json!({"kind": "Pod", "namespace": NAMESPACE, "name": name, "uid": uid})
    };
    assert_eq!(
        endpoints["subsets"],
        json!([{"addresses": [{"ip": "10.1.0.1", "nodeName": "n0", "targetRef": target("p000").await}],
            "notReadyAddresses": [{"ip": "10.1.0.2", "nodeName": "n1", "targetRef": target("p001").await}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}])
    );
    let written = || world.count("patch", "endpoints") + world.count("create", "endpoints");
    let before = written();
    world.wait(60).await;
    assert_eq!(written(), before);
    delete_pod(&world, 0).await;
    delete_pod(&world, 1).await;
    world.wait(2).await;
    assert_eq!(there(&world).await["subsets"], Value::Null);
    delete_path(&world, "/api/v1/namespaces/NS/services/web").await;
    world.wait(2).await;
    assert!(
        world.sandbox.get("endpoints", Some(NAMESPACE), "web").await.is_err(),
        "Endpoints are deleted with their Service"
    );
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

/// ENDPOINTSLICE-59.
#[tokio::test(start_paused = true)]
async fn leftover_endpoints_are_deleted_at_the_start() {
    let mut world = start(cluster()).await;
    world.crash();
    for (name, annotations) in [("left", json!({})), ("lock", json!({"control-plane.alpha.kubernetes.io/leader": "x"}))]
    {
        world
            .create(json!({"apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations}}))
            .await;
    }
    world.start();
    world.wait(5).await;
    let left = world.list("endpoints").await;
    let names: Vec<&str> = left.iter().map(|e| e["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["lock"]);
}

/// ENDPOINTSLICE-59.
#[tokio::test(start_paused = true)]
async fn hand_made_endpoints_stay() {
    let world = world_with_service(json!({"selector": null})).await;
    let made = world
        .create(json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web", "namespace": NAMESPACE},
        "subsets": [{"addresses": [{"ip": "10.2.0.1"}], "ports": [{"port": 80}]}]}))
        .await;
    world.wait(30).await;
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
