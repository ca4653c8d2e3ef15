//! What a replacement contains, and what it costs.

use std::sync::Arc;

use allocation_counter::measure;
use common::{
    api::{EncodedBody, WireFormat},
    object::EncodedObject,
    wire::{Envelope, decode_message, encode_object},
};
use sandbox::guards::{Guards, Unmeasured};
use serde_json::{Value, json};

use super::*;
use crate::objects::{MANAGED_BY_LABEL, MANAGED_BY_SLICE_CONTROLLER, SERVICE_NAME_LABEL, TRIGGER_TIME_ANNOTATION};

/// Returns a slice with 100 endpoints, and with metadata that other clients have added.
fn slice() -> Value {
    let endpoint = |number: usize| {
        json!({"addresses": [format!("10.0.0.{number}")], "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "node-1", "zone": "a", "targetRef": {"kind": "Pod", "namespace": "shop",
                "name": format!("web-7c99d5cb8d-{number:05}"), "uid": format!("2ff731ae-b0d1-491c-a286-{number:012x}")}})
    };
    let labels = json!({SERVICE_NAME_LABEL: "web", MANAGED_BY_LABEL: MANAGED_BY_SLICE_CONTROLLER, "old": ""});
    json!({"metadata": {"name": "web-x7k2p", "generateName": "web-", "namespace": "shop", "uid": "2ff731ae-b0d1-491c-a286-da4a1c1a8b15",
            "resourceVersion": "208", "generation": 3, "labels": labels, "finalizers": ["example.com/f"],
            "annotations": {"example.com/foreign": "kept", TRIGGER_TIME_ANNOTATION: "2026-01-01T00:00:00Z"},
            "managedFields": [{"manager": "m", "operation": "Update"}]},
        "endpoints": (0..100).map(endpoint).collect::<Vec<_>>(), "addressType": "IPv4",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]})
}

fn metadata() -> SliceMetadata {
    let labels = Labels::from_pairs([(SERVICE_NAME_LABEL, "web"), (MANAGED_BY_LABEL, MANAGED_BY_SLICE_CONTROLLER)]);
    SliceMetadata { labels, trigger_time: Some("2026-02-02T00:00:00Z".to_owned()), ..SliceMetadata::default() }
}

/// Returns the draft that removes the last endpoint of a slice.
fn draft(slice: Slice) -> SliceDraft {
    let mut draft = SliceDraft::from_slice(&Arc::new(slice));
    draft.endpoints.pop();
    draft
}

fn replacement(format: WireFormat, draft: &SliceDraft, metadata: &SliceMetadata) -> EncodedBody {
    let body = SliceReplacement::new(metadata, draft.existing_slice.as_ref().unwrap(), draft);
    EncodedBody::object(format, "discovery.k8s.io/v1", "EndpointSlice", &messages::ENDPOINT_SLICE, &body).unwrap()
}

#[test]
fn a_replacement_keeps_what_others_have_written() {
    let mut expected = slice();
    expected["metadata"].as_object_mut().unwrap().remove("managedFields");
    expected["metadata"]["labels"].as_object_mut().unwrap().remove("old");
    expected["metadata"]["annotations"][TRIGGER_TIME_ANNOTATION] = json!("2026-02-02T00:00:00Z");
    expected["endpoints"].as_array_mut().unwrap().pop();

    let mut json = slice();
    (json["kind"], json["new"], json["metadata"]["new"]) = (json!("EndpointSlice"), json!([1]), json!({"a": 1}));
    let received = EncodedObject::Json(&json.to_string()).decode().unwrap();
    let sent: Value =
        serde_json::from_slice(&replacement(WireFormat::Json, &draft(received), &metadata()).bytes).unwrap();
    let mut expected_json = expected.clone();
    expected_json["apiVersion"] = json!("discovery.k8s.io/v1");
    (expected_json["kind"], expected_json["new"]) = (json["kind"].take(), json["new"].take());
    expected_json["metadata"]["new"] = json["metadata"]["new"].take();
    assert_eq!(sent, expected_json);

    let unknown = b"\xba\x06\x03new";
    let received = encode_object("", "", &messages::ENDPOINT_SLICE, &slice()).unwrap();
    let received = [Envelope::decode(&received).unwrap().object, unknown].concat();
    let received = EncodedObject::Protobuf(&received).decode().unwrap();
    let sent = replacement(WireFormat::Protobuf, &draft(received), &metadata()).bytes;
    let sent = Envelope::decode(&sent).unwrap().object;
    assert!(sent.ends_with(unknown));
    assert_eq!(decode_message::<Value>(&messages::ENDPOINT_SLICE, sent).unwrap(), expected);
}

#[test]
fn a_replacement_costs_no_more_than_recorded() {
    let mut guards = Guards::new("writes/slice-of-100", Unmeasured::Fails);
    let (metadata, received) = (metadata(), encode_object("", "", &messages::ENDPOINT_SLICE, &slice()).unwrap());
    for (name, format) in [("json", WireFormat::Json), ("protobuf", WireFormat::Protobuf)] {
        let json = slice().to_string();
        let received = match format {
            WireFormat::Json => EncodedObject::Json(&json),
            WireFormat::Protobuf => EncodedObject::Protobuf(Envelope::decode(&received).unwrap().object),
        };
        let draft = draft(received.decode().unwrap());
        let mut sent = 0;
        let cost = measure(|| sent = replacement(format, &draft, &metadata).bytes.len());
        guards.add(name, "allocations", cost.count_total);
        guards.add(name, "bytes", cost.bytes_total);
        guards.add(name, "sent", sent as u64);
    }
    let failures = guards.failures().unwrap();
    assert!(failures.is_empty(), "costs have grown:\n{}", failures.join("\n"));
}
