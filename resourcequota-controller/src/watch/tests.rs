use serde_json::{Value, json};

use super::*;

/// Returns discovery with these resources in each group version, `!` before the version of a failed one.
fn discovered(groups: &[(&str, &[(&str, &str)])]) -> DiscoveredResources {
    let group = |(name, versions): &(&str, &[(&str, &str)])| {
        let version = |(version, plurals): &(&str, &str)| {
            let resources = plurals.split_whitespace().map(|plural| {
                let (plural, verbs) = plural.split_once(':').unwrap_or((plural, "create,list,watch,delete"));
                json!({"resource": plural, "responseKind": {"kind": plural}, "scope": "Namespaced",
                    "verbs": verbs.split(',').collect::<Vec<_>>()})
            });
            let freshness = if version.starts_with('!') { "Stale" } else { "Current" };
            json!({"version": version.trim_start_matches('!'), "freshness": freshness, "resources": resources.collect::<Vec<_>>()})
        };
        json!({"metadata": {"name": name}, "versions": versions.iter().map(version).collect::<Vec<_>>()})
    };
    let items: Vec<Value> = groups.iter().map(group).collect();
    let mut resources = DiscoveredResources::default();
    let document = json!({"kind": "APIGroupDiscoveryList", "items": items}).to_string();
    resources.add_document(document.as_bytes()).unwrap();
    resources
}

fn names(kinds: &BTreeMap<Text, Resource>) -> Vec<String> {
    kinds.iter().map(|(kind, resource)| format!("{kind} {}", resource.version())).collect()
}

#[test]
fn a_kind_is_counted_in_the_preferred_version_if_it_has_all_verbs() {
    // RESOURCEQUOTA-4, RESOURCEQUOTA-5
    let groups: &[(&str, &[(&str, &str)])] = &[
        ("apps", &[("v2", "sets"), ("v1", "sets others reviews:create")]),
        ("events.k8s.io", &[("v1", "events")]),
        ("resource.k8s.io", &[("v1beta1", "resourceclaims"), ("v1", "resourceclaims")]),
    ];
    let kinds = countable_kinds(&discovered(groups), None);
    assert_eq!(names(&kinds), ["others.apps v1", "resourceclaims.resource.k8s.io v1", "sets.apps v2"]);
}

#[test]
fn known_kinds_of_a_failed_group_version_stay() {
    // RESOURCEQUOTA-7
    let before = countable_kinds(&discovered(&[("a.io", &[("v1", "as")]), ("b.io", &[("v1", "bs")])]), None);
    let now = countable_kinds(&discovered(&[("a.io", &[("!v1", "")]), ("c.io", &[("v1", "cs")])]), Some(&before));
    assert_eq!(names(&now), ["as.a.io v1", "cs.c.io v1"]);
}
