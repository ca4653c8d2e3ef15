//! OpenShift's admission plugin `RestrictedEndpointsAdmission`, through requests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use common::clock::Clock;
use sandbox::Sandbox;
use serde_json::{Value, json};

/// The Endpoints or the EndpointSlice `x` with this address.
fn of(kind: &str, address: &str) -> Value {
    let metadata = json!({"name": "x", "namespace": "default"});
    if kind == "Endpoints" {
        let subsets = json!([{"notReadyAddresses": [{"ip": address}]}]);
        return json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "subsets": subsets});
    }
    let endpoints = json!([{"addresses": [address]}]);
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": kind, "metadata": metadata, "addressType": "IPv4",
        "endpoints": endpoints})
}

#[tokio::test(start_paused = true)]
async fn only_users_with_the_right_write_addresses() {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 7);
    let sandbox = Sandbox::builder().clock(clock).rbac(true).restricted_endpoints_admission(true).build();
    let me = sandbox.acting_as("me");
    for (kind, resource, group) in
        [("Endpoints", "endpoints", ""), ("EndpointSlice", "endpointslices", "discovery.k8s.io")]
    {
        let rule =
            |resource: &str, verbs: Value| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
        let plain = rule(resource, json!(["create", "patch"]));
        sandbox.grant("me", json!([plain])).await.unwrap();
        let refused = me.create(of(kind, "10.0.0.1")).await.unwrap_err();
        assert_eq!((refused.code, &*refused.reason), (403, "Forbidden"));
        assert!(refused.message.ends_with("\"x\" is forbidden: endpoint address 10.0.0.1 is not allowed"), "{refused}");
        sandbox.grant("me", json!([plain, rule(&format!("{resource}/restricted"), json!(["create"]))])).await.unwrap();
        me.create(of(kind, "10.0.0.1")).await.unwrap();
        sandbox.grant("me", json!([plain])).await.unwrap();
        let resource = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let merge = |patch: Value| me.merge(&resource, Some("default"), "x", None, patch);
        merge(json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap();
        assert_eq!(merge(of(kind, "10.0.0.2")).await.unwrap_err().code, 403, "{kind}");
    }
}
