//! What the server says about itself: versions, groups, resources, health.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{StatusCode, request::Parts, uri::Authority};
use serde_json::{Map, Value, json};

use crate::{
    api::resource::{Registry, Resource},
    server::openapi,
    value::json,
    verbs::{
        accept::{Accept, Form, Protobuf, Wants},
        core::Core,
        reply::Reply,
        status::{ApiError, ApiResult},
    },
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Groups in the order in which the real server prefers them; others follow by name.
const PREFERENCE: [&str; 20] = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// Answers a request that is for no resource.
pub(crate) fn reply(core: &Core, parts: &Parts, segments: &[String]) -> ApiResult<Reply> {
    let texts: Vec<&str> = segments.iter().map(String::as_str).collect();
    let registry = core.registry();
    // The real server has these documents in protobuf, too; no client of the sandbox asks for them.
    let aggregated = || {
        let accept = Accept::negotiate(&parts.headers, Wants::Discovery, Protobuf::Unknown)?;
        Ok::<_, ApiError>(accept.form == Form::Discovery)
    };
    let ok = |value: &Value| Ok(Reply::Json(StatusCode::OK, json::body(value)));
    let silent = core.faults.silent_groups();
    match texts.as_slice() {
        ["apis", name, _] if silent.contains(*name) => {
            Err(ApiError::new(503, "ServiceUnavailable", "service unavailable"))
        }
        ["version"] => ok(&version()),
        ["healthz" | "livez" | "readyz", ..] => Ok(Reply::Text(StatusCode::OK, "ok".into())),
        ["api"] if aggregated()? => Ok(Reply::Typed(AGGREGATED, aggregate(&registry, true, &silent))),
        ["apis"] if aggregated()? => Ok(Reply::Typed(AGGREGATED, aggregate(&registry, false, &silent))),
        ["api"] => {
            let host = parts.headers.get(http::header::HOST).and_then(|h| h.to_str().ok());
            let address = core.setup.advertised.as_deref().or(host).or(parts.uri.authority().map(Authority::as_str));
            ok(&json!({
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
            }))
        }
        ["apis"] => {
            let list: Vec<Value> = groups(&registry).iter().map(|g| group(&registry, g)).collect();
            ok(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": list}))
        }
        ["api", version] if registry.has_version("", version) => ok(&resources(&registry, "", version)),
        ["apis", name] if groups(&registry).iter().any(|g| g == name) => {
            let mut answer = group(&registry, name);
            answer["kind"] = "APIGroup".into();
            answer["apiVersion"] = "v1".into();
            ok(&answer)
        }
        ["apis", name, version] if registry.has_version(name, version) => ok(&resources(&registry, name, version)),
        ["openapi", "v2"] => openapi::v2(&registry, &parts.headers),
        ["openapi", "v3"] => ok(&openapi::index(&registry)),
        ["openapi", "v3", "api", version] if registry.has_version("", version) => {
            ok(&openapi::v3(&registry, "", version))
        }
        ["openapi", "v3", "apis", name, version] if registry.has_version(name, version) => {
            ok(&openapi::v3(&registry, name, version))
        }
        _ => Err(ApiError::no_path()),
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36",
        "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.2", "gitCommit": "", "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc", "platform": "linux/amd64"
    })
}

/// All groups but the core one, preferred ones first.
fn groups(registry: &Registry) -> Vec<String> {
    let mut names: Vec<String> =
        registry.group_versions().map(|(g, _)| g.to_owned()).filter(|g| !g.is_empty()).collect();
    names.dedup();
    let rank = |name: &String| PREFERENCE.iter().position(|p| p == name).unwrap_or(PREFERENCE.len());
    names.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.cmp(b)));
    names
}

/// How much a version is preferred: stable ones before betas before alphas, newer ones first.
fn preference(version: &str) -> (u8, u32, u32) {
    let rest = version.strip_prefix('v').unwrap_or(version);
    let digits =
        |s: &str| -> u32 { s.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0) };
    let minor = |word: &str| rest.split_once(word).map(|(_, n)| digits(n));
    match (minor("beta"), minor("alpha")) {
        (Some(n), _) => (1, digits(rest), n),
        (None, Some(n)) => (0, digits(rest), n),
        (None, None) => (2, digits(rest), 0),
    }
}

fn versions<'a>(registry: &'a Registry, group: &str) -> Vec<&'a str> {
    let mut versions: Vec<&str> = registry.group_versions().filter(|(g, _)| *g == group).map(|(_, v)| v).collect();
    versions.sort_by_key(|v| std::cmp::Reverse(preference(v)));
    versions
}

fn group(registry: &Registry, name: &str) -> Value {
    let versions: Vec<Value> =
        versions(registry, name).iter().map(|v| json!({"groupVersion": format!("{name}/{v}"), "version": v})).collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": name, "versions": versions, "preferredVersion": preferred})
}

fn optional(entry: &mut Map<String, Value>, field: &str, list: &[String]) {
    if !list.is_empty() {
        entry.insert(field.into(), json!(list));
    }
}

fn resources(registry: &Registry, group: &str, version: &str) -> Value {
    let mut list = Vec::new();
    for resource in registry.of_version(group, version) {
        let mut entry = Map::new();
        entry.insert("name".into(), json!(resource.plural));
        entry.insert("singularName".into(), json!(resource.singular));
        entry.insert("namespaced".into(), json!(resource.namespaced));
        entry.insert("kind".into(), json!(resource.kind));
        entry.insert("verbs".into(), json!(resource.verbs));
        optional(&mut entry, "shortNames", &resource.short_names);
        optional(&mut entry, "categories", &resource.categories);
        if !resource.storage_hash.is_empty() {
            entry.insert("storageVersionHash".into(), json!(resource.storage_hash));
        }
        list.push(Value::Object(entry));
        let mut subs: Vec<_> = resource.subresources.iter().collect();
        subs.sort_by(|a, b| a.name.cmp(&b.name));
        for sub in subs {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, sub.name), "singularName": "",
                "namespaced": resource.namespaced, "kind": sub.kind, "verbs": sub.verbs
            });
            if let Some((group, version)) = &sub.group_version {
                entry["group"] = json!(group);
                entry["version"] = json!(version);
            }
            list.push(entry);
        }
    }
    let mut answer = json!({"kind": "APIResourceList", "resources": list});
    if group.is_empty() {
        answer["groupVersion"] = version.into();
    } else {
        answer["groupVersion"] = format!("{group}/{version}").into();
        answer["apiVersion"] = "v1".into();
    }
    answer
}

fn response_kind(resource: &Resource, kind: &str, group_version: Option<&(String, String)>) -> Value {
    let (group, version) = match group_version {
        Some((group, version)) => (&**group, &**version),
        None if resource.is_custom() => (&*resource.group, &*resource.version),
        // The real server leaves these out for its own kinds.
        None => ("", ""),
    };
    json!({"group": group, "version": version, "kind": kind})
}

fn aggregate(registry: &Registry, core_group: bool, silent: &BTreeSet<String>) -> Bytes {
    let anew = || aggregate_anew(registry, core_group, silent);
    // What is not said for long is not kept.
    if silent.is_empty() { registry.discovery[usize::from(!core_group)].get_or_init(anew).clone() } else { anew() }
}

fn aggregate_anew(registry: &Registry, core_group: bool, silent: &BTreeSet<String>) -> Bytes {
    let names = if core_group { vec![String::new()] } else { groups(registry) };
    let mut items = Vec::new();
    for name in names {
        let mut served = Vec::new();
        for version in versions(registry, &name) {
            if silent.contains(&name) {
                served.push(json!({"version": version, "freshness": "Stale"}));
                continue;
            }
            let entries: Vec<Value> = registry.of_version(&name, version).map(|r| aggregated(r)).collect();
            served.push(json!({"version": version, "resources": entries, "freshness": "Current"}));
        }
        let mut metadata = Map::new();
        if !name.is_empty() {
            metadata.insert("name".into(), name.into());
        }
        items.push(json!({"metadata": metadata, "versions": served}));
    }
    json::body(&json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items
    }))
}

fn aggregated(resource: &Resource) -> Value {
    let mut entry = Map::new();
    entry.insert("resource".into(), json!(resource.plural));
    entry.insert("responseKind".into(), response_kind(resource, &resource.kind, None));
    entry.insert("scope".into(), if resource.namespaced { "Namespaced" } else { "Cluster" }.into());
    entry.insert("singularResource".into(), json!(resource.singular));
    entry.insert("verbs".into(), json!(resource.verbs));
    optional(&mut entry, "shortNames", &resource.short_names);
    optional(&mut entry, "categories", &resource.categories);
    let mut subs: Vec<_> = resource.subresources.iter().collect();
    subs.sort_by(|a, b| a.name.cmp(&b.name));
    if !subs.is_empty() {
        let list = subs.iter().map(|sub| {
            json!({
                "subresource": sub.name,
                "responseKind": response_kind(resource, &sub.kind, sub.group_version.as_ref()),
                "verbs": sub.verbs
            })
        });
        entry.insert("subresources".into(), list.collect());
    }
    Value::Object(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_before_betas_and_newer_before_older() {
        let mut versions = ["v1beta1", "v1", "v2", "v1alpha1", "v1beta2"];
        versions.sort_by_key(|v| std::cmp::Reverse(preference(v)));
        assert_eq!(versions, ["v2", "v1", "v1beta2", "v1beta1", "v1alpha1"]);
    }
}
