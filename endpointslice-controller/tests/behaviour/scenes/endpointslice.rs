//! What endpointslice-controller promises for EndpointSlices and Endpoints.

use testkit::scene::prelude::*;

suite! {
    Suite::new("endpointslice")
        .controller(&endpointslice_controller::DEFINITION, &["--max-endpoints-per-slice=4"])
        .beside(&["replicaset-controller"]);
    EVERYWHERE.sample() =>
        endpoints_follow_pods slices_are_filled_and_kept;
    EVERYWHERE =>
        a_service_without_pods_has_an_empty_slice
        named_ports_make_slices_of_their_own slices_that_others_change_or_delete_are_corrected
        a_service_for_nobody_is_left_alone endpoints_are_kept_beside_slices a_service_at_rest_is_left_alone;
    SIMULATED =>
        a_pod_that_is_not_ready_is_told_apart a_pod_that_goes_still_serves endpoints_prefer_their_zone;
}

const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// A Service for Pods with `app: web`.
fn service(spec: &Value) -> Value {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"tier": "a"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}});
    for (key, value) in spec.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    service
}

fn endpoints(slice: &Value) -> Vec<Value> {
    slice["endpoints"].as_array().cloned().unwrap_or_default()
}

/// The slices of the Service, once they are as wanted.
async fn until_slices(c: &Context, what: &str, holds: impl Fn(&[Value]) -> bool) -> Result<Vec<Value>, Failure> {
    c.until_list(ENDPOINT_SLICES, &format!("slices: {what}"), holds).await
}

/// How many endpoints each slice has, largest first.
fn sizes(slices: &[Value]) -> Vec<usize> {
    let mut sizes: Vec<usize> = slices.iter().map(|slice| endpoints(slice).len()).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

/// Whether every endpoint of all slices, so many of them, is ready.
fn all_ready(slices: &[Value], count: usize) -> bool {
    let all: Vec<Value> = slices.iter().flat_map(endpoints).collect();
    all.len() == count && all.iter().all(|endpoint| endpoint["conditions"]["ready"] == true)
}

/// ENDPOINTSLICE-30, ENDPOINTSLICE-35, ENDPOINTSLICE-36, ENDPOINTSLICE-38.
async fn a_service_without_pods_has_an_empty_slice(c: Context) -> Outcome {
    let service = c.create(SERVICES, service(&json!({}))).await?;
    let slices = until_slices(&c, "one", |slices| slices.len() == 1).await?;
    let meta = &slices[0]["metadata"];
    assert_eq!(
        meta["labels"],
        json!({"tier": "a", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    assert_eq!(meta["generateName"], "web-");
    let owner = json!([{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": service["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true}]);
    assert_eq!(meta["ownerReferences"], owner);
    assert_eq!((&slices[0]["addressType"], endpoints(&slices[0]).len()), (&json!("IPv4"), 0));
    let triggered = json!({TRIGGER_TIME: service["metadata"]["creationTimestamp"]});
    assert_eq!((&meta["annotations"], &slices[0]["ports"]), (&triggered, &json!(null)));
    c.check(c.events_of("Service", "web").await?.is_empty(), "there is no Event").await
}

/// ENDPOINTSLICE-16, ENDPOINTSLICE-21, ENDPOINTSLICE-30.
async fn endpoints_follow_pods(c: Context) -> Outcome {
    c.create(SERVICES, service(&json!({}))).await?;
    let first = until_slices(&c, "one", |slices| slices.len() == 1).await?.remove(0);
    c.create(REPLICA_SETS, replica_set("web").replicas(2)).await?;
    for replicas in [2, 4, 1, 0, 3] {
        c.scale(REPLICA_SETS, "web", replicas).await?;
        let slices =
            until_slices(&c, &format!("{replicas} ready endpoints"), |all| all_ready(all, replicas as usize)).await?;
        assert_eq!(slices[0]["metadata"]["name"], first["metadata"]["name"], "the empty slice is kept");
        let port = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
        assert_eq!(slices[0]["ports"], if replicas > 0 { port } else { json!(null) });
        let pods = c.list(PODS).await?;
        for endpoint in slices.iter().flat_map(endpoints) {
            let target = &endpoint["targetRef"];
            let Some(pod) = pods.iter().find(|pod| pod["metadata"]["uid"] == target["uid"]) else { continue };
            let uid = &pod["metadata"]["uid"];
            let expected =
                json!({"kind": "Pod", "namespace": c.namespace(), "name": pod["metadata"]["name"], "uid": uid});
            assert_eq!(*target, expected);
            assert_eq!(endpoint["addresses"], json!([pod["status"]["podIP"]]));
            assert_eq!(endpoint["nodeName"], pod["spec"]["nodeName"]);
            assert_eq!(endpoint["conditions"], json!({"ready": true, "serving": true, "terminating": false}));
        }
    }
    Ok(())
}

/// ENDPOINTSLICE-25, ENDPOINTSLICE-28.
async fn slices_are_filled_and_kept(c: Context) -> Outcome {
    c.create(REPLICA_SETS, replica_set("web").replicas(10)).await?;
    c.until_object(REPLICA_SETS, "web", "ten Pods that are ready", |set| set["status"]["readyReplicas"] == 10).await?;
    c.create(SERVICES, service(&json!({}))).await?;
    let before = until_slices(&c, "three", |slices| sizes(slices) == [4, 4, 2]).await?;
    c.scale(REPLICA_SETS, "web", 11).await?;
    let after = until_slices(&c, "one more endpoint", |slices| all_ready(slices, 11)).await?;
    assert_eq!(sizes(&after), [4, 4, 3]);
    let version = |slices: &[Value], at: usize| slices[at]["metadata"]["resourceVersion"].clone();
    let unchanged = (0..3).filter(|at| version(&before, *at) == version(&after, *at)).count();
    assert_eq!(unchanged, 2, "full ones stay as they are");
    Ok(())
}

/// ENDPOINTSLICE-15, ENDPOINTSLICE-55.
async fn a_pod_that_is_not_ready_is_told_apart(c: Context) -> Outcome {
    c.create(SERVICES, service(&json!({}))).await?;
    c.create(PODS, pod("slow", "web").set("metadata/annotations", json!({"sim/never-ready": "true"}))).await?;
    let slices = until_slices(&c, "one endpoint", |slices| sizes(slices) == [1]).await?;
    let conditions = &endpoints(&slices[0])[0]["conditions"];
    assert_eq!(*conditions, json!({"ready": false, "serving": false, "terminating": false}));
    c.until("an address that is not ready", async || {
        let there = c.get(ENDPOINTS, "web").await.ok()?;
        (there["subsets"][0]["notReadyAddresses"][0]["targetRef"]["name"] == "slow").then_some(())
    })
    .await?;
    c.merge(SERVICES, "web", json!({"spec": {"publishNotReadyAddresses": true}})).await?;
    until_slices(&c, "it counts as ready", |slices| all_ready(slices, 1)).await?;
    Ok(())
}

async fn a_pod_that_goes_still_serves(c: Context) -> Outcome {
    c.create(SERVICES, service(&json!({}))).await?;
    c.create(PODS, pod("last", "web").set("metadata/annotations", json!({"sim/terminate-after": "4"}))).await?;
    until_slices(&c, "a ready endpoint", |slices| all_ready(slices, 1)).await?;
    c.delete(PODS, "last", "Background").await?;
    let goes = json!({"ready": false, "serving": true, "terminating": true});
    let is_going = |slices: &[Value]| slices.iter().flat_map(endpoints).any(|endpoint| endpoint["conditions"] == goes);
    until_slices(&c, "an endpoint that goes", is_going).await?;
    until_slices(&c, "none", |slices| sizes(slices) == [0]).await?;
    Ok(())
}

/// ENDPOINTSLICE-23.
async fn named_ports_make_slices_of_their_own(c: Context) -> Outcome {
    c.create(SERVICES, service(&json!({"ports": [{"name": "http", "port": 80, "targetPort": "web"}]}))).await?;
    for (name, port) in [("a", 8080), ("b", 9090)] {
        let ports = json!([{"name": "web", "containerPort": port}]);
        c.create(PODS, pod(name, "web").set("spec/containers/0/ports", ports)).await?;
    }
    let slices = until_slices(&c, "two", |slices| slices.len() == 2 && all_ready(slices, 2)).await?;
    let mut numbers: Vec<i64> = slices.iter().map(|slice| slice["ports"][0]["port"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [8080, 9090]);
    Ok(())
}

/// ENDPOINTSLICE-39.
async fn endpoints_prefer_their_zone(c: Context) -> Outcome {
    c.create(SERVICES, service(&json!({}))).await?;
    c.create(REPLICA_SETS, replica_set("web").replicas(3)).await?;
    let slices = until_slices(&c, "three", |slices| all_ready(slices, 3)).await?;
    assert!(slices.iter().flat_map(endpoints).all(|endpoint| endpoint["hints"].is_null()));
    let distributions = [("PreferSameZone", false), ("PreferSameNode", true), ("PreferClose", false)];
    // An older API server knows only the last one.
    let known = if c.server_minor().await? < 34 { &distributions[2..] } else { &distributions };
    for &(distribution, nodes) in known {
        c.merge(SERVICES, "web", json!({"spec": {"trafficDistribution": distribution}})).await?;
        let is_hinted = |endpoint: &Value| {
            let hints = &endpoint["hints"];
            endpoint["zone"].is_string()
                && hints["forZones"] == json!([{"name": endpoint["zone"]}])
                && if nodes {
                    hints["forNodes"] == json!([{"name": endpoint["nodeName"]}])
                } else {
                    hints["forNodes"].is_null()
                }
        };
        until_slices(&c, distribution, |slices| slices.iter().flat_map(endpoints).all(|endpoint| is_hinted(&endpoint)))
            .await?;
    }
    c.merge(SERVICES, "web", json!({"spec": {"trafficDistribution": null}})).await?;
    until_slices(&c, "no hints", |slices| {
        slices.iter().flat_map(endpoints).all(|endpoint| endpoint["hints"].is_null())
    })
    .await?;
    Ok(())
}

/// ENDPOINTSLICE-3, ENDPOINTSLICE-10, ENDPOINTSLICE-36, ENDPOINTSLICE-37, ENDPOINTSLICE-79.
async fn slices_that_others_change_or_delete_are_corrected(c: Context) -> Outcome {
    c.create(SERVICES, service(&json!({}))).await?;
    c.create(PODS, pod("a", "web")).await?;
    let slices = until_slices(&c, "a ready endpoint", |slices| all_ready(slices, 1)).await?;
    let name = slices[0]["metadata"]["name"].as_str().unwrap();
    let patch = json!({"endpoints": [], "metadata": {"labels": {"mine": "1"}, "annotations": {"kept": "1"}}});
    c.merge(ENDPOINT_SLICES, name, patch).await?;
    let slices = until_slices(&c, "the endpoint is back", |slices| {
        all_ready(slices, 1) && slices[0]["metadata"]["labels"].get("mine").is_none()
    })
    .await?;
    assert_eq!(slices[0]["metadata"]["annotations"]["kept"], "1");
    c.merge(SERVICES, "web", json!({"metadata": {"labels": {"tier": "b", "more": "1"}}})).await?;
    until_slices(&c, "labels of the Service", |slices| {
        let labels = &slices[0]["metadata"]["labels"];
        labels["tier"] == "b" && labels["more"] == "1"
    })
    .await?;
    c.delete(ENDPOINT_SLICES, name, "Background").await?;
    let uid = &slices[0]["metadata"]["uid"];
    let is_new = |slices: &[Value]| all_ready(slices, 1) && slices[0]["metadata"]["uid"] != *uid;
    until_slices(&c, "another one", is_new).await?;
    let foreign = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "mine", "labels": {"kubernetes.io/service-name": "web"}},
        "endpoints": [{"addresses": ["10.9.9.9"]}], "ports": []});
    let foreign = c.create(ENDPOINT_SLICES, foreign).await?;
    c.stays("the slice of another manager", Duration::from_secs(3), async || {
        c.get(ENDPOINT_SLICES, "mine").await.is_ok_and(|slice| slice == foreign)
    })
    .await
}

async fn a_service_for_nobody_is_left_alone(c: Context) -> Outcome {
    c.create(SERVICES, service(&json!({"selector": null}))).await?;
    c.create(PODS, pod("a", "web")).await?;
    c.stays("there is no slice", Duration::from_secs(3), async || {
        c.list(ENDPOINT_SLICES).await.is_ok_and(|slices| slices.is_empty())
    })
    .await
}

/// ENDPOINTSLICE-55, ENDPOINTSLICE-59.
async fn endpoints_are_kept_beside_slices(c: Context) -> Outcome {
    c.create(SERVICES, service(&json!({}))).await?;
    c.create(REPLICA_SETS, replica_set("web").replicas(2)).await?;
    let there = c
        .until("two addresses", async || {
            let there = c.get(ENDPOINTS, "web").await.ok()?;
            (there["subsets"][0]["addresses"].as_array()?.len() == 2).then_some(there)
        })
        .await?;
    assert_eq!(there["subsets"][0]["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    let labels = json!({"tier": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    assert_eq!(there["metadata"]["labels"], labels);
    for address in there["subsets"][0]["addresses"].as_array().into_iter().flatten() {
        let pod = c.get(PODS, address["targetRef"]["name"].as_str().unwrap_or_default()).await?;
        let target = json!({"kind": "Pod", "namespace": c.namespace(), "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"]});
        let expected = json!({"ip": pod["status"]["podIP"], "nodeName": pod["spec"]["nodeName"], "targetRef": target});
        assert_eq!(*address, expected);
    }
    until_slices(&c, "slices of the Service only, and no mirror", |slices| slices.len() == 1).await?;
    c.scale(REPLICA_SETS, "web", 0).await?;
    c.until_object(ENDPOINTS, "web", "no addresses", |endpoints| endpoints["subsets"].is_null()).await?;
    c.delete(SERVICES, "web", "Background").await?;
    c.until("no Endpoints", async || c.get(ENDPOINTS, "web").await.is_err().then_some(())).await
}

async fn a_service_at_rest_is_left_alone(c: Context) -> Outcome {
    c.create(SERVICES, service(&json!({"trafficDistribution": "PreferClose"}))).await?;
    c.create(REPLICA_SETS, replica_set("web").replicas(6)).await?;
    until_slices(&c, "six ready endpoints", |slices| all_ready(slices, 6)).await?;
    let note = json!({"metadata": {"annotations": {"note": "1"}}});
    let change = async || Ok(c.merge(SERVICES, "web", note).await.map(drop)?);
    c.left_alone(&[ENDPOINT_SLICES, ENDPOINTS], change).await
}
