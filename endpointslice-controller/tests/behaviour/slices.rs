use sandbox::{Action, Rule};
use serde_json::{Value, json};

use crate::world::{
    CONTROLLER_IDENTITY, NAMESPACE, SLICE_RESOURCE, TRIGGER_TIME_ANNOTATION, TestCluster, endpoints_in, pod_names_in,
    web_service,
};

/// ENDPOINTSLICE-30, ENDPOINTSLICE-35, ENDPOINTSLICE-36, ENDPOINTSLICE-38.
#[tokio::test(start_paused = true)]
async fn a_service_without_pods_has_one_empty_slice() {
    let world = TestCluster::new().await;
    let service = world.create_object(web_service(&json!({}))).await;
    world.wait_seconds(1).await;
    let slice = world.only_slice().await;
    let meta = &slice["metadata"];
    assert_eq!(
        meta["labels"],
        json!({"tier": "a", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    assert_eq!(meta["generateName"], "web-");
    assert_eq!(
        meta["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": service["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!(meta["annotations"], json!({TRIGGER_TIME_ANNOTATION: service["metadata"]["creationTimestamp"]}));
    assert_eq!((&slice["endpoints"], &slice["ports"]), (&Value::Null, &Value::Null));
    assert_eq!(world.events().await, Vec::<String>::new());
}

/// ENDPOINTSLICE-15, ENDPOINTSLICE-16, ENDPOINTSLICE-21, ENDPOINTSLICE-30.
#[tokio::test(start_paused = true)]
async fn the_empty_slice_takes_the_first_endpoints() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    world.wait_seconds(2).await;
    let empty = world.only_slice().await;
    world.create_pod(0).await;
    world.wait_seconds(1).await;
    let slice = world.only_slice().await;
    assert_eq!(slice["metadata"]["name"], empty["metadata"]["name"]);
    let pod = world.sandbox.get("pods", Some(NAMESPACE), "p000").await.unwrap();
    assert_eq!(
        endpoints_in(&slice),
        [json!({"addresses": ["10.1.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "n0", "zone": "z0", "targetRef": {"kind": "Pod", "namespace": NAMESPACE, "name": "p000",
            "uid": pod["metadata"]["uid"]}})]
    );
    assert_eq!(slice["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    world.delete_pod(0).await;
    world.wait_seconds(1).await;
    let slice = world.only_slice().await;
    assert_eq!(slice["metadata"]["name"], empty["metadata"]["name"]);
    assert_eq!((&slice["endpoints"], &slice["ports"]), (&Value::Null, &Value::Null));
}

/// ENDPOINTSLICE-25, ENDPOINTSLICE-26, ENDPOINTSLICE-28.
#[tokio::test(start_paused = true)]
async fn slices_are_filled_and_the_rest_goes_where_it_fits() {
    let world = TestCluster::with_slice_size(10).await;
    world.create_pods(0..25).await;
    world.create_object(web_service(&json!({}))).await;
    world.wait_seconds(1).await;
    assert_eq!(world.slice_sizes().await, [10, 10, 5]);
    let before = world.slice_write_count();
    world.create_pod(25).await;
    world.wait_seconds(3).await;
    assert_eq!((world.slice_sizes().await, world.slice_write_count() - before), (vec![10, 10, 6], 1));
    world.delete_pod(0).await;
    world.wait_seconds(3).await;
    assert_eq!(
        (world.slice_sizes().await, world.slice_write_count() - before),
        (vec![10, 9, 6], 2),
        "no endpoint moves"
    );
}

/// ENDPOINTSLICE-26, ENDPOINTSLICE-38.
#[tokio::test(start_paused = true)]
async fn a_changed_pod_stays_in_its_slice() {
    let world = TestCluster::new().await;
    world.create_pods(0..3).await;
    world.create_object(web_service(&json!({}))).await;
    world.wait_seconds(2).await;
    let before = world.only_slice().await;
    world.wait_seconds(10).await;
    world.set_pod_ready(1, false).await;
    world.wait_seconds(1).await;
    let slice = world.only_slice().await;
    assert_eq!(pod_names_in(&slice), pod_names_in(&before));
    let conditions = &endpoints_in(&slice)[1]["conditions"];
    assert_eq!(conditions, &json!({"ready": false, "serving": false, "terminating": false}));
    assert_eq!(slice["metadata"]["annotations"][TRIGGER_TIME_ANNOTATION], "2026-03-01T10:00:13Z");
}

/// ENDPOINTSLICE-14, ENDPOINTSLICE-15, ENDPOINTSLICE-38.
#[tokio::test(start_paused = true)]
async fn a_terminating_pod_is_serving_and_not_ready() {
    let world = TestCluster::new().await;
    for publish in [false, true] {
        let mut service = web_service(&json!({"publishNotReadyAddresses": publish}));
        service["metadata"]["name"] = json!(format!("web-{publish}"));
        world.create_object(service).await;
    }
    world.create_pod(0).await;
    world.wait_seconds(1).await;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/p000");
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 30});
    world.sandbox.send(http::Method::DELETE, &path, "application/json", Some(&options)).await.unwrap();
    world.wait_seconds(1).await;
    let slices = world.list_slices().await;
    let ready: Vec<Value> = slices.iter().map(|slice| endpoints_in(slice)[0]["conditions"].clone()).collect();
    assert_eq!(
        ready,
        [
            json!({"ready": false, "serving": true, "terminating": true}),
            json!({"ready": true, "serving": true, "terminating": true})
        ]
    );
    assert!(
        slices.iter().all(|slice| slice["metadata"]["annotations"][TRIGGER_TIME_ANNOTATION].is_null()),
        "no change of readiness is reported"
    );
}

/// ENDPOINTSLICE-21, ENDPOINTSLICE-22, ENDPOINTSLICE-23.
#[tokio::test(start_paused = true)]
async fn pods_with_different_ports_are_in_different_slices() {
    let world = TestCluster::new().await;
    let named = json!([{"name": "http", "port": 80, "targetPort": "web"}, {"name": "dns", "port": 53,
        "protocol": "UDP", "targetPort": "dns"}]);
    world.create_object(web_service(&json!({"ports": named}))).await;
    let ports = |ports: Value| json!({"containers": [{"name": "c", "image": "img:1", "ports": ports}]});
    world.create_pod_with(0, ports(json!([{"name": "web", "containerPort": 8080}])), true).await;
    world.create_pod_with(1, ports(json!([{"name": "web", "containerPort": 9090}])), true).await;
    world.create_pod_with(2, ports(json!([{"name": "dns", "containerPort": 53}])), true).await;
    world.create_pod_with(3, ports(json!([{"name": "web", "containerPort": 8080}])), true).await;
    world.wait_seconds(2).await;
    let mut groups: Vec<(String, Vec<String>)> =
        world.list_slices().await.iter().map(|slice| (slice["ports"].to_string(), pod_names_in(slice))).collect();
    groups.sort_by(|a, b| a.1.cmp(&b.1));
    let port = |number: i32| json!([{"name": "http", "port": number, "protocol": "TCP"}]).to_string();
    assert_eq!(
        groups,
        [
            (port(8080), vec!["p000".to_owned(), "p003".to_owned()]),
            (port(9090), vec!["p001".to_owned()]),
            ("null".to_owned(), vec!["p002".to_owned()]),
        ],
        "a named port must have the same protocol"
    );
}

/// ENDPOINTSLICE-16.
#[tokio::test(start_paused = true)]
async fn a_hostname_is_listed_only_in_the_domain_of_its_service() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({"clusterIP": "None"}))).await;
    world.create_pod_with(0, json!({"hostname": "a", "subdomain": "web"}), true).await;
    world.create_pod_with(1, json!({"hostname": "b", "subdomain": "other"}), true).await;
    world.wait_seconds(2).await;
    let all = endpoints_in(&world.only_slice().await);
    assert_eq!((&all[0]["hostname"], &all[1]["hostname"]), (&json!("a"), &Value::Null));
}

/// ENDPOINTSLICE-8, ENDPOINTSLICE-14, ENDPOINTSLICE-84.
#[tokio::test(start_paused = true)]
async fn finished_pods_and_pods_without_an_address_are_omitted() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    world.create_pods(0..3).await;
    world.wait_seconds(1).await;
    let status = json!({"status": {"phase": "Succeeded"}});
    world.sandbox.merge("pods", Some(NAMESPACE), "p001", Some("status"), status).await.unwrap();
    world
        .create_object(json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p009", "namespace": NAMESPACE, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}}))
        .await;
    world.wait_seconds(1).await;
    assert_eq!(pod_names_in(&world.only_slice().await), ["p000", "p002"], "although the readiness did not change");
}

/// ENDPOINTSLICE-14.
#[tokio::test(start_paused = true)]
async fn a_pod_is_listed_only_while_it_has_an_address() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    world.create_pods(0..3).await;
    world.wait_seconds(2).await;
    let in_endpoints = async || {
        let endpoints = world.sandbox.get("endpoints", Some(NAMESPACE), "web").await.unwrap();
        endpoints["subsets"][0]["addresses"].as_array().unwrap().len()
    };
    let status = |ip: &str, ips: Value| json!({"status": {"podIP": ip, "podIPs": ips}});
    world.sandbox.merge("pods", Some(NAMESPACE), "p001", Some("status"), status("", json!(null))).await.unwrap();
    world.wait_seconds(1).await;
    assert_eq!(
        (pod_names_in(&world.only_slice().await), in_endpoints().await),
        (vec!["p000".to_owned(), "p002".to_owned()], 2)
    );
    let again = status("10.1.9.9", json!([{"ip": "10.1.9.9"}]));
    world.sandbox.merge("pods", Some(NAMESPACE), "p001", Some("status"), again).await.unwrap();
    world.wait_seconds(1).await;
    assert_eq!(
        (pod_names_in(&world.only_slice().await), in_endpoints().await),
        (vec!["p000".to_owned(), "p002".to_owned(), "p001".to_owned()], 3)
    );
    let endpoint = endpoints_in(&world.only_slice().await).pop().unwrap();
    assert_eq!((&endpoint["addresses"], &endpoint["conditions"]["ready"]), (&json!(["10.1.9.9"]), &json!(true)));
}

/// ENDPOINTSLICE-2, ENDPOINTSLICE-75.
#[tokio::test(start_paused = true)]
async fn a_pod_without_an_address_enqueues_no_service() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    world.create_pod(0).await;
    world.wait_seconds(5).await;
    let plans = world.acted_plans("shop/web").len();
    let written = world.slice_write_count();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p009", "namespace": NAMESPACE, "labels": {"app": "web"}},
        "spec": {"nodeName": "nowhere", "containers": [{"name": "c", "image": "img:1"}]}});
    world.create_object(pod).await;
    world.wait_seconds(5).await;
    world.delete_pod(9).await;
    world.wait_seconds(5).await;
    assert_eq!((world.acted_plans("shop/web").len(), world.slice_write_count()), (plans, written));
    assert_eq!(world.events().await, [""; 0]);
}

/// ENDPOINTSLICE-36, ENDPOINTSLICE-37.
#[tokio::test(start_paused = true)]
async fn labels_follow_the_service() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    world.create_pod(0).await;
    world.wait_seconds(2).await;
    let name = world.only_slice().await["metadata"]["name"].as_str().unwrap().to_owned();
    world
        .patch_object(
            SLICE_RESOURCE,
            &name,
            json!({"metadata": {"labels": {"mine": "1"}, "annotations": {"kept": "1"}}}),
        )
        .await;
    world.wait_seconds(3).await;
    let slice = world.only_slice().await;
    assert_eq!(slice["metadata"]["labels"]["mine"], Value::Null);
    assert_eq!(slice["metadata"]["annotations"]["kept"], "1");
    world.patch_object("services", "web", json!({"metadata": {"labels": {"tier": "b", "more": "1"}}})).await;
    world.wait_seconds(1).await;
    let labels = &world.only_slice().await["metadata"]["labels"];
    assert_eq!((&labels["tier"], &labels["more"]), (&json!("b"), &json!("1")));
}

/// ENDPOINTSLICE-8.
#[tokio::test(start_paused = true)]
async fn a_pod_moves_between_services_when_its_labels_change() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    let mut other = web_service(&json!({"selector": {"app": "other"}}));
    other["metadata"]["name"] = json!("other");
    world.create_object(other).await;
    world.create_pods(0..2).await;
    world.wait_seconds(2).await;
    world.patch_object("pods", "p000", json!({"metadata": {"labels": {"app": "other"}}})).await;
    world.wait_seconds(1).await;
    let slices = world.list_slices().await;
    assert_eq!(
        (pod_names_in(&slices[0]), pod_names_in(&slices[1])),
        (vec!["p000".to_owned()], vec!["p001".to_owned()])
    );
}

/// ENDPOINTSLICE-4, ENDPOINTSLICE-46.
#[tokio::test(start_paused = true)]
async fn slices_of_a_service_without_a_selector_are_not_changed() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    world.create_pod(0).await;
    world.wait_seconds(3).await;
    let before = world.only_slice().await;
    world.patch_object("services", "web", json!({"spec": {"selector": null}})).await;
    world.set_pod_ready(0, false).await;
    world.wait_seconds(60).await;
    let slices = world.list_slices().await;
    let managed_by = |slice: &Value| slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"].clone();
    assert!(slices.contains(&before), "the slice is unchanged");
    let mirror: Vec<&Value> = slices.iter().filter(|slice| **slice != before).collect();
    assert_eq!(mirror.len(), 1, "the remaining Endpoints count as hand-made");
    assert_eq!(managed_by(mirror[0]), "endpointslicemirroring-controller.k8s.io");
    assert_eq!(world.explain("shop/web")["state"], "settled");
}

/// ENDPOINTSLICE-3, ENDPOINTSLICE-10, ENDPOINTSLICE-79.
#[tokio::test(start_paused = true)]
async fn changes_of_slices_by_others_are_reverted() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    world.create_pods(0..3).await;
    world.wait_seconds(2).await;
    let name = world.only_slice().await["metadata"]["name"].as_str().unwrap().to_owned();
    world.patch_object(SLICE_RESOURCE, &name, json!({"endpoints": []})).await;
    world.wait_seconds(2).await;
    assert_eq!(world.slice_sizes().await, [3]);
    world.delete_path(&format!("/apis/discovery.k8s.io/v1/namespaces/NS/endpointslices/{name}")).await;
    world.wait_seconds(2).await;
    assert_eq!(world.slice_sizes().await, [3], "a new slice");
    let foreign = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "mine", "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": "web"}},
        "endpoints": [{"addresses": ["10.9.9.9"]}], "ports": []});
    let foreign = world.create_object(foreign).await;
    world.wait_seconds(10).await;
    let now = world.sandbox.get(SLICE_RESOURCE, Some(NAMESPACE), "mine").await.unwrap();
    assert_eq!(now["metadata"]["resourceVersion"], foreign["metadata"]["resourceVersion"], "another manager's");
    assert_eq!(world.sandbox.requests().count(Some(CONTROLLER_IDENTITY), Some("delete"), Some(SLICE_RESOURCE)), 0);
}

/// ENDPOINTSLICE-69.
#[tokio::test(start_paused = true)]
async fn a_new_process_writes_nothing() {
    let mut world = TestCluster::with_slice_size(10).await;
    world.create_object(web_service(&json!({"trafficDistribution": "PreferSameZone"}))).await;
    world.create_pods(0..12).await;
    world.wait_seconds(5).await;
    let before = world.slice_write_count();
    world.crash();
    world.start_loops();
    world.wait_seconds(30).await;
    assert_eq!(world.slice_write_count(), before);
}

/// Returns the addresses of ready endpoints in all slices.
fn ready_addresses(slices: &[Value]) -> std::collections::BTreeSet<String> {
    let ready = |endpoint: &Value| endpoint["conditions"]["ready"] == true;
    let all = slices.iter().flat_map(endpoints_in).filter(ready);
    all.map(|endpoint| endpoint["addresses"][0].as_str().unwrap().to_owned()).collect()
}

/// ENDPOINTSLICE-33.
#[tokio::test(start_paused = true)]
async fn no_ready_endpoint_is_missing_when_the_port_changes_and_a_write_fails() {
    for failing in 0..4 {
        let world = TestCluster::with_slice_size(4).await;
        world.create_object(web_service(&json!({}))).await;
        // Three of these Pods are deleted, so that the Pods created after them fill gaps in all slices.
        world.create_pods(0..10).await;
        world.wait_seconds(3).await;
        for index in [0, 5, 8] {
            world.delete_pod(index).await;
        }
        world.wait_seconds(3).await;
        world.create_pods(10..13).await;
        world.wait_seconds(5).await;
        let before = ready_addresses(&world.list_slices().await);
        assert_eq!(before.len(), 10);
        let fault = Rule::new(Action::InternalError)
            .identity(CONTROLLER_IDENTITY)
            .resource("endpointslices")
            .skip(failing)
            .times(3);
        world.sandbox.faults().add(fault);
        let ports = json!([{"name": "http", "port": 80, "targetPort": 9090, "protocol": "TCP"}]);
        world.patch_object("services", "web", json!({"spec": {"ports": ports}})).await;
        for _ in 0..400 {
            let missing: Vec<_> = before.difference(&ready_addresses(&world.list_slices().await)).cloned().collect();
            assert!(missing.is_empty(), "the write {failing} fails: {missing:?}");
            world.clock.sleep(std::time::Duration::from_millis(50)).await;
        }
        let slices = world.list_slices().await;
        assert!(slices.iter().all(|slice| slice["ports"][0]["port"] == 9090), "{slices:#?}");
    }
}

/// ENDPOINTSLICE-24.
#[tokio::test(start_paused = true)]
async fn endpoints_beyond_the_limit_of_new_ports_follow_in_the_next_sync() {
    let world = TestCluster::new().await;
    for index in 0..60 {
        let port = json!([{"name": "web", "containerPort": 8000 + index}]);
        world
            .create_pod_with(index, json!({"containers": [{"name": "c", "image": "img:1", "ports": port}]}), true)
            .await;
    }
    world.wait_seconds(1).await;
    let port = |n: usize| json!({"name": format!("p{n}"), "port": n, "targetPort": "web"});
    world.create_object(web_service(&json!({"ports": (1..10_001).map(port).collect::<Vec<_>>()}))).await;
    world.wait_seconds(2).await;
    let slices = world.list_slices().await;
    assert_eq!(slices.len(), 60, "one for each Pod, of which one sync creates 50");
    assert!(
        slices.iter().all(|slice| endpoints_in(slice).len() == 1 && slice["ports"].as_array().unwrap().len() == 10_000)
    );
}

/// ENDPOINTSLICE-12, ENDPOINTSLICE-85.
#[tokio::test(start_paused = true)]
async fn a_new_node_or_a_changed_zone_enqueues_the_services_of_its_pods() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({"publishNotReadyAddresses": true}))).await;
    world.create_pod(0).await;
    world.create_pod_with(1, json!({"nodeName": "late"}), true).await;
    world.wait_seconds(5).await;
    let zones = async || {
        let slice = world.only_slice().await;
        endpoints_in(&slice).iter().map(|endpoint| endpoint["zone"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(zones().await, [json!("z0"), json!(null)]);
    let written = world.slice_write_count();
    let zone = |zone: &str| json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}});
    world.sandbox.merge("nodes", None, "n0", None, zone("moved")).await.unwrap();
    // This Node has no Pods, so its change enqueues no Service.
    world.sandbox.merge("nodes", None, "n3", None, zone("moved")).await.unwrap();
    world.wait_seconds(5).await;
    assert_eq!(zones().await, [json!("moved"), json!(null)]);
    assert_eq!(world.slice_write_count() - written, 1);
    let mut late = zone("z9");
    (late["apiVersion"], late["kind"], late["metadata"]["name"]) = (json!("v1"), json!("Node"), json!("late"));
    world.create_object(late).await;
    world.wait_seconds(5).await;
    assert_eq!(zones().await, [json!("moved"), json!("z9")]);
    assert_eq!(world.slice_write_count() - written, 2);
}
