//! Endpoints that users write, for Services without a selector, are mirrored into EndpointSlices.

use testkit::scene::prelude::*;

const MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";

suite! {
    Suite::new("endpointslice_mirroring")
        .controller(&endpointslice_controller::DEFINITION, &["--mirroring-max-endpoints-per-subset=3"]);
    EVERYWHERE.sample() =>
        a_mirror_follows_addresses_readiness_and_ports;
    EVERYWHERE =>
        families_are_mirrored_apart_with_labels_and_annotations a_mirror_goes_with_its_endpoints_and_its_service
        a_selector_ends_mirroring_and_its_removal_begins_it a_mirror_that_somebody_changes_is_corrected
        too_many_addresses_are_cut_and_reported
        locks_and_endpoints_to_skip_are_not_mirrored a_slice_of_somebody_else_stays
        mirrors_at_rest_are_left_alone;
}

fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"tier": "a"}},
        "spec": {"ports": [{"name": "http", "port": 80}]}})
}

fn ips(ips: &[&str]) -> Value {
    ips.iter().map(|ip| json!({ "ip": ip })).collect()
}

/// One subset with these addresses.
fn subsets(ready: &[&str], not_ready: &[&str], port: u16) -> Value {
    let mut subset = json!({"ports": [{"name": "http", "port": port, "protocol": "TCP"}]});
    for (field, list) in [("addresses", ready), ("notReadyAddresses", not_ready)] {
        if !list.is_empty() {
            subset[field] = ips(list);
        }
    }
    json!([subset])
}

fn hand_made(subsets: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Endpoints", "subsets": subsets,
        "metadata": {"name": "web", "labels": {"l": "1"},
            "annotations": {"a": "1", "kubectl.kubernetes.io/last-applied-configuration": "{}"}}})
}

/// Each endpoint's address and whether it is ready, sorted.
fn addresses(slices: &[Value]) -> Vec<(String, bool)> {
    let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
    let mut all: Vec<(String, bool)> = endpoints
        .map(|endpoint| {
            (endpoint["addresses"][0].as_str().unwrap().to_owned(), endpoint["conditions"]["ready"] == true)
        })
        .collect();
    all.sort();
    all
}

/// The mirrors of the Service, once they hold exactly these endpoints.
async fn until_mirrored(c: &Context, wanted: &[(&str, bool)]) -> Result<Vec<Value>, Failure> {
    let wanted: Vec<(String, bool)> = wanted.iter().map(|(ip, ready)| ((*ip).to_owned(), *ready)).collect();
    c.until(&format!("mirrors of {wanted:?}"), async || {
        let mut slices = c.list(ENDPOINT_SLICES).await.ok()?;
        slices.retain(|slice| slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] == MIRRORING);
        (addresses(&slices) == wanted && (!wanted.is_empty() || slices.is_empty())).then_some(slices)
    })
    .await
}

/// Creates the Service, and Endpoints with the address 10.200.0.1, which are mirrored.
async fn mirrored(c: &Context) -> Result<Vec<Value>, Failure> {
    c.create(SERVICES, service()).await?;
    c.create(ENDPOINTS, hand_made(&subsets(&["10.200.0.1"], &[], 80))).await?;
    until_mirrored(c, &[("10.200.0.1", true)]).await
}

/// ENDPOINTSLICE-46, ENDPOINTSLICE-48, ENDPOINTSLICE-49.
async fn families_are_mirrored_apart_with_labels_and_annotations(c: Context) -> Outcome {
    c.create(SERVICES, service()).await?;
    let mut subsets = subsets(&["10.200.0.1", "fd00::1"], &[], 80);
    for address in subsets[0]["addresses"].as_array_mut().unwrap() {
        address["nodeName"] = json!("n0");
    }
    let owner = c.create(ENDPOINTS, hand_made(&subsets)).await?;
    let slices = until_mirrored(&c, &[("10.200.0.1", true), ("fd00::1", true)]).await?;
    let mut kinds: Vec<&str> = slices.iter().map(|slice| slice["addressType"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["IPv4", "IPv6"]);
    for slice in &slices {
        let meta = &slice["metadata"];
        let labels = json!({"l": "1", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": MIRRORING});
        assert_eq!((&meta["labels"], &meta["annotations"]), (&labels, &json!({"a": "1"})));
        let reference = &meta["ownerReferences"][0];
        assert_eq!((&reference["kind"], &reference["uid"]), (&json!("Endpoints"), &owner["metadata"]["uid"]));
        let endpoint = &slice["endpoints"][0];
        assert_eq!(endpoint["conditions"], json!({"ready": true}), "nothing else is known");
        assert_eq!((&endpoint["nodeName"], endpoint.get("zone")), (&json!("n0"), None));
        assert_eq!(slice["ports"], json!([{"name": "http", "port": 80, "protocol": "TCP"}]));
    }
    Ok(())
}

/// ENDPOINTSLICE-53.
async fn a_mirror_follows_addresses_readiness_and_ports(c: Context) -> Outcome {
    c.create(SERVICES, service()).await?;
    c.create(ENDPOINTS, hand_made(&subsets(&["10.200.0.1"], &["10.200.0.2"], 80))).await?;
    let first = until_mirrored(&c, &[("10.200.0.1", true), ("10.200.0.2", false)]).await?;
    let conditions = ["/endpoints/0/conditions", "/endpoints/1/conditions"].map(|field| first[0].pointer(field));
    assert_eq!(conditions, [Some(&json!({"ready": true})), Some(&json!({"ready": false}))], "nothing else is known");
    let change =
        json!({"subsets": subsets(&["10.200.0.2", "10.200.0.3"], &[], 80), "metadata": {"annotations": {"a": "2"}}});
    c.merge(ENDPOINTS, "web", change).await?;
    let second = until_mirrored(&c, &[("10.200.0.2", true), ("10.200.0.3", true)]).await?;
    assert_eq!(second[0]["metadata"]["name"], first[0]["metadata"]["name"]);
    assert_eq!(second[0]["metadata"]["annotations"], json!({"a": "2"}));
    c.merge(ENDPOINTS, "web", json!({"subsets": subsets(&["10.200.0.2", "10.200.0.3"], &[], 81)})).await?;
    let slice = c
        .until("the other port", async || {
            let slices = c.list(ENDPOINT_SLICES).await.ok()?;
            slices.into_iter().find(|slice| slice["ports"][0]["port"] == 81)
        })
        .await?;
    assert_eq!(slice["metadata"]["name"], first[0]["metadata"]["name"], "the slice is reused");
    c.merge(ENDPOINTS, "web", json!({"subsets": null})).await?;
    until_mirrored(&c, &[]).await?;
    Ok(())
}

async fn a_mirror_goes_with_its_endpoints_and_its_service(c: Context) -> Outcome {
    mirrored(&c).await?;
    c.delete(ENDPOINTS, "web", "Background").await?;
    until_mirrored(&c, &[]).await?;
    c.create(ENDPOINTS, hand_made(&subsets(&["10.200.0.2"], &[], 80))).await?;
    until_mirrored(&c, &[("10.200.0.2", true)]).await?;
    c.delete(SERVICES, "web", "Background").await?;
    until_mirrored(&c, &[]).await?;
    Ok(())
}

/// ENDPOINTSLICE-47.
async fn a_selector_ends_mirroring_and_its_removal_begins_it(c: Context) -> Outcome {
    mirrored(&c).await?;
    c.merge(SERVICES, "web", json!({"spec": {"selector": {"app": "web"}}})).await?;
    until_mirrored(&c, &[]).await?;
    let is_own = |slice: &Value| {
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] == "endpointslice-controller.k8s.io"
    };
    c.until_list(ENDPOINT_SLICES, "the slice of the Service", |slices| slices.len() == 1 && is_own(&slices[0])).await?;
    c.merge(SERVICES, "web", json!({"spec": {"selector": null}})).await?;
    c.merge(ENDPOINTS, "web", json!({"subsets": subsets(&["10.200.0.4"], &[], 80)})).await?;
    until_mirrored(&c, &[("10.200.0.4", true)]).await?;
    Ok(())
}

async fn a_mirror_that_somebody_changes_is_corrected(c: Context) -> Outcome {
    let slices = mirrored(&c).await?;
    let name = slices[0]["metadata"]["name"].as_str().unwrap();
    let change = json!({"metadata": {"labels": {"l": "2"}, "annotations": {"b": "1"}}, "endpoints": [{"addresses": ["10.200.0.9"]}]});
    c.merge(ENDPOINT_SLICES, name, change).await?;
    c.until("the mirror as it was", async || {
        let slice = c.get(ENDPOINT_SLICES, name).await.ok()?;
        let meta = &slice["metadata"];
        let is_right = meta["labels"]["l"] == "1" && meta["annotations"] == json!({"a": "1"});
        (is_right && slice["endpoints"][0]["addresses"][0] == "10.200.0.1").then_some(())
    })
    .await?;
    c.delete(ENDPOINT_SLICES, name, "Background").await?;
    let uid = &slices[0]["metadata"]["uid"];
    let is_another = |slices: &[Value]| slices.len() == 1 && slices[0]["metadata"]["uid"] != *uid;
    c.until_list(ENDPOINT_SLICES, "another mirror", is_another).await.map(drop)
}

async fn too_many_addresses_are_cut_and_reported(c: Context) -> Outcome {
    c.create(SERVICES, service()).await?;
    let many = subsets(&["10.200.0.1", "10.200.0.2"], &["10.200.0.3", "10.200.0.4", "10.200.0.5"], 80);
    c.create(ENDPOINTS, hand_made(&many)).await?;
    until_mirrored(&c, &[("10.200.0.1", true), ("10.200.0.2", true), ("10.200.0.3", false)]).await?;
    c.until("an Event about it", async || {
        let events = c.events_of("Endpoints", "web").await.ok()?;
        events.iter().any(|event| event.contains("TooManyAddressesToMirror")).then_some(())
    })
    .await
}

/// ENDPOINTSLICE-47.
async fn locks_and_endpoints_to_skip_are_not_mirrored(c: Context) -> Outcome {
    c.create(SERVICES, service()).await?;
    let mut lock = hand_made(&subsets(&["10.200.0.1"], &[], 80));
    lock["metadata"]["annotations"] = json!({"control-plane.alpha.kubernetes.io/leader": "{}"});
    c.create(ENDPOINTS, lock).await?;
    c.stays("there is no mirror", Duration::from_secs(2), async || {
        c.list(ENDPOINT_SLICES).await.is_ok_and(|slices| slices.is_empty())
    })
    .await?;
    c.merge(ENDPOINTS, "web", json!({"metadata": {"annotations": null}})).await?;
    until_mirrored(&c, &[("10.200.0.1", true)]).await?;
    let skip = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}});
    c.merge(ENDPOINTS, "web", skip).await?;
    until_mirrored(&c, &[]).await?;
    Ok(())
}

async fn a_slice_of_somebody_else_stays(c: Context) -> Outcome {
    c.create(SERVICES, service()).await?;
    let theirs = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "theirs", "labels": {"kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "somebody-else"}},
        "endpoints": [{"addresses": ["10.200.0.9"]}], "ports": [{"name": "http", "port": 80}]});
    let before = c.create(ENDPOINT_SLICES, theirs).await?;
    c.create(ENDPOINTS, hand_made(&subsets(&["10.200.0.1"], &[], 80))).await?;
    until_mirrored(&c, &[("10.200.0.1", true)]).await?;
    c.delete(ENDPOINTS, "web", "Background").await?;
    until_mirrored(&c, &[]).await?;
    let now = c.get(ENDPOINT_SLICES, "theirs").await?;
    assert_eq!(now["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    Ok(())
}

/// ENDPOINTSLICE-59.
async fn mirrors_at_rest_are_left_alone(c: Context) -> Outcome {
    c.create(SERVICES, service()).await?;
    c.create(ENDPOINTS, hand_made(&subsets(&["10.200.0.2", "10.200.0.1", "fd00::1"], &[], 80))).await?;
    until_mirrored(&c, &[("10.200.0.1", true), ("10.200.0.2", true), ("fd00::1", true)]).await?;
    c.left_alone(&[ENDPOINT_SLICES, ENDPOINTS], async || {
        c.create(PODS, pod("a", "web")).await?;
        c.merge(SERVICES, "web", json!({"metadata": {"labels": {"x": "1"}, "annotations": {"note": "1"}}})).await?;
        Ok(())
    })
    .await
}
