use serde_json::{Value, json};

use super::*;

fn resource(name: &str, kind: &str, verbs: &[&str]) -> Value {
    json!({"resource": name, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": "Namespaced", "verbs": verbs})
}

/// Returns the result of discovery for one document with these groups.
fn discovered(groups: &Value) -> DiscoveredResources {
    let body = json!({"kind": "APIGroupDiscoveryList", "items": groups});
    let mut discovered_resources = DiscoveredResources::default();
    discovered_resources.add_document(body.to_string().as_bytes()).unwrap();
    discovered_resources
}

#[test]
fn every_version_is_found_with_its_verbs_and_subresources() {
    let mut scalable = resource("webs", "Web", &["get", "list"]);
    scalable["subresources"] = json!([
        {"subresource": "status", "responseKind": {"group": "x.io", "version": "v2", "kind": "Web"}, "verbs": ["get"]},
        {"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}, "verbs": ["get"]},
    ]);
    let mut node = resource("nodes", "Node", &["list"]);
    node["scope"] = json!("Cluster");
    let found = discovered(&json!([
        {"metadata": {"name": "x.io"}, "versions": [
            {"version": "v2", "freshness": "Current", "resources": [scalable]},
            {"version": "v1", "freshness": "Current", "resources": [resource("webs", "Web", &["get"])]}]},
        {"metadata": {"creationTimestamp": null}, "versions": [{"version": "v1", "resources": [node]}]},
    ]));
    let discovered = |resource, is_preferred, verbs: &[&str], subresources: &[&str]| {
        let [verbs, subresources] =
            [verbs, subresources].map(|all| all.iter().map(|name| (*name).to_owned()).collect());
        DiscoveredResource { resource, is_preferred, verbs, subresources }
    };
    let webs = |version| Resource::discovered("x.io", version, "webs", "Web", true);
    let nodes = Resource::cluster_scoped("", "v1", "nodes", "Node");
    let expected = [
        discovered(webs("v2"), true, &["get", "list"], &["status", "scale"]),
        discovered(webs("v1"), false, &["get"], &[]),
        discovered(nodes, true, &["list"], &[]),
    ];
    assert_eq!(found.resources, expected);
    assert!(found.resources[0].supports(&["list", "get"]) && !found.resources[0].supports(&["list", "watch"]));
    assert!(found.stale_group_versions.is_empty());
}

#[test]
fn nothing_is_known_about_a_stale_group_version() {
    let found = discovered(&json!([{"metadata": {"name": "x.io"}, "versions": [
        {"version": "v2", "freshness": "Stale", "resources": [resource("webs", "Web", &[])]},
        {"version": "v1", "freshness": "Current", "resources": [resource("webs", "Web", &[])]}]}]));
    let webs = |version| Resource::discovered("x.io", version, "webs", "Web", true);
    assert!(found.is_stale(&webs("v2")) && !found.is_stale(&webs("v1")));
    let resources: Vec<_> =
        found.resources.iter().map(|found| (found.resource.version(), found.is_preferred)).collect();
    assert_eq!(resources, [("v1", true)]);
    assert_eq!(found.resource_of_kind("x.io/v2", "Web"), None);
}

/// GC-8, GC-46, GC-86.
#[test]
fn a_kind_is_found_by_its_name_in_lower_case_in_every_version() {
    let served = discovered(&json!([{"metadata": {"name": "x.io"}, "versions": [
        {"version": "v2", "resources": [resource("foobars", "FooBar", &[])]},
        {"version": "v1", "resources": [resource("foobars", "FooBar", &[]), resource("others", "foobar", &[]),
            resource("foobarings", "FOOBAR", &[])]}]}]));
    let found = |version: &str, kind: &str| {
        let resource = served.resource_of_kind(&format!("x.io/{version}"), kind);
        resource.map(|resource| (resource.version(), resource.plural()))
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
    assert!(served.add_document(br#"{"kind":"APIGroupList","groups":[]}"#).is_err());
    assert!(served.add_document(b"<html>").is_err());
}
