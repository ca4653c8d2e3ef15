//! The oracles of EndpointSlices and Endpoints.

use simulation::json::{at, labels, text};

use super::*;

const SUITE: &str = "endpointslice";
const CONTROLLER: &str = "endpointslice-controller";
const SLICES: &str = "endpointslices.discovery.k8s.io";

fn create(object: Value) -> Act {
    Act::user(move |_| What::Create(object.clone()))
}

fn service() -> Act {
    create(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}}))
}

fn pod() -> Act {
    create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}}))
}

/// The slice of the Service over its one Pod, as the controller would write it.
fn slice(world: &World) -> Value {
    let service = world.get("services", "default", "web");
    let pod = world.get("pods", "default", "web-0");
    let (Some(service), Some(pod)) = (service, pod) else { panic!("the Service and its Pod exist") };
    let node = text(pod, "/spec/nodeName");
    let zone = labels(world.get("nodes", "", node).unwrap())["topology.kubernetes.io/zone"].to_owned();
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": uid(service),
                "controller": true, "blockOwnerDeletion": true}]},
        "endpoints": [{"addresses": [text(pod, "/status/podIP")], "nodeName": node, "zone": zone,
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "default", "name": name(pod), "uid": uid(pod)}}],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]})
}

/// The Endpoints of the Service, as the controller would write them.
fn endpoints(world: &World) -> Value {
    let slice = slice(world);
    let endpoint = &slice["endpoints"][0];
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web"}, "subsets": [{
        "addresses": [{"ip": endpoint["addresses"][0], "nodeName": endpoint["nodeName"],
            "targetRef": endpoint["targetRef"]}],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}]})
}

/// A world in which everything is right, and what an impostor does to it.
fn with(acts: impl IntoIterator<Item = Act>) -> Vec<&'static str> {
    let right = [
        service(),
        pod(),
        Act::impostor(CONTROLLER, |world| What::Create(slice(world))),
        Act::impostor(CONTROLLER, |world| What::Create(endpoints(world))),
    ];
    violations(SUITE, &right.into_iter().chain(acts).collect::<Vec<_>>())
}

fn patch(patch: impl Fn(Value) -> Value + 'static) -> Act {
    Act::impostor(CONTROLLER, move |world| What::merge(SLICES, "web-1", patch(slice(world))))
}

#[test]
fn what_is_right_violates_nothing() {
    assert_eq!(with([]), Vec::<&str>::new());
}

#[test]
fn a_dead_controller_keeps_no_promise() {
    assert_eq!(violations(SUITE, &[service(), pod()]), ["endpoints-tell-the-truth", "slices-tell-the-truth"]);
    let hand_made = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web"},
        "subsets": [{"addresses": [{"ip": "10.200.0.1"}], "ports": [{"port": 80}]}]});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"ports": [{"port": 80}]}});
    assert_eq!(violations(SUITE, &[create(service), create(hand_made)]), ["mirrors-tell-the-truth"]);
}

#[test]
fn whatever_is_wrong_in_a_slice_is_noticed() {
    for (pointer, wrong) in [
        ("/endpoints/0/addresses", json!(["10.99.99.99"])),
        ("/endpoints/0/zone", json!("elsewhere")),
        ("/endpoints/0/nodeName", json!("elsewhere")),
        ("/endpoints/0/conditions/serving", json!(false)),
        ("/endpoints/0/hints", json!({"forZones": [{"name": "z0"}]})),
        ("/ports", json!([{"name": "http", "port": 8081, "protocol": "TCP"}])),
        ("/ports", json!([{"name": "web", "port": 8080, "protocol": "TCP"}])),
        ("/metadata/labels/extra", json!("label")),
    ] {
        let edited = patch(move |mut slice| {
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            let parent = slice.pointer_mut(parent).unwrap();
            parent[field] = wrong.clone();
            slice
        });
        let found = with([edited]);
        assert!(found.contains(&"slices-tell-the-truth"), "{pointer}: {found:?}");
    }
}

/// The slice of the other family, as the controller would write it.
fn other_slice(world: &World) -> Value {
    let pod = world.get("pods", "default", "web-0").unwrap();
    let mut slice = slice(world);
    slice["metadata"]["name"] = json!("web-6");
    slice["addressType"] = json!("IPv6");
    slice["endpoints"][0]["addresses"] = json!([text(pod, "/status/podIPs/1/ip")]);
    slice
}

#[test]
fn each_family_of_a_service_has_its_slices() {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"clusterIP": "None", "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"],
            "selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}});
    let found = |acts: Vec<Act>| {
        let right = [
            create(service.clone()),
            pod(),
            Act::impostor(CONTROLLER, |world| What::Create(slice(world))),
            Act::impostor(CONTROLLER, |world| What::Create(endpoints(world))),
        ];
        violations("endpointslice-dual-stack", &right.into_iter().chain(acts).collect::<Vec<_>>())
    };
    let other = || Act::impostor(CONTROLLER, |world| What::Create(other_slice(world)));
    let emptied = Act::impostor(CONTROLLER, |_| What::merge(SLICES, "web-6", json!({"endpoints": []})));
    assert_eq!(found(vec![]), ["slices-tell-the-truth"]);
    assert_eq!(found(vec![other()]), Vec::<&str>::new());
    assert_eq!(found(vec![other(), emptied]), ["consumers-keep-ready-endpoints", "slices-tell-the-truth"]);
}

#[test]
fn an_endpoint_in_two_slices_is_noticed() {
    let again = Act::impostor(CONTROLLER, |world| {
        let mut slice = slice(world);
        slice["metadata"]["name"] = json!("web-2");
        What::Create(slice)
    });
    assert_eq!(with([again]), ["slices-tell-the-truth"]);
}

#[test]
fn a_lost_endpoint_is_noticed_at_once() {
    let found = with([patch(|_| json!({"endpoints": []})), patch(|slice| slice)]);
    assert_eq!(found, ["consumers-keep-ready-endpoints"]);
}

#[test]
fn a_slice_of_somebody_else_is_not_touched() {
    let foreign = |world: &World| {
        let mut slice = slice(world);
        slice["metadata"]["name"] = json!("mesh");
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = json!("mesh.example.com");
        slice
    };
    let made = Act::user(move |world| What::Create(foreign(world)));
    let emptied = Act::impostor(CONTROLLER, |_| What::merge(SLICES, "mesh", json!({"endpoints": []})));
    assert_eq!(with([made, emptied]), ["foreign-slices-stay"]);
}

#[test]
fn four_endpoints_are_too_many() {
    let grown = patch(|slice| {
        let endpoint = &slice["endpoints"][0];
        let numbered = (1..=4).map(|n| {
            let mut endpoint = endpoint.clone();
            endpoint["addresses"] = json!([format!("10.98.0.{n}")]);
            endpoint
        });
        json!({"endpoints": numbered.collect::<Vec<Value>>()})
    });
    let found = with([grown]);
    assert!(found.contains(&"slices-are-not-overfull"), "{found:?}");
}

#[test]
fn a_terminating_endpoint_is_not_ready() {
    let found = with([patch(|mut slice| {
        slice["endpoints"][0]["conditions"]["terminating"] = json!(true);
        slice
    })]);
    assert!(found.contains(&"terminating-endpoints-are-not-ready"), "{found:?}");
}

#[test]
fn nothing_is_made_for_a_service_that_is_gone() {
    let orphaned = Act::impostor(CONTROLLER, |world| {
        let mut slice = slice(world);
        slice["metadata"]["name"] = json!("web-2");
        slice["metadata"]["ownerReferences"][0]["uid"] = json!("6c3cbd2f-8c0f-4a8e-a4f6-5d3f0a0f0001");
        slice["endpoints"] = json!([]);
        What::Create(slice)
    });
    let found = with([orphaned]);
    assert!(found.contains(&"slices-have-a-living-owner"), "{found:?}");
}

#[test]
fn a_write_that_changes_nothing_is_noticed() {
    let annotated = patch(|_| json!({"metadata": {"annotations": {"written": "again"}}}));
    assert_eq!(with([annotated]), ["writes-change-something"]);
}

#[test]
fn endpoints_and_mirrors_are_compared_by_what_they_say() {
    let wrong = Act::impostor(CONTROLLER, |world| {
        let mut endpoints = endpoints(world);
        endpoints["subsets"][0]["ports"][0]["port"] = json!(8081);
        What::merge("endpoints", "web", json!({"subsets": endpoints["subsets"]}))
    });
    assert_eq!(with([wrong]), ["endpoints-tell-the-truth"]);
    let leftover = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "gone"}, "subsets": []});
    assert_eq!(violations(SUITE, &[create(leftover)]), ["endpoints-tell-the-truth"]);
    let unasked = Act::impostor(CONTROLLER, |world| {
        let mut slice = slice(world);
        slice["metadata"]["name"] = json!("mirror");
        let manager = json!("endpointslicemirroring-controller.k8s.io");
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = manager;
        assert!(at(&slice, "/endpoints/0").is_some());
        What::Create(slice)
    });
    assert_eq!(with([unasked]), ["mirrors-tell-the-truth"]);
}
