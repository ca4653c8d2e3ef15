use crate::world::*;

/// ENDPOINTSLICE-30, ENDPOINTSLICE-35, ENDPOINTSLICE-36, ENDPOINTSLICE-38.
#[tokio::test(start_paused = true)]
async fn a_service_without_pods_has_one_empty_slice() {
    let world = start(cluster()).await;
    let service = world.create(web_service(json!({}))).await;
    world.wait(1).await;
    let slice = only_slice(&world).await;
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
    assert_eq!(pick(&slice, "endpoints ports"), json!([null, null]));
    assert_eq!(world.events().await, Vec::<String>::new());
}

/// ENDPOINTSLICE-15, ENDPOINTSLICE-16, ENDPOINTSLICE-21, ENDPOINTSLICE-30.
#[tokio::test(start_paused = true)]
async fn the_empty_slice_takes_the_first_endpoints() {
    let world = world_with_service(json!({})).await;
    world.wait(2).await;
    let empty = only_slice(&world).await;
    create_pod(&world, 0).await;
    world.wait(1).await;
    let slice = only_slice(&world).await;
    assert_eq!(slice["metadata"]["name"], empty["metadata"]["name"]);
    let pod = world.get("pods", "p000").await;
    assert_eq!(
        endpoints_in(&slice),
        [json!({"addresses": ["10.1.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "n0", "zone": "z0", "targetRef": {"kind": "Pod", "namespace": NAMESPACE, "name": "p000",
            "uid": pod["metadata"]["uid"]}})]
    );
    assert_eq!(slice["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    delete_pod(&world, 0).await;
    world.wait(1).await;
    let slice = only_slice(&world).await;
    assert_eq!(slice["metadata"]["name"], empty["metadata"]["name"]);
    assert_eq!(pick(&slice, "endpoints ports"), json!([null, null]));
}

/// ENDPOINTSLICE-25, ENDPOINTSLICE-26, ENDPOINTSLICE-28.
#[tokio::test(start_paused = true)]
async fn slices_are_filled_and_the_rest_goes_where_it_fits() {
    let world = start(cluster_with_slice_size(10)).await;
    create_pods(&world, 0..25).await;
    world.create(web_service(json!({}))).await;
    world.wait(1).await;
    assert_eq!(slice_sizes(&world).await, [10, 10, 5]);
    let before = slice_write_count(&world);
    create_pod(&world, 25).await;
    world.wait(3).await;
    assert_eq!((slice_sizes(&world).await, slice_write_count(&world) - before), (vec![10, 10, 6], 1));
    delete_pod(&world, 0).await;
    world.wait(3).await;
    assert_eq!(
        (slice_sizes(&world).await, slice_write_count(&world) - before),
        (vec![10, 9, 6], 2),
        "no endpoint moves"
    );
}

/// ENDPOINTSLICE-26, ENDPOINTSLICE-38.
#[tokio::test(start_paused = true)]
async fn a_changed_pod_stays_in_its_slice() {
    let world = start(cluster()).await;
    create_pods(&world, 0..3).await;
    world.create(web_service(json!({}))).await;
    world.wait(2).await;
    let before = only_slice(&world).await;
    world.wait(10).await;
    set_pod_ready(&world, 1, false).await;
    world.wait(1).await;
    let slice = only_slice(&world).await;
    assert_eq!(pod_names_in(&slice), pod_names_in(&before));
    let conditions = &endpoints_in(&slice)[1]["conditions"];
    assert_eq!(conditions, &json!({"ready": false, "serving": false, "terminating": false}));
    assert_eq!(slice["metadata"]["annotations"][TRIGGER_TIME_ANNOTATION], "2026-03-01T10:00:13Z");
}

/// ENDPOINTSLICE-14, ENDPOINTSLICE-15, ENDPOINTSLICE-38.
#[tokio::test(start_paused = true)]
async fn a_terminating_pod_is_serving_and_not_ready() {
    let world = start(cluster()).await;
    for publish in [false, true] {
        world
            .create(merged(
                web_service(json!({"publishNotReadyAddresses": publish})),
                json!({"metadata": {"name": format!("web-{publish}")}}),
            ))
            .await;
    }
    create_pod(&world, 0).await;
    world.wait(1).await;
    world.delete_with(&format!("/api/v1/namespaces/{NAMESPACE}/pods/p000"), json!({"gracePeriodSeconds": 30})).await;
    world.wait(1).await;
    let slices = world.list(SLICES).await;
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
    let world = start(cluster()).await;
    let named = json!([{"name": "http", "port": 80, "targetPort": "web"}, {"name": "dns", "port": 53,
        "protocol": "UDP", "targetPort": "dns"}]);
    world.create(web_service(json!({"ports": named}))).await;
    let ports = |ports: Value| json!({"containers": [{"name": "c", "image": "img:1", "ports": ports}]});
    create_pod_with(&world, 0, ports(json!([{"name": "web", "containerPort": 8080}])), true).await;
    create_pod_with(&world, 1, ports(json!([{"name": "web", "containerPort": 9090}])), true).await;
    create_pod_with(&world, 2, ports(json!([{"name": "dns", "containerPort": 53}])), true).await;
    create_pod_with(&world, 3, ports(json!([{"name": "web", "containerPort": 8080}])), true).await;
    world.wait(2).await;
    let mut groups: Vec<(String, Vec<String>)> =
        world.list(SLICES).await.iter().map(|slice| (slice["ports"].to_string(), pod_names_in(slice))).collect();
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
    let world = world_with_service(json!({"clusterIP": "None"})).await;
    create_pod_with(&world, 0, json!({"hostname": "a", "subdomain": "web"}), true).await;
    create_pod_with(&world, 1, json!({"hostname": "b", "subdomain": "other"}), true).await;
    world.wait(2).await;
    let all = endpoints_in(&only_slice(&world).await);
    assert_eq!((&all[0]["hostname"], &all[1]["hostname"]), (&json!("a"), &Value::Null));
}

/// ENDPOINTSLICE-8, ENDPOINTSLICE-14, ENDPOINTSLICE-84.
#[tokio::test(start_paused = true)]
async fn finished_pods_and_pods_without_an_address_are_omitted() {
    let world = world_with_service(json!({})).await;
    create_pods(&world, 0..3).await;
    world.wait(1).await;
    world.patch_pod_status("p001", json!({"phase": "Succeeded"})).await;
    world
        .create(json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p009", "namespace": NAMESPACE, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}}))
        .await;
    world.wait(1).await;
    assert_eq!(pod_names_in(&only_slice(&world).await), ["p000", "p002"], "although the readiness did not change");
}

/// ENDPOINTSLICE-14.
#[tokio::test(start_paused = true)]
async fn a_pod_is_listed_only_while_it_has_an_address() {
    let world = world_with_service(json!({})).await;
    create_pods(&world, 0..3).await;
    world.wait(2).await;
    let in_endpoints = async || {
        let endpoints = world.get("endpoints", "web").await;
        endpoints["subsets"][0]["addresses"].as_array().unwrap().len()
    };
    let status = |ip: &str, ips: Value| json!({"podIP": ip, "podIPs": ips});
    world.patch_pod_status("p001", status("", json!(null))).await;
    world.wait(1).await;
    assert_eq!(
        (pod_names_in(&only_slice(&world).await), in_endpoints().await),
        (vec!["p000".to_owned(), "p002".to_owned()], 2)
    );
    let again = status("10.1.9.9", json!([{"ip": "10.1.9.9"}]));
    world.patch_pod_status("p001", again).await;
    world.wait(1).await;
    assert_eq!(
        (pod_names_in(&only_slice(&world).await), in_endpoints().await),
        (vec!["p000".to_owned(), "p002".to_owned(), "p001".to_owned()], 3)
    );
    let endpoint = endpoints_in(&only_slice(&world).await).pop().unwrap();
    assert_eq!((&endpoint["addresses"], &endpoint["conditions"]["ready"]), (&json!(["10.1.9.9"]), &json!(true)));
}

/// ENDPOINTSLICE-2, ENDPOINTSLICE-75.
#[tokio::test(start_paused = true)]
async fn a_pod_without_an_address_enqueues_no_service() {
    let world = world_with_service(json!({})).await;
    create_pod(&world, 0).await;
    world.wait(5).await;
    let plans = world.plans().len();
    let written = slice_write_count(&world);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p009", "namespace": NAMESPACE, "labels": {"app": "web"}},
        "spec": {"nodeName": "nowhere", "containers": [{"name": "c", "image": "img:1"}]}});
    world.create(pod).await;
    world.wait(5).await;
    delete_pod(&world, 9).await;
    world.wait(5).await;
    assert_eq!((world.plans().len(), slice_write_count(&world)), (plans, written));
    assert_eq!(world.events().await, [""; 0]);
}

/// ENDPOINTSLICE-36, ENDPOINTSLICE-37.
#[tokio::test(start_paused = true)]
async fn labels_follow_the_service() {
    let world = world_with_service(json!({})).await;
    create_pod(&world, 0).await;
    world.wait(2).await;
    let name = only_slice(&world).await["metadata"]["name"].as_str().unwrap().to_owned();
    world.patch(SLICES, &name, json!({"metadata": {"labels": {"mine": "1"}, "annotations": {"kept": "1"}}})).await;
    world.wait(3).await;
    let slice = only_slice(&world).await;
    assert_eq!(slice["metadata"]["labels"]["mine"], Value::Null);
    assert_eq!(slice["metadata"]["annotations"]["kept"], "1");
    world.label("services", "web", json!({"tier": "b", "more": "1"})).await;
    world.wait(1).await;
    let labels = &only_slice(&world).await["metadata"]["labels"];
    assert_eq!(pick(labels, "tier more"), json!(["b", "1"]));
}

/// ENDPOINTSLICE-8.
#[tokio::test(start_paused = true)]
async fn a_pod_moves_between_services_when_its_labels_change() {
    let world = world_with_service(json!({})).await;
    world
        .create(merged(web_service(json!({"selector": {"app": "other"}})), json!({"metadata": {"name": "other"}})))
        .await;
    create_pods(&world, 0..2).await;
    world.wait(2).await;
    world.label("pods", "p000", json!({"app": "other"})).await;
    world.wait(1).await;
    let slices = world.list(SLICES).await;
    assert_eq!(
        (pod_names_in(&slices[0]), pod_names_in(&slices[1])),
        (vec!["p000".to_owned()], vec!["p001".to_owned()])
    );
}

/// ENDPOINTSLICE-4, ENDPOINTSLICE-46.
#[tokio::test(start_paused = true)]
async fn slices_of_a_service_without_a_selector_are_not_changed() {
    let world = world_with_service(json!({})).await;
    create_pod(&world, 0).await;
    world.wait(3).await;
    let before = only_slice(&world).await;
    world.change(json!({"selector": null})).await;
    set_pod_ready(&world, 0, false).await;
    world.wait(60).await;
    let slices = world.list(SLICES).await;
    let managed_by = |slice: &Value| slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"].clone();
    assert!(slices.contains(&before), "the slice is unchanged");
    let mirror: Vec<&Value> = slices.iter().filter(|slice| **slice != before).collect();
    assert_eq!(mirror.len(), 1, "the remaining Endpoints count as hand-made");
    assert_eq!(managed_by(mirror[0]), "endpointslicemirroring-controller.k8s.io");
    assert_eq!(world.explain()["state"], "settled");
}

/// ENDPOINTSLICE-3, ENDPOINTSLICE-10, ENDPOINTSLICE-79.
#[tokio::test(start_paused = true)]
async fn changes_of_slices_by_others_are_reverted() {
    let world = world_with_service(json!({})).await;
    create_pods(&world, 0..3).await;
    world.wait(2).await;
    let name = only_slice(&world).await["metadata"]["name"].as_str().unwrap().to_owned();
    world.patch(SLICES, &name, json!({"endpoints": []})).await;
    world.wait(2).await;
    assert_eq!(slice_sizes(&world).await, [3]);
    delete_path(&world, &format!("/apis/discovery.k8s.io/v1/namespaces/NS/endpointslices/{name}")).await;
    world.wait(2).await;
    assert_eq!(slice_sizes(&world).await, [3], "a new slice");
    let foreign = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "mine", "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": "web"}},
        "endpoints": [{"addresses": ["10.9.9.9"]}], "ports": []});
    let foreign = world.create(foreign).await;
    world.wait(10).await;
    let now = world.get(SLICES, "mine").await;
    assert_eq!(now["metadata"]["resourceVersion"], foreign["metadata"]["resourceVersion"], "another manager's");
    assert_eq!(world.sandbox.requests().count(Some(CONTROLLER), Some("delete"), Some(SLICES)), 0);
}

/// ENDPOINTSLICE-69.
#[tokio::test(start_paused = true)]
async fn a_new_process_writes_nothing() {
    let mut world = start(cluster_with_slice_size(10)).await;
    world.create(web_service(json!({"trafficDistribution": "PreferSameZone"}))).await;
    create_pods(&world, 0..12).await;
    world.wait(5).await;
    let before = slice_write_count(&world);
    world.restart();
    world.wait(30).await;
    assert_eq!(slice_write_count(&world), before);
}

/// Returns the addresses of ready endpoints in all slices.
fn ready_addresses(slices: &[Value]) -> BTreeSet<String> {
    let ready = |endpoint: &Value| endpoint["conditions"]["ready"] == true;
    let all = slices.iter().flat_map(endpoints_in).filter(ready);
    all.map(|endpoint| endpoint["addresses"][0].as_str().unwrap().to_owned()).collect()
}

/// ENDPOINTSLICE-33.
#[tokio::test(start_paused = true)]
async fn no_ready_endpoint_is_missing_when_the_port_changes_and_a_write_fails() {
    for failing in 0..4 {
        let world = start(cluster_with_slice_size(4)).await;
        world.create(web_service(json!({}))).await;
        // Three of these Pods are deleted, so that the Pods created after them fill gaps in all slices.
        create_pods(&world, 0..10).await;
        world.wait(3).await;
        for index in [0, 5, 8] {
            delete_pod(&world, index).await;
        }
        world.wait(3).await;
        create_pods(&world, 10..13).await;
        world.wait(5).await;
        let before = ready_addresses(&world.list(SLICES).await);
        assert_eq!(before.len(), 10);
        world.fault(rule(Action::InternalError, "", "endpointslices").skip(failing).times(3));
        let ports = json!([{"name": "http", "port": 80, "targetPort": 9090, "protocol": "TCP"}]);
        world.change(json!({"ports": ports})).await;
        for _ in 0..400 {
            let missing: Vec<_> = before.difference(&ready_addresses(&world.list(SLICES).await)).cloned().collect();
            assert!(missing.is_empty(), "the write {failing} fails: {missing:?}");
            world.wait(0.05).await;
        }
        let slices = world.list(SLICES).await;
        assert!(slices.iter().all(|slice| slice["ports"][0]["port"] == 9090), "{slices:#?}");
    }
}

/// ENDPOINTSLICE-24.
#[tokio::test(start_paused = true)]
async fn endpoints_beyond_the_limit_of_new_ports_follow_in_the_next_sync() {
    let world = start(cluster()).await;
    for index in 0..60 {
        let port = json!([{"name": "web", "containerPort": 8000 + index}]);
        create_pod_with(&world, index, json!({"containers": [{"name": "c", "image": "img:1", "ports": port}]}), true)
            .await;
    }
    world.wait(1).await;
    let port = |n: usize| json!({"name": format!("p{n}"), "port": n, "targetPort": "web"});
    world.create(web_service(json!({"ports": (1..10_001).map(port).collect::<Vec<_>>()}))).await;
    world.wait(2).await;
    let slices = world.list(SLICES).await;
    assert_eq!(slices.len(), 60, "one for each Pod, of which one sync creates 50");
    assert!(
        slices.iter().all(|slice| endpoints_in(slice).len() == 1 && slice["ports"].as_array().unwrap().len() == 10_000)
    );
}

/// ENDPOINTSLICE-12, ENDPOINTSLICE-85.
#[tokio::test(start_paused = true)]
async fn a_new_node_or_a_changed_zone_enqueues_the_services_of_its_pods() {
    let world = world_with_service(json!({"publishNotReadyAddresses": true})).await;
    create_pod(&world, 0).await;
    create_pod_with(&world, 1, json!({"nodeName": "late"}), true).await;
    world.wait(5).await;
    let zones = async || {
        let slice = only_slice(&world).await;
        endpoints_in(&slice).iter().map(|endpoint| endpoint["zone"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(zones().await, [json!("z0"), json!(null)]);
    let written = slice_write_count(&world);
    let zone = |zone: &str| json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}});
    world.patch("nodes", "n0", zone("moved")).await;
    // This Node has no Pods, so its change enqueues no Service.
    world.patch("nodes", "n3", zone("moved")).await;
    world.wait(5).await;
    assert_eq!(zones().await, [json!("moved"), json!(null)]);
    assert_eq!(slice_write_count(&world) - written, 1);
    let mut late = zone("z9");
    (late["apiVersion"], late["kind"], late["metadata"]["name"]) = (json!("v1"), json!("Node"), json!("late"));
    world.create(late).await;
    world.wait(5).await;
    assert_eq!(zones().await, [json!("moved"), json!("z9")]);
    assert_eq!(slice_write_count(&world) - written, 2);
}
