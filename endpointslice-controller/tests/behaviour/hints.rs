use crate::world::*;

const MODE: &str = "service.kubernetes.io/topology-mode";

/// Returns the hinted zone of each endpoint; empty if there is no hint.
async fn hinted_zones(world: &World) -> Vec<String> {
    let slice = only_slice(world).await;
    let zone = |endpoint: &Value| {
        assert!(endpoint["hints"]["forNodes"].is_null(), "{endpoint}");
        text(&endpoint["hints"]["forZones"][0], "name").to_owned()
    };
    endpoints_in(&slice).iter().map(zone).collect()
}

/// ENDPOINTSLICE-39, ENDPOINTSLICE-42, ENDPOINTSLICE-43, ENDPOINTSLICE-44, ENDPOINTSLICE-45, ENDPOINTSLICE-82.
#[tokio::test(start_paused = true)]
async fn zones_get_endpoints_in_proportion_to_their_capacity_while_that_is_possible() {
    let world = start(cluster()).await;
    world.create(merged(web_service(json!({})), json!({"metadata": {"annotations": {MODE: "Auto"}}}))).await;
    create_pod(&world, 0).await;
    world.wait(2).await;
    assert_eq!(hinted_zones(&world).await, [""]);
    world.assert_event("Warning TopologyAwareHintsDisabled Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4").await;
    for index in [2, 4, 1] {
        create_pod(&world, index).await;
    }
    world.wait(2).await;
    let mut zones = hinted_zones(&world).await;
    zones.sort();
    assert_eq!(zones, ["z0", "z0", "z1", "z1"], "z1 gets one of z0's");
    world
        .assert_event("Normal TopologyAwareHintsEnabled Topology Aware Hints has been enabled, addressType: IPv4")
        .await;
    let before = slice_write_count(&world);
    world.touch_subject().await;
    world.wait(2).await;
    assert_eq!(slice_write_count(&world), before, "correct hints stay");
    for (mode, hints) in [(json!(null), 0), (json!("Auto"), 4)] {
        world.patch("services", "web", json!({"metadata": {"annotations": {MODE: mode}}})).await;
        world.wait(1).await;
        assert_eq!(hinted_zones(&world).await.iter().filter(|zone| !zone.is_empty()).count(), hints);
    }
    world
        .assert_event("Warning TopologyAwareHintsDisabled Topology Aware Hints has been disabled, addressType: IPv4")
        .await;
    put_node(&world, 1, "False").await;
    put_node(&world, 3, "False").await;
    world.wait(2).await;
    assert_eq!(hinted_zones(&world).await, [""; 4], "one zone is left");
    world.assert_event("Warning TopologyAwareHintsDisabled Insufficient Node information").await;
}
