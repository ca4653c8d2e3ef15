use crate::world::*;

/// One subset with these addresses.
fn subsets(ips: &[&str]) -> Value {
    let addresses: Value = ips.iter().map(|ip| json!({ "ip": ip })).collect();
    json!([{"addresses": addresses, "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}])
}

/// Starts a cluster with the Service `web` without a selector, and creates its Endpoints with two addresses.
async fn world_with_endpoints(cluster: Cluster, fault: Option<Rule>) -> World {
    let world = start(cluster).await;
    world.create(web_service(json!({"selector": null}))).await;
    if let Some(fault) = fault {
        world.fault(fault);
    }
    let metadata = json!({"name": "web", "namespace": NAMESPACE});
    let two = subsets(&["10.2.0.1", "10.2.0.2"]);
    world.create(json!({"apiVersion": "v1", "kind": "Endpoints", "subsets": two, "metadata": metadata})).await;
    world
}

/// ENDPOINTSLICE-64.
#[tokio::test(start_paused = true)]
async fn a_create_that_never_arrived_is_retried_soon() {
    let fault = rule(Action::CutBefore, "create", "endpointslices").times(1);
    let world = world_with_endpoints(cluster(), Some(fault)).await;
    world.wait(5).await;
    assert_eq!(slice_sizes(&world).await, [2]);
    world.patch("endpoints", "web", json!({"subsets": subsets(&["10.2.0.3"])})).await;
    world.wait(2).await;
    assert_eq!(slice_sizes(&world).await, [1], "the lost create delays no sync");
}

/// ENDPOINTSLICE-54.
#[tokio::test(start_paused = true)]
async fn only_changes_of_slices_wait_for_the_batch_period() {
    let batch = in_seconds(20);
    let cluster = cluster().tunable("mirroring-endpointslice-updates-batch-period", batch);
    let world = world_with_endpoints(cluster, None).await;
    world.wait(1).await;
    world.patch(SLICES, name(&only_slice(&world).await), json!({"endpoints": []})).await;
    world.wait(15).await;
    assert_eq!(slice_sizes(&world).await, [0]);
    world.wait(10).await;
    assert_eq!(slice_sizes(&world).await, [2]);
}
