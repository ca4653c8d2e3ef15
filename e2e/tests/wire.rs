//! Objects of a real API server, in JSON and in protobuf: every projection reads the same of both.
//!
//! `goldens/protobuf.jsonl` has the answers: lists and watches of the same objects in both formats, in one line each. The
//! answers in `goldens/kinds.jsonl` are JSON, and are encoded by the sandbox.

mod replacements;

use std::fmt::Debug;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use common::{
    api::WireFormat,
    head::ObjectHead,
    meta::{MapEdits, Meta, MetadataReplacement, ReplaceableMeta},
    object::{EncodedObject, Object, Resource},
    wire::{EncodedList, Envelope, RawFields, RawMessage, WatchEvent, WithUndeclared, decode_message, encode_object},
};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::projections::table::{self, Row, Visitor};

/// One recorded answer in both formats.
struct Recorded {
    what: String,
    path: String,
    json: Value,
    protobuf: Vec<u8>,
}

fn recorded() -> Vec<Recorded> {
    let lines = include_str!("../goldens/protobuf.jsonl").lines();
    let read = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let text = |field: &str| line[field].as_str().unwrap().to_owned();
        let (what, path) = (text("what"), text("path"));
        let expected = if what == "watch" {
            "application/vnd.kubernetes.protobuf;stream=watch"
        } else {
            "application/vnd.kubernetes.protobuf"
        };
        assert_eq!(line["content_type"], expected);
        let protobuf = STANDARD.decode(line["protobuf"].as_str().unwrap()).unwrap();
        Recorded { what, path, json: line["json"].take(), protobuf }
    };
    lines.map(read).collect()
}

/// The objects of a resource as a server sends them, each as JSON and as a protobuf message: those of a recorded list, and
/// recorded answers that are encoded here.
fn objects(resource: &Resource) -> Vec<(String, Vec<u8>)> {
    let listed = listed_objects(resource.plural());
    let encoded = answers().filter(|answer| answer["kind"] == resource.kind()).filter_map(|answer| {
        let frame = sandbox::protobuf::write_event("ADDED", &answer).ok()?;
        Some((as_sent(&answer), WatchEvent::decode(&frame).unwrap().object.object.to_vec()))
    });
    let pairs: Vec<_> = listed.into_iter().chain(encoded).collect();
    assert!(pairs.len() > 1, "{resource}");
    pairs
}

/// The objects in the recorded answers of a server, in JSON.
fn answers() -> impl Iterator<Item = Value> {
    let answer = |line: &str| serde_json::from_str::<Value>(line).unwrap()["response"]["body"].take();
    include_str!("../goldens/kinds.jsonl").lines().map(answer).filter(|answer| answer["metadata"]["uid"].is_string())
}

/// The objects of a recorded list; none if the resource was not listed.
fn listed_objects(plural: &str) -> Vec<(String, Vec<u8>)> {
    let is_wanted = |list: &Recorded| list.what == "list" && list.path.ends_with(&format!("/{plural}"));
    let Some(list) = recorded().into_iter().find(is_wanted) else { return Vec::new() };
    let mut messages = EncodedList::read(&list.protobuf).unwrap();
    let items = list.json["items"].as_array().unwrap();
    let pairs: Vec<_> =
        items.iter().map(|item| (as_sent(item), messages.next_item().unwrap().unwrap().to_vec())).collect();
    assert!(messages.next_item().unwrap().is_none());
    pairs
}

/// An object as servers write it: metadata come first.
fn as_sent(object: &Value) -> String {
    let mut rest = object.as_object().unwrap().clone();
    let metadata = rest.remove("metadata").unwrap();
    let rest = Value::from(rest).to_string();
    let separator = if rest == "{}" { "" } else { "," };
    format!(r#"{{"metadata":{metadata}{separator}{}"#, &rest[1..])
}

fn same<K: Object + Debug>() {
    assert!(K::PROTOBUF_SCHEMA.is_some_and(|message| message.name.ends_with(&format!(".{}", K::RESOURCE.kind()))));
    for (json, message) in objects(&K::RESOURCE) {
        let (text, bytes) = (EncodedObject::Json(&json), EncodedObject::Protobuf(&message));
        let read = |object: EncodedObject<'_>| object.decode::<K>().unwrap_or_else(|error| panic!("{json}: {error:?}"));
        assert_eq!(format!("{:#?}", read(bytes)), format!("{:#?}", read(text)), "{json}");
        assert_eq!(
            format!("{:?}", bytes.head_if_filtered_out::<K>()),
            format!("{:?}", text.head_if_filtered_out::<K>()),
            "{json}"
        );
        assert_eq!(
            format!("{:?}", bytes.decode_metadata::<ObjectHead<'_>>()),
            format!("{:?}", text.decode_metadata::<ObjectHead<'_>>())
        );
    }
}

/// Compares the projections that are read from both formats.
struct BothFormats;

impl Visitor for BothFormats {
    fn visit<P: Object + Debug>(&mut self, row: Row) {
        if row.is_protobuf {
            same::<P>();
        }
    }
}

/// COMMON-8.
#[test]
fn each_projection_reads_the_same_of_both_formats() {
    table::visit(&mut BothFormats);
}

/// COMMON-8.
#[test]
fn metadata_of_any_kind_read_the_same() {
    for list in recorded().iter().filter(|list| matches!(&*list.what, "list" | "metadata")) {
        let mut messages = EncodedList::read(&list.protobuf).unwrap();
        assert_eq!(messages.kind, list.json["kind"]);
        for item in list.json["items"].as_array().unwrap() {
            let json = item.to_string();
            let message = messages.next_item().unwrap().unwrap();
            let read = |object: EncodedObject<'_>| object.decode_metadata::<Meta>().unwrap();
            assert_eq!(read(EncodedObject::Protobuf(message)), read(EncodedObject::Json(&json)), "{json}");
        }
    }
}

/// The frames of a recorded watch.
fn frames(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        frames.push(frame);
        bytes = rest;
    }
    assert!(bytes.is_empty());
    frames
}

/// COMMON-8.
#[test]
fn watches_bring_the_same_events() {
    let mut seen = 0;
    for watch in recorded().iter().filter(|watch| watch.what == "watch" && watch.json.is_array()) {
        let frames = frames(&watch.protobuf);
        let lines = watch.json.as_array().unwrap();
        assert_eq!(frames.len(), lines.len());
        for (frame, line) in frames.iter().zip(lines) {
            let event = WatchEvent::decode(frame).unwrap();
            let json = line["object"].to_string();
            assert_eq!(
                (event.event_type, event.object.kind),
                (line["type"].as_str().unwrap(), line["object"]["kind"].as_str().unwrap())
            );
            let read = |object: EncodedObject<'_>| object.decode_metadata::<Meta>().unwrap();
            assert_eq!(read(EncodedObject::Protobuf(event.object.object)), read(EncodedObject::Json(&json)));
            seen += 1;
        }
    }
    assert!(seen > 5);
}

#[test]
fn failures_are_envelopes_of_a_status() {
    let failures: Vec<_> = recorded().into_iter().filter(|answer| answer.what == "status").collect();
    assert!(!failures.is_empty());
    for failure in failures {
        assert_eq!(Envelope::decode(&failure.protobuf).unwrap().kind, "Status");
    }
    let expired = recorded().into_iter().find(|watch| watch.path == "expired").unwrap();
    let [frame] = &*frames(&expired.protobuf) else { panic!("one event") };
    let event = WatchEvent::decode(frame).unwrap();
    assert_eq!((event.event_type, event.object.api_version, event.object.kind), ("ERROR", "v1", "Status"));
}

/// An object with these owners, finalizers and phase.
fn object(owners: &[(&str, Option<bool>)], finalizers: &[&str], phase: &str) -> Value {
    let owner = |(kind, controller): &(&str, Option<bool>)| {
        let mut owner = json!({"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u"});
        if let Some(controller) = controller {
            owner["controller"] = json!(controller);
        }
        owner
    };
    let owners: Vec<Value> = owners.iter().map(owner).collect();
    let metadata = json!({"name": "p", "namespace": "n", "resourceVersion": "7", "ownerReferences": owners,
        "finalizers": finalizers, "labels": {"controller-revision-hash": "x"}});
    json!({"metadata": metadata, "status": {"phase": phase}, "data": {}})
}

/// An object that cannot concern a controller, as its head says, is never kept, in either format.
fn agree<K: Object>(object: &Value) {
    let mut object = object.clone();
    let resource = K::RESOURCE;
    let kind = resource.kind();
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(kind);
    let unwanted = if kind == "ControllerRevision" { "status" } else { "data" };
    object.as_object_mut().unwrap().remove(unwanted);
    if kind == "Job" {
        object["status"] = json!({});
    }
    let frame = sandbox::protobuf::write_event("ADDED", &object).unwrap();
    let message = WatchEvent::decode(&frame).unwrap().object.object;
    // Servers write metadata after kind and version.
    let json = format!(
        r#"{{"kind":"{kind}","metadata":{},"status":{},"data":{}}}"#,
        object["metadata"], object["status"], object["data"]
    );
    let name = std::any::type_name::<K>();
    let [of_json, of_protobuf] = [EncodedObject::Json(&json), EncodedObject::Protobuf(message)].map(|encoded| {
        let is_foreign = encoded.head_if_filtered_out::<K>().is_some();
        let is_kept = encoded.decode::<K>().unwrap_or_else(|error| panic!("{name}: {error:?}: {json}")).is_cached();
        assert!(!(is_foreign && is_kept), "{name}: {json}");
        (is_foreign, is_kept)
    });
    assert_eq!(of_json, of_protobuf, "{name}: {json}");
}

proptest! {
    #[test]
    fn what_cannot_concern_a_controller_is_never_kept(
        owners in prop::collection::vec((
            prop::sample::select(vec!["ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "CronJob", "Node", ""]),
            prop::sample::select(vec![None, Some(true), Some(false)]),
        ), 0..4),
        finalizers in prop::sample::subsequence(vec!["a", "batch.kubernetes.io/job-tracking", "b", "foregroundDeletion"], 0..4),
        phase in prop::sample::select(vec!["Pending", "Running", "Succeeded", "Failed", ""]),
    ) {
        let object = object(&owners, &finalizers, phase);
        table::visit(&mut Agree(object));
    }
}

/// Compares the projections of which some objects do not concern the controller.
struct Agree(Value);

impl Visitor for Agree {
    fn visit<P: Object + Debug>(&mut self, row: Row) {
        if row.guards.is_some_and(|guards| guards.foreign_owner.is_some()) {
            agree::<P>(&self.0);
        }
    }
}

/// Reads bytes as whatever they may be.
struct ReadAnyhow(Vec<u8>);

impl Visitor for ReadAnyhow {
    fn visit<P: Object + Debug>(&mut self, row: Row) {
        let _ = EncodedObject::Protobuf(&self.0).decode::<P>();
        if let Ok(event) = WatchEvent::decode(&self.0)
            && row.is_protobuf
        {
            let _ = EncodedObject::Protobuf(event.object.object).decode::<P>();
            let _ = EncodedObject::Protobuf(event.object.object).head_if_filtered_out::<P>();
        }
    }
}

proptest! {
    #[test]
    fn damaged_objects_cost_no_panic(list in 0usize..9, cut in any::<prop::sample::Index>(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)) {
        let plurals = ["pods", "nodes", "leases", "services", "endpoints", "endpointslices", "controllerrevisions", "jobs", "persistentvolumeclaims"];
        for (_, mut message) in listed_objects(plurals[list]) {
            for (at, bits) in &flips {
                let at = at.index(message.len());
                message[at] ^= bits;
            }
            message.truncate(cut.index(message.len() + 1));
            table::visit(&mut ReadAnyhow(message));
        }
    }
}

/// An object that is replaced without decoding more than its metadata.
#[derive(Debug, Deserialize)]
struct Received {
    metadata: ReplaceableMeta,
}

/// Sends an object back with one annotation more.
#[derive(Serialize)]
struct Replacement<'a> {
    metadata: MetadataReplacement<'a>,
    #[serde(flatten)]
    rest: RawFields<'a>,
}

impl<'a> Replacement<'a> {
    fn new(object: &'a WithUndeclared<Received>) -> Self {
        let annotations = MapEdits::from([("example.com/edited", Some("yes"))]);
        let metadata = object.metadata.replacement().with_annotation_edits(annotations);
        Self { metadata, rest: object.undeclared.fields() }
    }
}

/// Adds the annotation and removes `managedFields`, as [`Replacement`] does.
fn edit(object: &mut Value) {
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    object["metadata"]["annotations"]["example.com/edited"] = json!("yes");
}

/// Replaces the objects of a kind in both formats.
struct Replace;

impl Visitor for Replace {
    fn visit<P: Object + Debug>(&mut self, _: Row) {
        let Some(schema) = P::PROTOBUF_SCHEMA else { return };
        let resource = P::RESOURCE;
        let (api_version, kind) = (resource.api_version(), resource.kind());
        let envelope =
            |object: &WithUndeclared<Received>| encode_object(&api_version, kind, schema, &Replacement::new(object));
        for (json, message) in objects(&P::RESOURCE) {
            // An object that was sent back as received, except for the edit.
            let object = decode_message::<WithUndeclared<Received>>(schema, &message).unwrap();
            let replaced = sandbox::protobuf::parse(&envelope(&object).unwrap()).unwrap();
            let whole =
                encode_object(&api_version, kind, schema, &decode_message::<RawMessage>(schema, &message).unwrap());
            let mut expected = sandbox::protobuf::parse(&whole.unwrap()).unwrap();
            edit(&mut expected);
            assert_eq!(replaced, expected, "{json}");

            let object: WithUndeclared<Received> = serde_json::from_str(&json).unwrap();
            let mut expected: Value = serde_json::from_str(&json).unwrap();
            edit(&mut expected);
            assert_eq!(serde_json::to_value(Replacement::new(&object)).unwrap(), expected);
        }
    }
}

/// COMMON-95.
#[test]
fn a_replaced_object_differs_in_its_edits_only() {
    table::visit(&mut Replace);
}

#[test]
fn the_media_types_are_those_that_the_server_names() {
    assert_eq!(WireFormat::from_media_type("application/vnd.kubernetes.protobuf"), Some(WireFormat::Protobuf));
    assert_eq!(WireFormat::from_media_type("application/json"), Some(WireFormat::Json));
    assert_eq!(WireFormat::from_media_type("text/plain"), None);
}
