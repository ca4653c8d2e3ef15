//! Builds the kinds, objects and namespaces of the unit tests.

use std::{collections::BTreeMap, sync::Arc};

use common::{discovery::DiscoveredResources, partial_object::PartialObject, prelude::*};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    decide::{
        Snapshot,
        content::{Content, Failure, Findings, KindState},
    },
    objects::Namespace,
};

/// The kind of a resource in these tests is its plural name.
pub(crate) const PODS: Resource = Resource::namespaced("", "v1", "pods", "pods");
pub(crate) const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "configmaps");
pub(crate) const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "deployments");

/// Returns the time so many seconds after the deletion of the namespace `shop`.
pub(crate) fn after(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_795_000_000 + seconds).unwrap()
}

/// Returns what discovery finds in groups of the form `name version* resource:verb,verb; resource`. A star marks a stale version.
/// Resources are namespaced; verbs are `list`, `delete` and `deletecollection` unless others are named.
pub(crate) fn discovered(groups: &[(&str, &[(&str, &str)])]) -> DiscoveredResources {
    let resource = |text: &str| {
        let (name, verbs) = text.split_once(':').unwrap_or((text, "list,delete,deletecollection"));
        let (name, scope) = name.strip_prefix('/').map_or((name, "Namespaced"), |name| (name, "Cluster"));
        json!({"resource": name, "responseKind": {"kind": name}, "scope": scope, "verbs": verbs.split(',').collect::<Vec<_>>()})
    };
    let version = |(version, resources): &(&str, &str)| {
        let (version, freshness) =
            version.strip_suffix('*').map_or((*version, "Current"), |version| (version, "Stale"));
        let resources: Vec<Value> = resources.split(' ').filter(|text| !text.is_empty()).map(resource).collect();
        json!({"version": version, "freshness": freshness, "resources": resources})
    };
    let group = |(name, versions): &(&str, &[(&str, &str)])| json!({"metadata": {"name": name}, "versions": versions.iter().map(version).collect::<Vec<_>>()});
    let document = json!({"kind": "APIGroupDiscoveryList", "items": groups.iter().map(group).collect::<Vec<_>>()});
    let mut discovered = DiscoveredResources::default();
    discovered.add_document(document.to_string().as_bytes()).unwrap();
    discovered
}

/// Returns the content of a cluster with Pods, ConfigMaps and Deployments, and with these stale group versions.
pub(crate) fn content(stale: &[&str]) -> Content {
    let groups: &[(&str, &[(&str, &str)])] = &[("", &[("v1", "configmaps pods")]), ("apps", &[("v1", "deployments")])];
    let content = Content::from_discovery(&discovered(groups)).unwrap();
    Content { stale_group_versions: stale.iter().map(|text| (*text).to_owned()).collect(), ..content }
}

/// Returns an object with these fields in its metadata.
pub(crate) fn object(name: &str, metadata: Value) -> PartialObject {
    let mut object = json!({"metadata": {"name": name, "namespace": "shop", "uid": name}});
    for (field, value) in metadata.as_object().unwrap() {
        object["metadata"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// Returns a terminating object with these finalizers and this grace period.
pub(crate) fn terminating(name: &str, finalizers: &[&str], grace_period_seconds: i64) -> PartialObject {
    let fields = json!({"deletionTimestamp": after(0).to_string(), "finalizers": finalizers,
        "deletionGracePeriodSeconds": grace_period_seconds});
    object(name, fields)
}

/// Returns the state of a kind with these objects.
pub(crate) fn remaining(objects: &[PartialObject]) -> KindState {
    let mut state = KindState::default();
    for object in objects {
        state.add(object);
    }
    state
}

/// Returns the state of a kind that has failed with this text.
pub(crate) fn failed(text: &str) -> KindState {
    KindState::failed(Failure { text: text.to_owned(), class: SyncErrorClass::Request("forbidden") })
}

pub(crate) fn kinds(states: Vec<(Resource, KindState)>) -> BTreeMap<Resource, KindState> {
    states.into_iter().collect()
}

/// Returns the namespace `shop` as the server sends it, with these finalizers in its spec.
pub(crate) fn live(finalizers: &[&str]) -> Value {
    json!({"metadata": {"name": "shop", "uid": "U", "resourceVersion": "7", "labels": {"team": "a"},
            "deletionTimestamp": after(0).to_string(), "unheard": {"of": 1}},
        "spec": {"finalizers": finalizers}, "status": {"phase": "Active"}})
}

/// Returns the snapshot of the terminating namespace `shop`.
pub(crate) fn snapshot(findings: Findings) -> Snapshot {
    let namespace = json!({"metadata": {"name": "shop", "uid": "U", "deletionTimestamp": after(0).to_string()}});
    let namespace: Namespace = serde_json::from_value(namespace).unwrap();
    Snapshot { namespace: Arc::new(namespace), findings, now: after(9) }
}
