use crate::world::*;

/// ENDPOINTSLICE-26, ENDPOINTSLICE-38.
#[tokio::test(start_paused = true)]
async fn a_changed_pod_stays_in_its_slice_and_a_terminating_one_changes_no_trigger_time() {
    let world = world_with_service(json!({})).await;
    create_pods(&world, 0..3).await;
    world.wait(2).await;
    let before = only_slice(&world).await;
    world.wait(10).await;
    set_pod_ready(&world, 1, false).await;
    world.wait(1).await;
    let slice = only_slice(&world).await;
    assert_eq!(pod_names_in(&slice), pod_names_in(&before));
    assert_eq!(endpoints_in(&slice)[1]["conditions"]["ready"], false);
    assert_eq!(slice["metadata"]["annotations"][TRIGGER_TIME_ANNOTATION], "2026-03-01T10:00:13Z");
    world.delete_with(&format!("/api/v1/namespaces/{NAMESPACE}/pods/p000"), json!({"gracePeriodSeconds": 30})).await;
    world.wait(1).await;
    let slice = only_slice(&world).await;
    let terminating = json!({"ready": false, "serving": true, "terminating": true});
    assert_eq!(endpoints_in(&slice)[0]["conditions"], terminating);
    assert!(slice["metadata"]["annotations"][TRIGGER_TIME_ANNOTATION].is_null(), "no change of readiness is reported");
}

/// ENDPOINTSLICE-8, ENDPOINTSLICE-14, ENDPOINTSLICE-84.
#[tokio::test(start_paused = true)]
async fn a_pod_is_listed_while_it_has_an_address_and_has_not_finished() {
    let world = world_with_service(json!({})).await;
    create_pods(&world, 0..3).await;
    world.wait(2).await;
    let listed = async || {
        let endpoints = world.get("endpoints", "web").await;
        let addresses = endpoints["subsets"][0]["addresses"].as_array().unwrap().len();
        (pod_names_in(&only_slice(&world).await).join(" "), addresses)
    };
    let again = json!({"podIP": "10.1.9.9", "podIPs": [{"ip": "10.1.9.9"}]});
    let finished = json!({"phase": "Succeeded"});
    for (status, names) in
        [(json!({"podIP": "", "podIPs": null}), "p000 p002"), (again, "p000 p002 p001"), (finished, "p000 p002")]
    {
        world.patch_pod_status("p001", status.clone()).await;
        world.wait(1).await;
        assert_eq!(listed().await, (names.to_owned(), names.split(' ').count()), "{status}");
        if let Some(endpoint) = endpoints_in(&only_slice(&world).await).get(2) {
            assert_eq!(endpoint["addresses"], json!(["10.1.9.9"]));
            assert_eq!(endpoint["conditions"]["ready"], true);
        }
    }
}

/// ENDPOINTSLICE-2, ENDPOINTSLICE-75.
#[tokio::test(start_paused = true)]
async fn a_pod_without_an_address_enqueues_no_service() {
    let world = world_with_service(json!({})).await;
    create_pod(&world, 0).await;
    world.wait(5).await;
    let plans = world.plans().len();
    let written = slice_write_count(&world);
    world.create(with_spec(orphan_pod("p009", "web"), json!({"nodeName": "nowhere"}))).await;
    world.wait(5).await;
    delete_pod(&world, 9).await;
    world.wait(5).await;
    assert_eq!((world.plans().len(), slice_write_count(&world)), (plans, written));
    assert_eq!(world.events().await, [""; 0]);
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
    assert_eq!([pod_names_in(&slices[0]), pod_names_in(&slices[1])], [["p000"], ["p001"]]);
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

/// ENDPOINTSLICE-69.
#[tokio::test(start_paused = true)]
async fn a_new_process_writes_nothing() {
    let mut world = start(cluster_with_slice_size(10)).await;
    world.create(web_service(json!({"trafficDistribution": "PreferSameZone"}))).await;
    create_pods(&world, 0..12).await;
    conformance::settled_objects_are_left_alone(&mut world, &[]).await;
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
