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
    served.add(body.to_string().as_bytes()).unwrap();
    let collected: Vec<String> =
        served.collectable_resources.iter().map(|r| format!("{} {}", r.api_version(), r.plural())).collect();
    assert_eq!(collected, ["x.io/v1 a", "x.io/v1beta1 b"]);
    let old = Kind { api_version: "x.io/v1beta1".into(), kind: "A".into() };
    assert_eq!(served.resource_by_kind[&old].version(), "v1beta1");
    assert!(served.resource_by_kind.contains_key(&Kind { api_version: "v1".into(), kind: "Event".into() }));
    assert_eq!(served.stale_group_versions.into_iter().collect::<Vec<_>>(), [("x.io".into(), "v1alpha1".into())]);
}

/// GC-8, GC-46, GC-86.
#[test]
fn a_kind_is_found_by_its_name_in_lower_case_in_every_version() {
    let body = json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "x.io"}, "versions": [
        {"version": "v2", "resources": [resource("foobars", "FooBar", &[])]},
        {"version": "v1", "resources": [resource("foobars", "FooBar", &[]), resource("others", "foobar", &[]),
            resource("foobarings", "FOOBAR", &[])]}]}]});
    let mut served = DiscoveredResources::default();
    served.add(body.to_string().as_bytes()).unwrap();
    let found = |version: &str, kind: &str| {
        let kind = Kind { api_version: Text::new(&format!("x.io/{version}")), kind: kind.into() };
        served.resource_by_kind.get(&kind).map(|resource| (resource.version(), resource.plural()))
    };
    for (version, kind, expected) in [
        ("v2", "FooBar", Some(("v2", "foobars"))),
        ("v2", "foobar", Some(("v2", "foobars"))),
        // The kind with this exact name has precedence.
        ("v1", "foobar", Some(("v1", "others"))),
        ("v1", "FooBar", Some(("v1", "foobars"))),
        ("v1", "FOOBAR", Some(("v1", "foobarings"))),
        ("v2", "FOOBAR", None),
        ("v2", "fooBar", None),
        ("v2", "foobars", None),
        ("v2", "FooBarList", None),
        ("v2", "foobarlist", None),
    ] {
        assert_eq!(found(version, kind), expected, "{version} {kind}");
    }
}

/// GC-7.
#[test]
fn an_answer_that_is_no_discovery_document_is_an_error() {
    let mut served = DiscoveredResources::default();
    assert!(served.add(br#"{"kind":"APIGroupList","groups":[]}"#).is_err());
    assert!(served.add(b"<html>").is_err());
}
