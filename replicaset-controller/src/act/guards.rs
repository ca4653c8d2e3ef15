//! Costs of a new Pod that must not grow: allocations for the body of the request, and its size. The recorded costs are in
//! `e2e/guards.txt`.

use allocation_counter::measure;
use common::{
    api::{EncodedBody, WireFormat},
    object::EncodedObject,
    prelude::*,
    wire::{WatchEvent, messages},
};
use sandbox::{
    guards::{Guards, Unmeasured},
    recorded,
};
use serde_json::{Value, json};

use super::body::new_pod_body;
use crate::{
    kind::{ReplicaSets, SetKind},
    objects::CachedSet,
};

/// Returns a ReplicaSet with the metadata and the spec of the recorded Pod.
fn replica_set() -> Value {
    let mut pod = recorded::object("pods", "web-0").unwrap();
    let labels = json!({"app": "web"});
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": pod["metadata"].take(),
        "spec": {"replicas": 3, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"].take()}}})
}

/// Decodes the set as its informer does.
fn decode(format: WireFormat) -> CachedSet<ReplicaSets> {
    let set = replica_set();
    if format == WireFormat::Json {
        return EncodedObject::Json(&set.to_string()).decode().unwrap();
    }
    let frame = recorded::frame(format, "ADDED", &set).unwrap();
    EncodedObject::Protobuf(WatchEvent::decode(&frame).unwrap().object.object).decode().unwrap()
}

#[test]
fn a_request_body_costs_no_more_than_recorded() {
    let mut guards = Guards::new("writes/replicaset", Unmeasured::Fails);
    for (name, format) in [("protobuf", WireFormat::Protobuf), ("json", WireFormat::Json)] {
        let set = decode(format).replica_set;
        let owner = Owner::new(ReplicaSets::RESOURCE, &set.metadata);
        let template = set.template.as_ref().unwrap();
        let mut sent = 0;
        let cost = measure(|| {
            let body = new_pod_body(&owner.name, template, owner.controller_reference());
            sent = EncodedBody::object(format, "v1", "Pod", &messages::POD, &body).unwrap().bytes.len();
        });
        let path = format!("{name}/pod");
        guards.add(&path, "allocations", cost.count_total);
        guards.add(&path, "bytes", cost.bytes_total);
        guards.add(&path, "sent", sent as u64);
    }
    let failures = guards.failures().unwrap();
    assert!(failures.is_empty(), "costs have grown:\n{}", failures.join("\n"));
}
