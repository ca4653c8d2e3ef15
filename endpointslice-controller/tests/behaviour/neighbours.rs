//! Services with thousands of Pods, a hundred ports or thousands of mirrored addresses do not affect other Services.

use testkit::conformance::{Observation, Observed};

use crate::world::*;

/// The namespace of the hostile Services.
const HOSTILE: &str = "hostile";
/// The number of ordinary Services, each with two Pods.
const ORDINARY: usize = 50;
/// The number of Pods that each hostile Service selects.
const PODS: usize = 2_000;
/// The number of ports of each hostile Service.
const PORTS: usize = 100;
/// The number of addresses in the mirrored Endpoints.
const ADDRESSES: usize = 3_000;
/// The number of hostile Pods that become unready while the ordinary Services are observed.
const CHANGES: usize = 40;
/// The maximal number of requests for the hostile Services. Each change writes a slice and the Endpoints of both Services that
/// select the Pod. Each slice of a hundred endpoints is created once. Eighty requests cover the changes while the Pods are
/// created.
const HOSTILE_REQUESTS: u64 = (2 * 2 * CHANGES + 2 * PODS / 100 + 80) as u64;
/// ENDPOINTSLICE-70.
#[tokio::test(start_paused = true)]
async fn hostile_services_cost_their_neighbours_nothing() {
    let (alone, beside) = (observe(false).await, observe(true).await);
    assert_eq!((alone.elsewhere, &beside.inside), (0, &alone.inside));
    let bounds = 1..=HOSTILE_REQUESTS;
    assert!(bounds.contains(&beside.elsewhere), "{} requests for the hostile Services", beside.elsewhere);
}

/// Creates fifty Services with Pods, with or without hostile ones. One Pod of each becomes unready and is then relabelled.
async fn observe(beside_hostile: bool) -> Observed {
    let world = start(cluster()).await;
    world.create(namespace(HOSTILE)).await;
    world.wait(1).await;
    let observation = Observation::begin(&world);
    if beside_hostile {
        add_hostile(&world).await;
    }
    for number in 0..ORDINARY {
        let app = format!("web-{number}");
        let service = web_service(json!({"selector": {"app": app}}));
        world.create(merged(service, json!({"metadata": {"name": app}}))).await;
        rest(&world).await;
        for index in [number, ORDINARY + number] {
            let pod = format!("p{index:03}");
            add_pod(&world, NAMESPACE, &pod, &app, index).await;
            rest(&world).await;
            report(&world, NAMESPACE, &pod, &format!("10.1.{}.{}", index / 250, index % 250 + 1), true).await;
            rest(&world).await;
        }
    }
    until_ready(&world, 2, 2).await;
    for number in 0..ORDINARY {
        if beside_hostile && number < CHANGES {
            let index = number * PODS / CHANGES;
            report(&world, HOSTILE, &format!("crowd-{index:04}"), &hostile_address(index), false).await;
        }
        set_pod_ready(&world, number, false).await;
        rest(&world).await;
    }
    until_ready(&world, 2, 1).await;
    for number in 0..ORDINARY {
        world.label("pods", &format!("p{number:03}"), json!({"app": "gone"})).await;
        rest(&world).await;
    }
    until_ready(&world, 1, 1).await;
    let observed = observation.end(&world);
    if beside_hostile {
        assert_hostile_are_served(&world).await;
    }
    observed
}

/// Gives the loops time to act on a change, so that changes are debounced in the same way in each run.
async fn rest(world: &World) {
    world.wait(0.001).await;
}

/// Waits until each ordinary Service has `all` endpoints in its slices, and `ready` ready ones in its slices and Endpoints.
async fn until_ready(world: &World, all: usize, ready: usize) {
    let is_done = async || {
        let endpoints: Vec<Value> = world.list(SLICES).await.iter().flat_map(endpoints_in).collect();
        let ready_endpoints = endpoints.iter().filter(|endpoint| endpoint["conditions"]["ready"] == true).count();
        let objects = world.list("endpoints").await;
        let subsets = objects.iter().filter_map(|object| object["subsets"].as_array()).flatten();
        let addresses: usize = subsets.filter_map(|subset| Some(subset["addresses"].as_array()?.len())).sum();
        [endpoints.len(), ready_endpoints, addresses] == [all, ready, ready].map(|count| count * ORDINARY)
    };
    world.wait(0.1).await;
    world.until(60, is_done).await;
}

async fn add_pod(world: &World, namespace: &str, name: &str, app: &str, index: usize) {
    let pod = with_spec(orphan_pod(name, app), json!({"nodeName": format!("n{}", index % 4)}));
    world.create(merged(pod, json!({"metadata": {"namespace": namespace}}))).await;
}

/// Writes the status of a Pod with this address, as its kubelet does.
async fn report(world: &World, namespace: &str, name: &str, ip: &str, ready: bool) {
    let conditions = json!([{"type": "Ready", "status": if ready { "True" } else { "False" },
        "lastTransitionTime": "2026-03-01T10:00:00Z"}]);
    let status = json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": conditions});
    world.sandbox.merge("pods", Some(namespace), name, Some("status"), json!({ "status": status })).await.unwrap();
}

fn hostile_address(index: usize) -> String {
    format!("10.3.{}.{}", index / 250, index % 250 + 1)
}

/// Creates two Services that select thousands of Pods with a hundred ports, and one with thousands of mirrored addresses. The
/// named ports of the second Service exist on no Pod.
async fn add_hostile(world: &World) {
    let ports = |target: &dyn Fn(usize) -> Value| -> Vec<Value> {
        (0..PORTS).map(|n| json!({"name": format!("port-{n}"), "port": 1 + n, "targetPort": target(n)})).collect()
    };
    let numbers = ports(&|n| json!(8000 + n));
    let names = ports(&|n| json!(format!("none-{n}")));
    for (name, selector, ports) in [
        ("wide", json!({"app": "crowd"}), &numbers),
        ("unresolved", json!({"app": "crowd"}), &names),
        ("mirrored", json!(null), &numbers),
    ] {
        let mut service = web_service(json!({"selector": selector, "ports": ports}));
        service["metadata"] = json!({"name": name, "namespace": HOSTILE});
        world.create(service).await;
    }
    for index in 0..PODS {
        let pod = format!("crowd-{index:04}");
        add_pod(world, HOSTILE, &pod, "crowd", index).await;
        report(world, HOSTILE, &pod, &hostile_address(index), true).await;
    }
    let addresses: Vec<Value> =
        (0..ADDRESSES).map(|n| json!({"ip": format!("10.4.{}.{}", n / 250, n % 250 + 1)})).collect();
    let ports: Vec<Value> = (0..PORTS).map(|n| json!({"name": format!("port-{n}"), "port": 8000 + n})).collect();
    let subsets = json!([{"addresses": addresses, "ports": ports}]);
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "subsets": subsets});
    world.create(merged(endpoints, json!({"metadata": {"name": "mirrored", "namespace": HOSTILE}}))).await;
}

/// Checks that the hostile Services have their endpoints too, instead of being skipped.
async fn assert_hostile_are_served(world: &World) {
    let mut served: BTreeMap<String, usize> = BTreeMap::new();
    for slice in world.sandbox.list(SLICES, Some(HOSTILE)).await.unwrap() {
        let service = slice["metadata"]["labels"]["kubernetes.io/service-name"].as_str().unwrap().to_owned();
        *served.entry(service).or_default() += endpoints_in(&slice).len();
    }
    assert_eq!((served["wide"], served["unresolved"]), (PODS, PODS), "{served:?}");
    assert!(served["mirrored"] > 0, "{served:?}");
}
