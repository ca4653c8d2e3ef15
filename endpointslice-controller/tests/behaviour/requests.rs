//! The count of requests by the loops depends on the written endpoints, and never on numbers or texts in a spec.
//!
//! `hostile.rs` bounds the allocations of decisions, and `neighbours.rs` the effect of hostile Services on other Services.

use crate::world::*;

/// The number of Pods of the large Service.
const PODS: usize = 3_000;
/// The count of endpoints at which a slice is full by default.
const SLICE: usize = 100;
/// The count of addresses at which an Endpoints object is full.
const MAX_ENDPOINTS: usize = 1_000;

/// Returns the number of requests, without Events and watches.
fn requests(world: &World) -> u64 {
    let of =
        |verb: Option<&str>, resource: Option<&str>| world.sandbox.requests().count(Some(CONTROLLER), verb, resource);
    world.count_all() - of(None, Some("events")) - of(Some("watch"), None)
}

/// ENDPOINTSLICE-29, ENDPOINTSLICE-58, ENDPOINTSLICE-82.
#[tokio::test(start_paused = true)]
async fn thousands_of_pods_are_written_once_and_a_change_of_one_pod_writes_its_slice() {
    let world = start(cluster()).await;
    create_pods(&world, 0..PODS).await;
    world.wait(5).await;
    world.clear_log();
    world.create(web_service(json!({}))).await;
    world.wait(60).await;
    let slices = PODS.div_ceil(SLICE) as u64;
    let wanted = [("create endpoints".to_owned(), 1), ("create endpointslices".to_owned(), slices)];
    assert_eq!(world.write_counts(), BTreeMap::from(wanted));
    assert_eq!(requests(&world), slices + 1, "no reads and no repeated requests");
    assert_eq!(world.list(SLICES).await.iter().map(|slice| endpoints_in(slice).len()).sum::<usize>(), PODS);
    let there = world.get("endpoints", "web").await;
    assert_eq!(there["subsets"][0]["addresses"].as_array().unwrap().len(), MAX_ENDPOINTS);

    world.clear_log();
    set_pod_ready(&world, 0, false).await;
    world.wait(60).await;
    let wanted = [("update endpoints".to_owned(), 1), ("update endpointslices".to_owned(), 1)];
    assert_eq!(world.write_counts(), BTreeMap::from(wanted));
    assert_eq!(requests(&world), 2);

    world.clear_log();
    world.wait(600).await;
    assert_eq!(requests(&world), 0, "a settled Service costs no request");
}

/// The API server rejects objects beyond the limits of validation; `hostile.rs` tests such objects.
#[tokio::test(start_paused = true)]
async fn services_at_the_limits_of_validation_cost_as_few_requests_as_others() {
    let world = start(cluster()).await;
    create_pods(&world, 0..4).await;
    world.wait(2).await;
    let ports = |target: &dyn Fn(usize) -> Value| {
        let port = |n: usize| json!({"name": format!("p{n}"), "port": n, "targetPort": target(n), "protocol": "TCP"});
        (64_536..=65_535).map(port).collect::<Vec<_>>()
    };
    let labels: BTreeMap<String, String> = (0..5_000).map(|n| (format!("label-{n}"), "v".repeat(63))).collect();
    for (at, spec) in [
        json!({}),
        json!({"ports": ports(&|n| json!(n))}),
        json!({"ports": ports(&|n| json!(format!("port-{n}")))}),
        json!({"ports": ports(&|_| json!(65_535)), "clusterIP": "None", "publishNotReadyAddresses": true}),
        json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86_400}}}),
        json!({ "selector": labels }),
    ]
    .into_iter()
    .enumerate()
    {
        world.clear_log();
        let mut service = web_service(spec);
        let name = format!("web-{at}");
        service["metadata"] =
            json!({"name": name, "namespace": NAMESPACE, "annotations": {"note": "n".repeat(200_000)}});
        world.create(service).await;
        world.wait(120).await;
        // One Endpoints object and one slice are written, and nothing is read.
        let wanted = [("create endpoints".to_owned(), 1), ("create endpointslices".to_owned(), 1)];
        assert_eq!(world.write_counts(), BTreeMap::from(wanted), "{name}");
        assert_eq!(requests(&world), 2, "{name}");
    }
}
