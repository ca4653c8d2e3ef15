//! Suite: what endpointslice-controller promises for EndpointSlices and Endpoints.

use e2e::suite::prelude::*;

pub(crate) fn suite() -> Suite {
    let scenes = scenes! {
        EVERYWHERE =>
            a_service_without_pods_has_an_empty_slice endpoints_follow_pods slices_are_filled_and_kept
            named_ports_make_slices_of_their_own a_deleted_slice_comes_back a_changed_slice_is_corrected
            a_service_for_nobody_is_left_alone endpoints_are_kept_beside_slices a_service_at_rest_is_left_alone;
        SIMULATED =>
            a_pod_that_is_not_ready_is_told_apart a_pod_that_goes_still_serves endpoints_prefer_their_zone;
    };
    Suite::new(
        "endpointslice",
        &[("endpointslice-controller", &["--max-endpoints-per-slice=4"]), ("replicaset-controller", &[])],
        scenes,
    )
}

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
    let at = &meta["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"];
    assert_eq!(*at, service["metadata"]["creationTimestamp"]);
    Ok(())
}

async fn endpoints_follow_pods(c: Context) -> Outcome {
    c.create(SERVICES, service(&json!({}))).await?;
    c.create(REPLICA_SETS, replica_set("web").replicas(2)).await?;
    for replicas in [2, 4, 1, 0, 3] {
        c.scale(REPLICA_SETS, "web", replicas).await?;
        let slices =
            until_slices(&c, &format!("{replicas} ready endpoints"), |all| all_ready(all, replicas as usize)).await?;
        let pods = c.list(PODS).await?;
        for endpoint in slices.iter().flat_map(endpoints) {
            let target = &endpoint["targetRef"];
            let Some(pod) = pods.iter().find(|pod| pod["metadata"]["uid"] == target["uid"]) else { continue };
            assert_eq!(target["name"], pod["metadata"]["name"]);
            assert_eq!(endpoint["addresses"][0], pod["status"]["podIP"]);
            assert_eq!(endpoint["nodeName"], pod["spec"]["nodeName"]);
        }
    }
    Ok(())
}

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

async fn a_pod_that_is_not_ready_is_told_apart(c: Context) -> Outcome {
    c.create(SERVICES, service(&json!({}))).await?;
    c.create(PODS, pod("slow", "web").set("metadata/annotations", json!({"sim/never-ready": "true"}))).await?;
    let slices = until_slices(&c, "one endpoint", |slices| sizes(slices) == [1]).await?;
    let conditions = &endpoints(&slices[0])[0]["conditions"];
    assert_eq!(*conditions, json!({"ready": false, "serving": false, "terminating": false}));
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

async fn endpoints_prefer_their_zone(c: Context) -> Outcome {
    c.create(SERVICES, service(&json!({}))).await?;
    c.create(REPLICA_SETS, replica_set("web").replicas(3)).await?;
    let slices = until_slices(&c, "three", |slices| all_ready(slices, 3)).await?;
    assert!(slices.iter().flat_map(endpoints).all(|endpoint| endpoint["hints"].is_null()));
    for (distribution, nodes) in [("PreferSameZone", false), ("PreferSameNode", true), ("PreferClose", false)] {
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

async fn a_deleted_slice_comes_back(c: Context) -> Outcome {
    c.create(SERVICES, service(&json!({}))).await?;
    c.create(PODS, pod("a", "web")).await?;
    let slices = until_slices(&c, "a ready endpoint", |slices| all_ready(slices, 1)).await?;
    let meta = slices[0]["metadata"].clone();
    c.delete(ENDPOINT_SLICES, meta["name"].as_str().unwrap(), "Background").await?;
    let is_new = |slices: &[Value]| all_ready(slices, 1) && slices[0]["metadata"]["uid"] != meta["uid"];
    until_slices(&c, "another one", is_new).await?;
    Ok(())
}

async fn a_changed_slice_is_corrected(c: Context) -> Outcome {
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
    Ok(())
}

async fn a_service_for_nobody_is_left_alone(c: Context) -> Outcome {
    c.create(SERVICES, service(&json!({"selector": null}))).await?;
    c.create(PODS, pod("a", "web")).await?;
    c.stays("there is no slice", Duration::from_secs(3), async || {
        c.list(ENDPOINT_SLICES).await.is_ok_and(|slices| slices.is_empty())
    })
    .await
}

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
    assert_eq!(there["metadata"]["labels"]["endpoints.kubernetes.io/managed-by"], "endpoint-controller");
    until_slices(&c, "slices of the Service only, and no mirror", |slices| slices.len() == 1).await?;
    c.delete(SERVICES, "web", "Background").await?;
    c.until("no Endpoints", async || c.get(ENDPOINTS, "web").await.is_err().then_some(())).await
}

async fn a_service_at_rest_is_left_alone(c: Context) -> Outcome {
    c.create(SERVICES, service(&json!({"trafficDistribution": "PreferClose"}))).await?;
    c.create(REPLICA_SETS, replica_set("web").replicas(6)).await?;
    until_slices(&c, "six ready endpoints", |slices| all_ready(slices, 6)).await?;
    let versions = async || -> Result<Vec<Value>, Failure> {
        let mut all = c.list(ENDPOINT_SLICES).await?;
        all.extend(c.list(ENDPOINTS).await?);
        Ok(all.iter().map(|object| object["metadata"]["resourceVersion"].clone()).collect())
    };
    c.sleep(Duration::from_secs(2)).await;
    let before = versions().await?;
    c.merge(SERVICES, "web", json!({"metadata": {"annotations": {"note": "1"}}})).await?;
    c.sleep(Duration::from_secs(3)).await;
    c.check(versions().await? == before, "nothing is written").await
}
