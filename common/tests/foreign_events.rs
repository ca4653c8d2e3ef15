//! What the event of an object costs that concerns another controller. Alone in its process, because it counts what the process
//! allocates.

use std::{alloc::System, sync::Arc};

use cap::Cap;
use common::{
    informer::{Cached, Head, Sink as _},
    meta::{Meta, Version},
    object::{Object, Resource},
    pods::{PODS, Pod},
    store::Store,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// Counts what is allocated.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// A Pod of a DaemonSet, or of nobody.
#[derive(Deserialize)]
struct DaemonPod(Pod);

impl Object for DaemonPod {
    const RESOURCE: Resource = PODS;
    type Indexes = ();
    const CONCERNS: Option<fn(Option<&str>) -> bool> =
        Some(|controller| controller.is_none_or(|kind| kind == "DaemonSet"));

    fn meta(&self) -> &Meta {
        &self.0.meta
    }
}

fn pod(version: u64, owners: &Value) -> String {
    let container = json!({"name": "app", "image": "registry.example.com/shop/app:1.27.3", "command": ["/bin/app"]});
    let rest = json!({
        "spec": {"nodeName": "node-1", "containers": [container]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let metadata = json!({
        "name": "web-7c99d5cb8d-abcde", "namespace": "shop", "uid": "2ff731ae-b0d1-491c-a286-da4a1c1a8b15",
        "resourceVersion": version.to_string(), "labels": {"app": "web"}, "ownerReferences": owners,
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:phase": {}}}}],
    });
    // In the order in which servers write it.
    let rest = rest.to_string();
    format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{metadata},{}"#, &rest[1..])
}

fn owner(kind: &str, controller: bool) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "30f731ae-b0d1-491c-a286-da4a1c1a8b15", "controller": controller})
}

#[test]
fn a_foreign_event_allocates_next_to_nothing_and_moves_the_version() {
    let sink = Cached::new(Arc::new(Store::<DaemonPod>::default()), Vec::new());
    let events: Vec<String> =
        (1..=1000).map(|version| pod(version, &json!([owner("Node", false), owner("ReplicaSet", true)]))).collect();
    let before = ALLOCATOR.total_allocated();
    for event in &events {
        sink.foreign(&Head::of_foreign::<DaemonPod>(event).unwrap());
    }
    // A few bytes for the brackets that are open while the parser skips what nobody reads.
    assert!(ALLOCATOR.total_allocated() - before <= 8 * events.len());
    assert_eq!((sink.version(), sink.len()), (Version::parse("1000"), 0));
}

#[test]
fn what_may_concern_this_controller_is_not_foreign() {
    for owners in [json!(null), json!([]), json!([owner("DaemonSet", true)]), json!([owner("ReplicaSet", false)])] {
        assert!(Head::of_foreign::<DaemonPod>(&pod(1, &owners)).is_none(), "{owners}");
    }
    // The first controller counts, as everywhere else.
    let owners = [owner("Node", false), owner("DaemonSet", true), owner("ReplicaSet", true)];
    assert!(Head::of_foreign::<DaemonPod>(&pod(1, &json!(owners))).is_none());
    for unusual in [
        r#"{"spec":{},"metadata":{"name":"a","resourceVersion":"1","ownerReferences":[{"kind":"ReplicaSet","controller":true}]}}"#,
        r#"{"kind":"Pod","metadata":{"resourceVersion":"1","ownerReferences":[{"kind":"ReplicaSet","controller":true}]}}"#,
        r#"{"kind":"Pod","metadata":{"name":"a","resourceVersion":"1","ownerReferences":{"kind":"ReplicaSet"}}}"#,
        r#"{"kind":"P\"od","metadata":null}"#,
        "null",
        "",
    ] {
        assert!(Head::of_foreign::<DaemonPod>(unusual).is_none(), "{unusual}");
    }
}
