//! Bodies and raw parts are read back as they were written, in both formats. A body that cannot be written is an error.

use std::collections::BTreeMap;

use serde::Serialize;

use super::*;
use crate::meta::ReplaceableMeta;

#[test]
fn each_type_is_written_so_that_it_reads_the_same() {
    let pod = json!({
        "metadata": {"name": "web-0", "creationTimestamp": "2025-11-21T09:50:29Z", "labels": {"a": "", "b": "c"},
            "annotations": {"long": "x".repeat(20_000)}, "generation": 3, "finalizers": ["a", "b"],
            "ownerReferences": [{"kind": "Node", "name": "n", "uid": "u", "apiVersion": "v1", "controller": false}],
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}]},
        "spec": {"terminationGracePeriodSeconds": -1, "hostNetwork": true, "overhead": {"cpu": "250m"},
            "containers": [{"name": "c", "command": ["a", ""], "ports": [{"containerPort": 80}]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "p"}}, {"name": "w"}]},
        "status": {},
    });
    let lease = json!({"metadata": {},
        "spec": {"renewTime": "2025-11-21T09:50:29.123456Z", "leaseTransitions": 0}});
    let service = json!({"metadata": {}, "spec": {"ports": [
        {"port": 1, "targetPort": "http"}, {"port": 2, "targetPort": 80, "appProtocol": ""}]}});
    let revision = json!({"metadata": {}, "data": {"spec": [1.5, null]}, "revision": 7});
    for (message, body) in [
        (&messages::POD, pod),
        (&messages::LEASE, lease),
        (&messages::SERVICE, service),
        (&messages::CONTROLLER_REVISION, revision),
    ] {
        let written = encode_message(message, &body).unwrap();
        assert_eq!(decode_message::<Value>(message, &written).unwrap(), body);
        let object = encode_object("v1", "Pod", message, &body).unwrap();
        let envelope = Envelope::decode(&object).unwrap();
        assert_eq!((envelope.api_version, envelope.kind, envelope.object), ("v1", "Pod", &*written));
    }
    assert_eq!(encode_message(&messages::POD, &json!({"spec": {"nodeName": null, "volumes": []}})).unwrap(), b"\x12\0");
}

#[test]
fn what_the_schema_does_not_describe_cannot_be_written() {
    for (body, why) in [
        (json!({"spec": {"nodename": "n"}}), "core/v1.PodSpec has no field nodename"),
        (json!({"status": {"hostIPs": {"a": 1}}}), "the schema does not describe the field hostIPs"),
        (json!({"spec": {"nodeName": 1}}), "the field nodeName cannot have a number as its value"),
        (json!({"spec": {"nodeName": ["n"]}}), "the field nodeName cannot have a list as its value"),
        (json!({"spec": {"containers": {}}}), "the field containers cannot have an object as its value"),
        (json!({"spec": {"containers": [null]}}), "the list containers contains null"),
        (json!({"spec": {"hostNetwork": "true"}}), "the field hostNetwork cannot have a text as its value"),
        (json!({"spec": {"priority": 1.5}}), "the field priority cannot have a fraction as its value"),
        (json!({"spec": {"priority": u64::MAX}}), "the field priority cannot have so large a number as its value"),
        (json!({"metadata": {"creationTimestamp": "yesterday"}}), "creationTimestamp: "),
        (json!({"metadata": {"labels": {"a": 1}}}), "the field labels cannot have a number as its value"),
        (json!({"apiVersion": "v2"}), "apiVersion must be v1"),
    ] {
        let error = encode_object("v1", "Pod", &messages::POD, &body).unwrap_err().to_string();
        assert!(error.starts_with(why), "{error}: {why}");
    }
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i32>,
}

/// A projection with every kind of raw part.
#[derive(Debug, Deserialize)]
struct Received {
    metadata: ReplaceableMeta,
    spec: WithUndeclared<Spec>,
    status: RawMessage,
}

#[derive(Serialize)]
struct Replacement<'a> {
    metadata: crate::meta::MetadataReplacement<'a>,
    spec: WithUndeclared<Spec>,
    status: &'a RawMessage,
}

/// Assigns the Pod to another node, and edits its metadata.
fn replacement(received: &Received) -> Replacement<'_> {
    let metadata = received.metadata.replacement();
    let metadata = metadata
        .with_resource_version(crate::meta::ResourceVersion::parse("300"))
        .with_label_edits(BTreeMap::from([("app", None), ("new", Some("\"x\""))]))
        .with_annotation_edits(BTreeMap::from([("a", Some("b"))]));
    let spec = Spec { node_name: "node-2".to_owned(), priority: received.spec.priority };
    let spec = WithUndeclared { declared: spec, undeclared: received.spec.undeclared.clone() };
    Replacement { metadata, spec, status: &received.status }
}

/// Returns a Pod with fields that this version does not know, in all parts.
fn newer_pod() -> Vec<u8> {
    let metadata = [text(1, "web-0"), text(6, "208"), pair(11, "app", "web"), pair(11, "tier", "front")].concat();
    let managed = message(17, &[text(1, "m"), text(2, "Update")]);
    let metadata = message(1, &[metadata, text(77, "new"), managed, number(78, 1)]);
    let spec = message(2, &[text(99, "new"), text(10, "node-1"), text(16, "h"), number(100, 7)]);
    [metadata, spec, message(3, &[text(1, "Running"), text(99, "new")])].concat()
}

#[test]
fn a_replacement_differs_in_nothing_but_its_edits() {
    let newer = newer_pod();
    let received: Received = decode_message(&messages::POD, &newer).unwrap();
    assert_eq!((&*received.metadata.name, &*received.spec.node_name), ("web-0", "node-1"));
    let metadata = [
        [text(1, "web-0"), text(77, "new"), number(78, 1)].concat(),
        [pair(11, "new", "\"x\""), pair(11, "tier", "front"), pair(12, "a", "b"), text(6, "300")].concat(),
    ];
    let spec = message(2, &[text(10, "node-2"), text(99, "new"), text(16, "h"), number(100, 7)]);
    let status = message(3, &[text(1, "Running"), text(99, "new")]);
    let expected = [message(1, &metadata), spec, status].concat();
    assert_eq!(encode_message(&messages::POD, &replacement(&received)).unwrap(), expected);
    let error = serde_json::to_string(&replacement(&received)).unwrap_err();
    assert_eq!(error.to_string(), "a part that was received in protobuf cannot be sent in JSON");

    let json = json!({"kind": "Pod", "metadata": {"name": "web-0", "resourceVersion": "208", "new": [1e30],
            "labels": {"app": "web", "tier": "\"front\""}, "managedFields": [{"manager": "m"}]},
        "spec": {"nodeName": "node-1", "priority": 3, "new": {"a": null}}, "status": {"new": 1}});
    let expected = json!({"metadata": {"name": "web-0", "resourceVersion": "300", "new": [1e30],
            "labels": {"new": "\"x\"", "tier": "\"front\""}, "annotations": {"a": "b"}},
        "spec": {"nodeName": "node-2", "priority": 3, "new": {"a": null}}, "status": {"new": 1}});
    for received in [serde_json::from_str(&json.to_string()), serde_json::from_value(json)] {
        let received: Received = received.unwrap();
        assert_eq!(serde_json::to_value(replacement(&received)).unwrap(), expected);
        let error = encode_message(&messages::POD, &replacement(&received)).unwrap_err();
        assert!(matches!(error, Error::JsonText), "{error}");
    }
}

#[test]
fn a_version_can_be_replaced_in_an_encoded_object() {
    let body = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"nodeName": "n"}});
    let object = encode_object("v1", "Pod", &messages::POD, &body).unwrap();
    let newer = Envelope::decode(&object).unwrap().with_resource_version("2").unwrap();
    let newer = Envelope::decode(&newer).unwrap();
    let pod = read_pod(newer.object).unwrap();
    assert_eq!((&*pod.meta.name, pod.meta.resource_version.to_u64(), newer.kind), ("a", 2, "Pod"));
    assert!(decode_message::<Value>(&messages::POD, newer.object).unwrap()["spec"]["nodeName"] == "n");
}

proptest! {
    #[test]
    fn raw_parts_of_damaged_objects_cause_no_panic(cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(), bits in any::<u8>()) {
        let mut damaged = newer_pod();
        let at = flip.index(damaged.len());
        damaged[at] ^= bits;
        damaged.truncate(cut.index(damaged.len() + 1));
        if let Ok(received) = decode_message::<Received>(&messages::POD, &damaged) {
            let replaced = encode_message(&messages::POD, &replacement(&received)).unwrap();
            let replaced: Received = decode_message(&messages::POD, &replaced).unwrap();
            prop_assert_eq!(&replaced.metadata.name, &received.metadata.name);
            prop_assert_eq!(replaced.status, received.status);
        }
        let _ = Envelope { api_version: "v1", kind: "Pod", object: &damaged }.with_resource_version("2");
    }
}
