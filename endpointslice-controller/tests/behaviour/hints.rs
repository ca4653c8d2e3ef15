use serde_json::{Value, json};

use crate::world::{World, endpoints, web};

/// Returns the hinted zone and node of each endpoint.
async fn hints(world: &World) -> Vec<(Value, Value)> {
    let slice = world.slice().await;
    let name = |of: &Value, field: &str| of["hints"][field][0]["name"].clone();
    endpoints(&slice).iter().map(|e| (name(e, "forZones"), name(e, "forNodes"))).collect()
}

fn all(pairs: &[(&str, &str)]) -> Vec<(Value, Value)> {
    let value = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
    pairs.iter().map(|(zone, node)| (value(zone), value(node))).collect()
}

/// ENDPOINTSLICE-39.
#[tokio::test(start_paused = true)]
async fn endpoints_are_hinted_to_their_zone_or_node() {
    let world = World::new().await;
    world.apply(web(&json!({"trafficDistribution": "PreferSameZone"}))).await;
    world.pods(0..2).await;
    world.wait(2).await;
    assert_eq!(hints(&world).await, all(&[("z0", ""), ("z1", "")]));
    world.change("services", "web", json!({"spec": {"trafficDistribution": "PreferSameNode"}})).await;
    world.wait(1).await;
    assert_eq!(hints(&world).await, all(&[("z0", "n0"), ("z1", "n1")]));
    world.ready(1, false).await;
    world.wait(1).await;
    assert_eq!(hints(&world).await, all(&[("z0", "n0"), ("", "")]), "only ready endpoints");
    world.change("services", "web", json!({"spec": {"trafficDistribution": null}})).await;
    world.wait(1).await;
    assert_eq!(hints(&world).await, all(&[("", ""), ("", "")]));
}

fn auto() -> Value {
    let mut service = web(&json!({}));
    service["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    service
}

/// ENDPOINTSLICE-43, ENDPOINTSLICE-45, ENDPOINTSLICE-82.
#[tokio::test(start_paused = true)]
async fn zones_get_endpoints_in_proportion_to_their_capacity() {
    let world = World::new().await;
    world.apply(auto()).await;
    for index in [0, 2, 4, 1] {
        world.pod(index).await;
    }
    world.wait(2).await;
    let mut zones: Vec<Value> = hints(&world).await.into_iter().map(|(zone, _)| zone).collect();
    zones.sort_by_key(ToString::to_string);
    assert_eq!(zones, ["z0", "z0", "z1", "z1"], "z1 gets one of z0's");
    let expected = "Normal TopologyAwareHintsEnabled Topology Aware Hints has been enabled, addressType: IPv4";
    assert!(world.events().await.iter().any(|event| event == expected), "{:#?}", world.events().await);
    let before = world.written();
    world.change("services", "web", json!({"metadata": {"annotations": {"note": "1"}}})).await;
    world.wait(2).await;
    assert_eq!(world.written(), before, "correct hints stay");
}

/// ENDPOINTSLICE-43, ENDPOINTSLICE-45.
#[tokio::test(start_paused = true)]
async fn too_few_endpoints_have_no_hints() {
    let world = World::new().await;
    world.apply(auto()).await;
    world.pod(0).await;
    world.wait(2).await;
    assert_eq!(hints(&world).await, all(&[("", "")]));
    let expected =
        "Warning TopologyAwareHintsDisabled Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4";
    assert!(world.events().await.iter().any(|event| event == expected), "{:#?}", world.events().await);
}

/// ENDPOINTSLICE-42, ENDPOINTSLICE-44, ENDPOINTSLICE-45.
#[tokio::test(start_paused = true)]
async fn hints_follow_the_nodes() {
    let world = World::new().await;
    world.apply(auto()).await;
    world.pods(0..4).await;
    world.wait(2).await;
    assert_eq!(hints(&world).await, all(&[("z0", ""), ("z1", ""), ("z0", ""), ("z1", "")]));
    world.node(1, "False").await;
    world.node(3, "False").await;
    world.wait(2).await;
    assert_eq!(hints(&world).await, all(&[("", ""), ("", ""), ("", ""), ("", "")]), "one zone is left");
    let expected = "Warning TopologyAwareHintsDisabled Insufficient Node information";
    assert!(world.events().await.iter().any(|event| event.starts_with(expected)), "{:#?}", world.events().await);
}

/// ENDPOINTSLICE-39, ENDPOINTSLICE-45.
#[tokio::test(start_paused = true)]
async fn removing_the_annotation_removes_the_hints() {
    let world = World::new().await;
    world.apply(auto()).await;
    world.pods(0..2).await;
    world.wait(2).await;
    world
        .change("services", "web", json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": null}}}))
        .await;
    world.wait(1).await;
    assert_eq!(hints(&world).await, all(&[("", ""), ("", "")]));
    let expected = "Warning TopologyAwareHintsDisabled Topology Aware Hints has been disabled, addressType: IPv4";
    assert!(world.events().await.iter().any(|event| event == expected), "{:#?}", world.events().await);
}
