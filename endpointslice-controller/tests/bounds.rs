//! The requests of the loops depend on the endpoints that are written, and never on numbers or texts in a spec.
//!
//! What deciding allocates is bounded in `hostile.rs`; what hostile Services cost their neighbours, in `neighbours.rs`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics fails")]

#[path = "behaviour/world.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod world;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::world::{ME, NS, World, endpoints, web};

/// The Pods of the large Service.
const PODS: usize = 3_000;
/// The number of endpoints up to which a slice is filled, by default.
const SLICE: usize = 100;
/// The number of addresses up to which Endpoints are filled.
const MAX_ENDPOINTS: usize = 1_000;

/// How many writes of each kind the loops have made since the log was cleared, Events aside.
fn writes(world: &World) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    for write in &world.sandbox.writes().all() {
        if write.identity == ME && write.resource != "events" {
            *out.entry(format!("{} {}", write.verb, write.resource)).or_default() += 1;
        }
    }
    out
}

fn forget(world: &World) {
    world.sandbox.requests().clear();
    world.sandbox.writes().clear();
}

/// The requests that read or write, Events and watches aside.
fn requests(world: &World) -> u64 {
    let count = |verb: Option<&str>, resource: Option<&str>| world.sandbox.requests().count(Some(ME), verb, resource);
    count(None, None) - count(None, Some("events")) - count(Some("watch"), None)
}

#[tokio::test(start_paused = true)]
async fn thousands_of_pods_are_written_slice_by_slice_and_a_change_of_one_costs_its_slices() {
    let world = World::new().await;
    world.pods(0..PODS).await;
    world.wait(5).await;
    forget(&world);
    world.apply(web(&json!({}))).await;
    world.wait(60).await;
    let slices = PODS.div_ceil(SLICE) as u64;
    let wanted = [("create endpoints".to_owned(), 1), ("create endpointslices".to_owned(), slices)];
    assert_eq!(writes(&world), BTreeMap::from(wanted));
    assert_eq!(requests(&world), slices + 1, "nothing is read, and nothing is asked twice");
    assert_eq!(world.slices().await.iter().map(|slice| endpoints(slice).len()).sum::<usize>(), PODS);
    let there = world.sandbox.get("endpoints", Some(NS), "web").await.unwrap();
    assert_eq!(there["subsets"][0]["addresses"].as_array().unwrap().len(), MAX_ENDPOINTS);

    forget(&world);
    world.ready(0, false).await;
    world.wait(60).await;
    let wanted = [("patch endpoints".to_owned(), 1), ("patch endpointslices".to_owned(), 1)];
    assert_eq!(writes(&world), BTreeMap::from(wanted));
    assert_eq!(requests(&world), 2);

    forget(&world);
    world.wait(600).await;
    assert_eq!(requests(&world), 0, "what is as wanted costs nothing");
}

/// Servers refuse anything beyond; `hostile.rs` decides about that, too.
#[tokio::test(start_paused = true)]
async fn services_at_the_limits_of_validation_cost_no_request_more_than_others() {
    let world = World::new().await;
    world.pods(0..4).await;
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
    .iter()
    .enumerate()
    {
        forget(&world);
        let mut service = web(spec);
        let name = format!("web-{at}");
        service["metadata"] = json!({"name": name, "namespace": NS, "annotations": {"note": "n".repeat(200_000)}});
        world.apply(service).await;
        world.wait(120).await;
        // One object of each kind, and nothing that is read.
        let wanted = [("create endpoints".to_owned(), 1), ("create endpointslices".to_owned(), 1)];
        assert_eq!(writes(&world), BTreeMap::from(wanted), "{name}");
        assert_eq!(requests(&world), 2, "{name}");
    }
}
