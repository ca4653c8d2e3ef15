//! Costs of the requests of a sync that must not grow: allocations for a body, and its size. The recorded costs are in
//! `e2e/guards.txt`.

use allocation_counter::measure;
use common::{
    api::{EncodedBody, WireFormat},
    io::StatusReplacement,
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
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"].take()}},
        "status": {"replicas": 2}})
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
    let mut add = |path: &str, encode: &dyn Fn() -> EncodedBody| {
        let mut sent = 0;
        let cost = measure(|| sent = encode().bytes.len());
        guards.add(path, "allocations", cost.count_total);
        guards.add(path, "bytes", cost.bytes_total);
        guards.add(path, "sent", sent as u64);
    };
    for (name, format) in [("protobuf", WireFormat::Protobuf), ("json", WireFormat::Json)] {
        let set = decode(format).replica_set;
        let owner = Owner::new(ReplicaSets::RESOURCE, &set.metadata);
        let template = set.template.as_ref().unwrap();
        add(&format!("{name}/pod"), &|| {
            let body = new_pod_body(&owner.name, template, owner.controller_reference());
            EncodedBody::object(format, "v1", "Pod", &messages::POD, &body).unwrap()
        });
        add(&format!("{name}/status"), &|| {
            let (resource, schema) = (ReplicaSets::RESOURCE, ReplicaSets::PROTOBUF_SCHEMA);
            let metadata = set.metadata.replacement();
            let body = StatusReplacement::new(&resource, metadata, &set.status.declared, &set.status.undeclared);
            EncodedBody::object(format, &resource.api_version(), resource.kind(), schema, &body).unwrap()
        });
    }
    let failures = guards.failures().unwrap();
    assert!(failures.is_empty(), "costs have grown:\n{}", failures.join("\n"));
}
