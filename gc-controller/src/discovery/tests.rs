use serde_json::json;

use super::*;

fn resource(name: &str, kind: &str, verbs: &[&str]) -> serde_json::Value {
    json!({"resource": name, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": "Namespaced", "verbs": verbs})
}

/// GC-2, GC-3.
#[test]
fn each_resource_is_collected_in_the_version_its_server_prefers() {
    let all = ["create", "delete", "get", "list", "watch"];
    let body = json!({"kind": "APIGroupDiscoveryList", "items": [
        {"metadata": {"name": "x.io"}, "versions": [
            {"version": "v1", "freshness": "Current", "resources": [resource("a", "A", &all), resource("r", "R", &["create"])]},
            {"version": "v1beta1", "freshness": "Current", "resources": [resource("a", "A", &all), resource("b", "B", &all),
                resource("b/c", "C", &all)]},
            {"version": "v1alpha1", "freshness": "Stale", "resources": [resource("d", "D", &all)]}]},
        {"metadata": {}, "versions": [{"version": "v1", "resources": [resource("events", "Event", &all)]}]},
        {"metadata": {"name": "events.k8s.io"}, "versions": [{"version": "v1", "resources": [resource("events", "Event", &all)]}]},
    ]});
    let mut served = DiscoveredResources::default();
    served.add_document(body.to_string().as_bytes()).unwrap();
    let collected: Vec<String> =
        collectable_resources(&served).iter().map(|r| format!("{} {}", r.api_version(), r.plural())).collect();
    assert_eq!(collected, ["x.io/v1 a", "x.io/v1beta1 b"]);
    assert_eq!(served.resource_of_kind("x.io/v1beta1", "A").unwrap().version(), "v1beta1");
    assert!(served.resource_of_kind("v1", "Event").is_some());
    assert_eq!(served.stale_group_versions.into_iter().collect::<Vec<_>>(), [("x.io".into(), "v1alpha1".into())]);
}
