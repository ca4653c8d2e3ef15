use crate::world::*;

/// Returns the hinted zone and node of each endpoint.
async fn hints(world: &World) -> Vec<(Value, Value)> {
    let slice = only_slice(world).await;
    let name = |of: &Value, field: &str| of["hints"][field][0]["name"].clone();
    endpoints_in(&slice).iter().map(|e| (name(e, "forZones"), name(e, "forNodes"))).collect()
}

fn all(pairs: &[(&str, &str)]) -> Vec<(Value, Value)> {
    let value = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
    pairs.iter().map(|(zone, node)| (value(zone), value(node))).collect()
}

fn auto() -> Value {
    let mut service = web_service(json!({}));
    service["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    service
}

/// ENDPOINTSLICE-39.
#[tokio::test(start_paused = true)]
async fn endpoints_are_hinted_to_their_zone_or_node() {
    let world = world_with_service(json!({"trafficDistribution": "PreferSameZone"})).await;
    let prefer = async |distribution: Value| {
        world.patch("services", "web", json!({"spec": {"trafficDistribution": distribution}})).await;
        world.wait(1).await;
    };
    create_pods(&world, 0..2).await;
    world.wait(2).await;
    assert_eq!(hints(&world).await, all(&[("z0", ""), ("z1", "")]));
    prefer(json!("PreferSameNode")).await;
    assert_eq!(hints(&world).await, all(&[("z0", "n0"), ("z1", "n1")]));
    set_pod_ready(&world, 1, false).await;
    world.wait(1).await;
    assert_eq!(hints(&world).await, all(&[("z0", "n0"), ("", "")]), "only ready endpoints");
    prefer(Value::Null).await;
    assert_eq!(hints(&world).await, all(&[("", ""), ("", "")]));
}

/// ENDPOINTSLICE-43, ENDPOINTSLICE-45, ENDPOINTSLICE-82.
#[tokio::test(start_paused = true)]
async fn zones_get_endpoints_in_proportion_to_their_capacity() {
    let world = start(cluster()).await;
    world.create(auto()).await;
    for index in [0, 2, 4, 1] {
        create_pod(&world, index).await;
    }
    world.wait(2).await;
    let mut zones: Vec<Value> = hints(&world).await.into_iter().map(|(zone, _)| zone).collect();
    zones.sort_by_key(ToString::to_string);
    assert_eq!(zones, ["z0", "z0", "z1", "z1"], "z1 gets one of z0's");
    let expected = "Normal TopologyAwareHintsEnabled Topology Aware Hints has been enabled, addressType: IPv4";
    world.assert_event(expected).await;
    let before = slice_write_count(&world);
    world.patch("services", "web", json!({"metadata": {"annotations": {"note": "1"}}})).await;
    world.wait(2).await;
    assert_eq!(slice_write_count(&world), before, "correct hints stay");
}

/// ENDPOINTSLICE-43, ENDPOINTSLICE-45.
#[tokio::test(start_paused = true)]
async fn too_few_endpoints_have_no_hints() {
    let world = start(cluster()).await;
    world.create(auto()).await;
    create_pod(&world, 0).await;
    world.wait(2).await;
    assert_eq!(hints(&world).await, all(&[("", "")]));
    let expected =
        "Warning TopologyAwareHintsDisabled Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4";
    world.assert_event(expected).await;
}

/// ENDPOINTSLICE-42, ENDPOINTSLICE-44, ENDPOINTSLICE-45.
#[tokio::test(start_paused = true)]
async fn hints_follow_the_nodes() {
    let world = start(cluster()).await;
    world.create(auto()).await;
    create_pods(&world, 0..4).await;
    world.wait(2).await;
    assert_eq!(hints(&world).await, all(&[("z0", ""), ("z1", ""), ("z0", ""), ("z1", "")]));
    put_node(&world, 1, "False").await;
    put_node(&world, 3, "False").await;
    world.wait(2).await;
    assert_eq!(hints(&world).await, all(&[("", ""), ("", ""), ("", ""), ("", "")]), "one zone is left");
    let expected = "Warning TopologyAwareHintsDisabled Insufficient Node information";
    world.assert_event(expected).await;
}

/// ENDPOINTSLICE-39, ENDPOINTSLICE-45.
#[tokio::test(start_paused = true)]
async fn removing_the_annotation_removes_the_hints() {
    let world = start(cluster()).await;
    world.create(auto()).await;
    create_pods(&world, 0..2).await;
    world.wait(2).await;
    world
        .patch("services", "web", json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": null}}}))
        .await;
    world.wait(1).await;
    assert_eq!(hints(&world).await, all(&[("", ""), ("", "")]));
    let expected = "Warning TopologyAwareHintsDisabled Topology Aware Hints has been disabled, addressType: IPv4";
    world.assert_event(expected).await;
}
