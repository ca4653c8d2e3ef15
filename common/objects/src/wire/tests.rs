//! Tests with messages built by hand: the JSON form of each type, and errors for invalid messages.

mod writes;

use jiff::Timestamp;
use proptest::prelude::*;
use prost::encoding::{WireType, encode_key, encode_varint};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{messages, *};
use crate::{
    head::ObjectHead,
    intstr::IntOrString,
    json::RawJson,
    meta::Meta,
    object::EncodedObject,
    pods::{Phase, Pod},
};

pub(crate) fn number(field: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key(field, WireType::Varint, &mut out);
    encode_varint(value, &mut out);
    out
}

pub(crate) fn bytes(field: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key(field, WireType::LengthDelimited, &mut out);
    encode_varint(value.len() as u64, &mut out);
    out.extend_from_slice(value);
    out
}

pub(crate) fn text(field: u32, value: &str) -> Vec<u8> {
    bytes(field, value.as_bytes())
}

pub(crate) fn message(field: u32, parts: &[Vec<u8>]) -> Vec<u8> {
    bytes(field, &parts.concat())
}

pub(crate) fn pair(field: u32, key: &str, value: &str) -> Vec<u8> {
    message(field, &[text(1, key), text(2, value)])
}

fn owner(kind: &str, controller: bool) -> Vec<u8> {
    message(13, &[text(1, kind), text(3, "o"), text(4, "u"), text(5, "apps/v1"), number(6, controller.into())])
}

/// Returns an encoded Pod as a server sends it, with the empty strings that a server writes.
fn pod() -> Vec<u8> {
    let metadata = message(
        1,
        &[
            text(1, "web-0"),
            text(2, ""),
            text(3, "shop"),
            text(4, ""),
            text(5, "2ff731ae-b0d1-491c-a286-da4a1c1a8b15"),
            text(6, "208"),
            number(7, 0),
            message(8, &[number(1, 1_763_718_629), number(2, 0)]),
            pair(11, "tier", "front"),
            pair(11, "app", "web"),
            owner("Node", false),
            owner("ReplicaSet", true),
            text(14, "example.com/a"),
        ],
    );
    let spec = message(2, &[text(3, ""), text(10, "node-1")]);
    let ready =
        message(2, &[text(1, "Ready"), text(2, "True"), message(3, &[]), message(4, &[number(1, 1_763_718_629)])]);
    let status = message(3, &[text(1, "Running"), ready, message(8, &[text(1, "app"), number(4, 1), number(5, 3)])]);
    [metadata, spec, status].concat()
}

fn read_pod(bytes: &[u8]) -> Result<Pod, Error> {
    decode_message(&messages::POD, bytes)
}

#[test]
fn a_pod_is_read_as_from_its_json() {
    let owner = |kind: &str, controller: bool| json!({"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": controller});
    let json = json!({
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "2ff731ae-b0d1-491c-a286-da4a1c1a8b15", "resourceVersion": "208",
            "creationTimestamp": "2025-11-21T09:50:29Z", "labels": {"app": "web", "tier": "front"},
            "ownerReferences": [owner("Node", false), owner("ReplicaSet", true)], "finalizers": ["example.com/a"]},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2025-11-21T09:50:29Z"}],
            "containerStatuses": [{"name": "app", "ready": true, "restartCount": 3}]},
    });
    assert_eq!(read_pod(&pod()).unwrap(), serde_json::from_value(json).unwrap());
}

#[test]
fn a_head_is_read_before_the_rest() {
    let pod = pod();
    let head: ObjectHead<'_> = EncodedObject::Protobuf(&pod).decode_metadata().unwrap();
    assert_eq!((head.namespace(), head.name(), head.resource_version().to_u64()), ("shop", "web-0", 208));
    assert_eq!(head.controller_kind(), Some("ReplicaSet"));
    assert!(head.has_finalizer("example.com/a") && !head.has_finalizer("example.com/b") && !head.is_deleting());
    let deleting = message(1, &[text(1, "a"), message(9, &[number(1, 1)])]);
    assert!(EncodedObject::Protobuf(&deleting).decode_metadata::<ObjectHead<'_>>().unwrap().is_deleting());
}

#[test]
fn a_field_of_a_newer_server_is_skipped() {
    let mut newer = pod();
    newer.extend(text(99, "new"));
    newer.extend(number(100, 7));
    let mut fixed = Vec::new();
    encode_key(101, WireType::SixtyFourBit, &mut fixed);
    fixed.extend_from_slice(&[0; 8]);
    newer.extend(fixed);
    assert_eq!(read_pod(&newer).unwrap(), read_pod(&pod()).unwrap());
}

#[test]
fn each_type_is_read_as_in_json() {
    #[derive(Debug, Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Entry {
        name: String,
        port: Option<i32>,
        target_port: Option<IntOrString>,
        app_protocol: Option<String>,
    }
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Spec {
        ports: Vec<Entry>,
        selector: std::collections::BTreeMap<String, String>,
    }
    #[derive(Debug, Deserialize)]
    struct Service {
        spec: Spec,
    }
    let port = |parts: &[Vec<u8>]| message(1, parts);
    let negative = number(3, (-5i64).cast_unsigned());
    let spec = [
        port(&[text(1, ""), negative, message(4, &[number(1, 1), text(3, "http")])]),
        port(&[text(1, "b"), number(3, 0), message(4, &[number(1, 0), number(2, 80)]), text(6, "")]),
        pair(2, "app", ""),
        pair(2, "b", "c"),
    ];
    let service: Service = decode_message(&messages::SERVICE, &message(2, &spec)).unwrap();
    let [a, b] = &*service.spec.ports else { panic!("two ports") };
    assert_eq!((&*a.name, a.port, a.target_port.clone()), ("", Some(-5), Some(IntOrString::Text("http".into()))));
    assert_eq!((&*b.name, b.port, b.target_port.clone()), ("b", Some(0), Some(IntOrString::Int(80))));
    assert_eq!((&a.app_protocol, b.app_protocol.as_deref()), (&None, Some("")), "an optional text may be empty");
    assert_eq!(service.spec.selector.len(), 2);

    #[derive(Deserialize)]
    struct Revision {
        data: RawJson,
        revision: Option<i64>,
    }
    let revision = |json: &str| [message(2, &[text(1, json)]), number(3, 7)].concat();
    let read_revision = |json: &str| {
        decode_message::<Revision>(&messages::CONTROLLER_REVISION, &revision(json))
            .map(|r| (r.data.text().to_owned(), r.revision))
    };
    assert_eq!(read_revision("{ \"a\": 1 }").unwrap(), ("{ \"a\": 1 }".to_owned(), Some(7)));
    assert_eq!(read_revision("").unwrap().0, "null");
    assert!(read_revision("{").is_err());

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct LeaseSpec {
        renew_time: Option<Timestamp>,
        acquire_time: Option<Timestamp>,
    }
    #[derive(Deserialize)]
    struct Lease {
        spec: LeaseSpec,
    }
    let spec = message(2, &[message(3, &[]), message(4, &[number(1, 1_763_718_629), number(2, 1000)])]);
    let lease: Lease = decode_message(&messages::LEASE, &spec).unwrap();
    assert_eq!(lease.spec.acquire_time, None, "an empty time is null");
    assert_eq!(lease.spec.renew_time.unwrap().to_string(), "2025-11-21T09:50:29.000001Z");
}

#[test]
fn fields_of_an_inlined_message_belong_to_the_outer_object() {
    #[derive(Deserialize)]
    struct PodWithVolumes {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        volumes: Vec<Volume>,
        #[serde(rename = "nodeName")]
        node: String,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Volume {
        name: String,
        persistent_volume_claim: Option<Claim>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Claim {
        claim_name: String,
    }
    let volume = |name: &str, source: Vec<u8>| message(1, &[text(1, name), bytes(2, &source)]);
    let claim = message(10, &[text(1, "data-0"), number(2, 0)]);
    let spec = message(2, &[volume("data", claim), volume("tmp", message(2, &[])), text(10, "n")]);
    let pod: PodWithVolumes = decode_message(&messages::POD, &spec).unwrap();
    let volumes: Vec<_> = pod
        .spec
        .volumes
        .iter()
        .map(|v| (&*v.name, v.persistent_volume_claim.as_ref().map(|c| &*c.claim_name)))
        .collect();
    assert_eq!((volumes, &*pod.spec.node), (vec![("data", Some("data-0")), ("tmp", None)], "n"));
}

#[test]
fn a_field_that_the_schema_does_not_describe_cannot_be_read() {
    #[derive(Debug, Deserialize)]
    struct PodWithHostIps {
        #[serde(rename = "status")]
        _status: Status,
    }
    #[derive(Debug, Deserialize)]
    struct Status {
        #[serde(rename = "hostIPs")]
        _host_ips: Option<Value>,
    }
    let error =
        decode_message::<PodWithHostIps>(&messages::POD, &message(3, &[message(16, &[text(1, "a")])])).unwrap_err();
    assert_eq!(error.to_string(), "the schema does not describe the field hostIPs");
}

#[test]
fn invalid_messages_are_errors() {
    let group = |field: u32| {
        let mut out = Vec::new();
        encode_key(field, WireType::StartGroup, &mut out);
        out
    };
    let whole = pod();
    for (wrong, why) in [
        (whole[..whole.len() - 1].to_vec(), "the message ends in the middle of a field"),
        (number(1, 7), "bytes are expected, not a number"),
        (message(1, &[number(1, 7)]), "bytes are expected, not a number"),
        (message(1, &[bytes(1, b"\xff")]), "not UTF-8"),
        (message(1, &[number(3, 0)]), "bytes are expected, not a number"),
        (message(1, &[bytes(7, b"")]), "a number is expected, not bytes"),
        (message(1, &[message(8, &[number(1, u64::MAX >> 1)])]), "not in the required range"),
        (message(1, &[message(8, &[number(2, u64::MAX >> 1)])]), "nanoseconds"),
        (group(7), "a group"),
        (vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], "varint"),
        (
            [message(3, &[message(8, &[number(5, 1)]), text(1, "Running"), message(8, &[number(5, 2)])])].concat(),
            "duplicate field",
        ),
    ] {
        let error = read_pod(&wrong).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}: {why}");
    }
}

#[test]
fn an_envelope_names_its_kind_and_its_object_is_encoded_once() {
    let envelope = |parts: &[Vec<u8>]| [b"k8s\0".to_vec(), parts.concat()].concat();
    let of = message(1, &[text(1, "v1"), text(2, "Pod")]);
    let whole = envelope(&[of.clone(), bytes(2, &pod()), text(3, ""), text(4, "")]);
    let read = Envelope::decode(&whole).unwrap();
    assert_eq!((read.kind, read.object), ("Pod", &*pod()));
    let error = |body: &[u8]| Envelope::decode(body).unwrap_err().to_string();
    assert_eq!(error(b"{}"), "the body has no protobuf envelope");
    assert_eq!(error(&envelope(&[of.clone(), text(3, "gzip")])), "the object is compressed");
    assert_eq!(error(&envelope(&[of, text(4, "application/json")])), "the object is not encoded as protobuf");
    let event = [text(1, "ADDED"), message(2, &[bytes(1, &whole)])].concat();
    let read = WatchEvent::decode(&event).unwrap();
    assert_eq!((read.event_type, read.object.kind), ("ADDED", "Pod"));
    assert_eq!(WatchEvent::decode(&text(1, "ADDED")).unwrap_err().to_string(), "the frame is not a watch event");
}

#[test]
fn fields_are_ordered_by_number_and_have_distinct_names() {
    fn check(message: &'static MessageSchema) {
        assert!(message.fields.is_sorted_by_key(|field| field.number), "{}", message.name);
        for (at, field) in message.fields.iter().enumerate() {
            assert!(
                message.fields[..at].iter().all(|other| other.name != field.name),
                "{} {}",
                message.name,
                field.name
            );
            assert!(std::ptr::eq(message.field(field.number).unwrap(), field));
            if let ValueType::Object(inner) = field.value_type {
                check(inner);
            }
        }
        assert!(message.field(0).is_none() && message.field(u32::MAX).is_none());
    }
    for message in [&messages::POD, &messages::NODE, &messages::LEASE, &messages::SERVICE, &messages::ENDPOINTS] {
        check(message);
    }
    for message in [
        &messages::ENDPOINT_SLICE,
        &messages::CONTROLLER_REVISION,
        &messages::JOB,
        &messages::STATUS,
        &messages::LIST_META,
    ] {
        check(message);
    }
    for message in [
        &messages::PERSISTENT_VOLUME_CLAIM,
        &messages::REPLICA_SET,
        &messages::REPLICATION_CONTROLLER,
        &messages::DEPLOYMENT,
        &messages::STATEFUL_SET,
        &messages::DAEMON_SET,
        &messages::EVENT,
        &messages::DELETE_OPTIONS,
    ] {
        check(message);
    }
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(random in prop::collection::vec(any::<u8>(), 0..300), cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(), bits in 1u8..) {
        let mut damaged = pod();
        let at = flip.index(damaged.len());
        damaged[at] ^= bits;
        damaged.truncate(cut.index(damaged.len() + 1));
        for bytes in [&random, &damaged] {
            let _ = read_pod(bytes);
            let _ = decode_message::<Meta>(&messages::OBJECT_META, bytes);
            let _ = decode_message::<Value>(&messages::STATUS, bytes);
            let _ = Envelope::decode(bytes);
            let _ = WatchEvent::decode(bytes);
            let _ = EncodedList::read(bytes);
        }
    }

    /// A truncated object is an error or an object with fewer fields, never an object with other values.
    #[test]
    fn a_truncated_pod_is_never_another_pod(cut in any::<prop::sample::Index>()) {
        let whole = pod();
        let length = cut.index(whole.len());
        if let Ok(read) = EncodedObject::Protobuf(&whole[..length]).decode::<Pod>() {
            let full = read_pod(&whole).unwrap();
            prop_assert_eq!(&read.meta.name, &full.meta.name);
            prop_assert!(read.phase == full.phase || read.phase == Phase::Other);
        }
    }
}
