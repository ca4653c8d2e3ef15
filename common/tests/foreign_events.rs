//! What the event of an object costs that concerns another controller. Alone in its process, because it counts what the process
//! allocates.

use std::{
    alloc::System,
    sync::{Arc, Mutex},
};

use cap::Cap;
use common::{
    head::Head,
    informer::{Cached, Sink as _},
    meta::{Meta, Version},
    object::{Encoded, Object, Resource},
    pods::{PODS, Pod},
    store::Store,
    wire::{Message, messages},
};
use prost::encoding::{WireType, encode_key, encode_varint};
use serde::Deserialize;
use serde_json::{Value, json};

/// Counts what is allocated.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Held while allocations are counted, because tests run at the same time.
static ALONE: Mutex<()> = Mutex::new(());

/// A Pod of a DaemonSet, or of nobody.
#[derive(Deserialize)]
struct DaemonPod(Pod);

impl Object for DaemonPod {
    const RESOURCE: Resource = PODS;
    type Indexes = ();
    const PROTOBUF: Option<&'static Message> = Some(&messages::POD);
    const CONCERNS: Option<fn(&Head<'_>) -> bool> =
        Some(|head| head.controller().is_none_or(|kind| kind == "DaemonSet"));

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

fn bytes(field: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key(field, WireType::LengthDelimited, &mut out);
    encode_varint(value.len() as u64, &mut out);
    out.extend_from_slice(value);
    out
}

/// The Pod of a ReplicaSet as a protobuf message.
fn message(version: u64) -> Vec<u8> {
    let owner = [bytes(1, b"ReplicaSet"), bytes(3, b"web"), bytes(4, b"u"), bytes(5, b"apps/v1"), vec![6 << 3, 1]];
    let label = [bytes(1, b"app"), bytes(2, b"web")];
    let metadata = [
        bytes(1, b"web-7c99d5cb8d-abcde"),
        bytes(3, b"shop"),
        bytes(6, version.to_string().as_bytes()),
        bytes(11, &label.concat()),
        bytes(13, &owner.concat()),
        bytes(14, b"example.com/a"),
    ];
    [bytes(1, &metadata.concat()), bytes(2, &bytes(10, b"node-1")), bytes(3, &bytes(1, b"Running"))].concat()
}

#[test]
fn a_foreign_event_in_protobuf_allocates_nothing() {
    let _alone = ALONE.lock().unwrap();
    let sink = Cached::new(Arc::new(Store::<DaemonPod>::default()), Vec::new());
    let events: Vec<Vec<u8>> = (1..=1000).map(message).collect();
    let before = ALLOCATOR.total_allocated();
    for event in &events {
        sink.foreign(&Encoded::Protobuf(event).foreign_head::<DaemonPod>().unwrap());
    }
    assert_eq!(ALLOCATOR.total_allocated() - before, 0);
    assert_eq!((sink.version(), sink.len()), (Version::parse("1000"), 0));
}

#[test]
fn a_foreign_event_in_json_allocates_next_to_nothing_and_moves_the_version() {
    let _alone = ALONE.lock().unwrap();
    let sink = Cached::new(Arc::new(Store::<DaemonPod>::default()), Vec::new());
    let events: Vec<String> =
        (1..=1000).map(|version| pod(version, &json!([owner("Node", false), owner("ReplicaSet", true)]))).collect();
    let before = ALLOCATOR.total_allocated();
    for event in &events {
        sink.foreign(&Encoded::Json(event).foreign_head::<DaemonPod>().unwrap());
    }
    // A few bytes for the brackets that are open while the parser skips what nobody reads.
    assert!(ALLOCATOR.total_allocated() - before <= 8 * events.len());
    assert_eq!((sink.version(), sink.len()), (Version::parse("1000"), 0));
}

#[test]
fn what_may_concern_this_controller_is_not_foreign() {
    let _alone = ALONE.lock().unwrap();
    for owners in [json!(null), json!([]), json!([owner("DaemonSet", true)]), json!([owner("ReplicaSet", false)])] {
        assert!(Encoded::Json(&pod(1, &owners)).foreign_head::<DaemonPod>().is_none(), "{owners}");
    }
    // The first controller counts, as everywhere else.
    let owners = [owner("Node", false), owner("DaemonSet", true), owner("ReplicaSet", true)];
    assert!(Encoded::Json(&pod(1, &json!(owners))).foreign_head::<DaemonPod>().is_none());
    for unusual in [
        r#"{"spec":{},"metadata":{"name":"a","resourceVersion":"1","ownerReferences":[{"kind":"ReplicaSet","controller":true}]}}"#,
        r#"{"kind":"Pod","metadata":{"resourceVersion":"1","ownerReferences":[{"kind":"ReplicaSet","controller":true}]}}"#,
        r#"{"kind":"Pod","metadata":{"name":"a","resourceVersion":"1","ownerReferences":{"kind":"ReplicaSet"}}}"#,
        r#"{"kind":"P\"od","metadata":null}"#,
        "null",
        "",
    ] {
        assert!(Encoded::Json(unusual).foreign_head::<DaemonPod>().is_none(), "{unusual}");
    }
}
