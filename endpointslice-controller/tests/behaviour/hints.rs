use serde_json::{Value, json};

use crate::world::{TestCluster, endpoints_in, web_service};

/// Returns the hinted zone and node of each endpoint.
async fn hints(world: &TestCluster) -> Vec<(Value, Value)> {
    let slice = world.only_slice().await;
    let name = |of: &Value, field: &str| of["hints"][field][0]["name"].clone();
    endpoints_in(&slice).iter().map(|e| (name(e, "forZones"), name(e, "forNodes"))).collect()
}

fn all(pairs: &[(&str, &str)]) -> Vec<(Value, Value)> {
    let value = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
    pairs.iter().map(|(zone, node)| (value(zone), value(node))).collect()
}

/// ENDPOINTSLICE-39.
#[tokio::test(start_paused = true)]
async fn endpoints_are_hinted_to_their_zone_or_node() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({"trafficDistribution": "PreferSameZone"}))).await;
    world.create_pods(0..2).await;
    world.wait_seconds(2).await;
    assert_eq!(hints(&world).await, all(&[("z0", ""), ("z1", "")]));
    world.patch_object("services", "web", json!({"spec": {"trafficDistribution": "PreferSameNode"}})).await;
    world.wait_seconds(1).await;
    assert_eq!(hints(&world).await, all(&[("z0", "n0"), ("z1", "n1")]));
    world.set_pod_ready(1, false).await;
    world.wait_seconds(1).await;
    assert_eq!(hints(&world).await, all(&[("z0", "n0"), ("", "")]), "only ready endpoints");
    world.patch_object("services", "web", json!({"spec": {"trafficDistribution": null}})).await;
    world.wait_seconds(1).await;
    assert_eq!(hints(&world).await, all(&[("", ""), ("", "")]));
}

fn auto() -> Value {
    let mut service = web_service(&json!({}));
    service["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    service
}

/// ENDPOINTSLICE-43, ENDPOINTSLICE-45, ENDPOINTSLICE-82.
#[tokio::test(start_paused = true)]
async fn zones_get_endpoints_in_proportion_to_their_capacity() {
    let world = TestCluster::new().await;
    world.create_object(auto()).await;
    for index in [0, 2, 4, 1] {
        world.create_pod(index).await;
    }
    world.wait_seconds(2).await;
    let mut zones: Vec<Value> = hints(&world).await.into_iter().map(|(zone, _)| zone).collect();
    zones.sort_by_key(ToString::to_string);
    assert_eq!(zones, ["z0", "z0", "z1", "z1"], "z1 gets one of z0's");
    let expected = "Normal TopologyAwareHintsEnabled Topology Aware Hints has been enabled, addressType: IPv4";
    assert!(world.events().await.iter().any(|event| event == expected), "{:#?}", world.events().await);
    let before = world.slice_write_count();
    world.patch_object("services", "web", json!({"metadata": {"annotations": {"note": "1"}}})).await;
    world.wait_seconds(2).await;
    assert_eq!(world.slice_write_count(), before, "correct hints stay");
}

/// ENDPOINTSLICE-43, ENDPOINTSLICE-45.
#[tokio::test(start_paused = true)]
async fn too_few_endpoints_have_no_hints() {
    let world = TestCluster::new().await;
    world.create_object(auto()).await;
    world.create_pod(0).await;
    world.wait_seconds(2).await;
    assert_eq!(hints(&world).await, all(&[("", "")]));
    let expected =
        "Warning TopologyAwareHintsDisabled Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4";
    assert!(world.events().await.iter().any(|event| event == expected), "{:#?}", world.events().await);
}

/// ENDPOINTSLICE-42, ENDPOINTSLICE-44, ENDPOINTSLICE-45.
#[tokio::test(start_paused = true)]
async fn hints_follow_the_nodes() {
    let world = TestCluster::new().await;
    world.create_object(auto()).await;
    world.create_pods(0..4).await;
    world.wait_seconds(2).await;
    assert_eq!(hints(&world).await, all(&[("z0", ""), ("z1", ""), ("z0", ""), ("z1", "")]));
    world.put_node(1, "False").await;
    world.put_node(3, "False").await;
    world.wait_seconds(2).await;
    assert_eq!(hints(&world).await, all(&[("", ""), ("", ""), ("", ""), ("", "")]), "one zone is left");
    let expected = "Warning TopologyAwareHintsDisabled Insufficient Node information";
    assert!(world.events().await.iter().any(|event| event.starts_with(expected)), "{:#?}", world.events().await);
}

/// ENDPOINTSLICE-39, ENDPOINTSLICE-45.
#[tokio::test(start_paused = true)]
async fn removing_the_annotation_removes_the_hints() {
    let world = TestCluster::new().await;
    world.create_object(auto()).await;
    world.create_pods(0..2).await;
    world.wait_seconds(2).await;
    world
        .patch_object(
            "services",
            "web",
            json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": null}}}),
        )
        .await;
    world.wait_seconds(1).await;
    assert_eq!(hints(&world).await, all(&[("", ""), ("", "")]));
    let expected = "Warning TopologyAwareHintsDisabled Topology Aware Hints has been disabled, addressType: IPv4";
    assert!(world.events().await.iter().any(|event| event == expected), "{:#?}", world.events().await);
}
