//! Arbitrary objects of a newer server: what a controller sends back differs from what it has received in its edits only.
//!
//! The watch of a controller brings the bytes of one object, and the controller replaces its status, or the whole object. Both
//! messages are read here field by field, without the decoder and the schemas of the product.

use std::{collections::BTreeMap, future::pending, sync::Arc};

use bytes::Bytes;
use common::{
    object::{Object, Resource},
    settings::OperatorSettings,
    wire::{Cardinality, FieldSchema, MessageSchema, ValueType, WatchEvent},
};
use e2e::{controllers, loops::Loops};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use proptest::{collection::vec, prelude::*, sample::Index};
use sandbox::{ResponseBody, Sandbox};
use serde_json::{Value, json};
use tower::{BoxError, ServiceExt as _, service_fn};

use crate::world::World;

const NAMESPACE: &str = "shop";
const NAME: &str = "web";
const UID: &str = "2ff731ae-b0d1-491c-a286-da4a1c1a8b15";

// Numbers of fields of an object, and of its metadata.
const METADATA: u32 = 1;
const SPEC: u32 = 2;
const STATUS: u32 = 3;
const LABELS: u32 = 11;
const ANNOTATIONS: u32 = 12;
const MANAGED_FIELDS: u32 = 17;
/// The time and the grace period of a deletion, which no object has here.
const DELETION: [u32; 2] = [9, 10];
/// No version of Kubernetes has fields with such numbers.
const FIRST_UNKNOWN: u32 = 1000;

type Pairs = &'static [(&'static str, &'static str)];

/// A kind of objects that a controller replaces.
struct Row {
    controller: &'static str,
    resource: Resource,
    schema: &'static MessageSchema,
    /// Whether the status is replaced, and not the whole object.
    is_status: bool,
    /// Encoded fields that are not arbitrary.
    fields: Vec<u8>,
    /// Encoded fields of the metadata that are not arbitrary.
    metadata: Vec<u8>,
    /// Fields to which the controller gives new values.
    edited: &'static [u32],
    /// The field with conditions. The types of the controller's own conditions begin with a capital letter.
    conditions: u32,
    /// The labels of the replaced object; `None` if they do not change.
    new_labels: Option<Pairs>,
    /// Annotations that the controller adds.
    new_annotations: Pairs,
}

impl Row {
    /// A kind with objects that are replaced whole.
    fn object<K: Object>(controller: &'static str, edited: &'static [u32]) -> Self {
        let created = bytes(8, &[number(1, 1_700_000_000), number(2, 0)].concat());
        let metadata = [text(1, NAME), text(3, NAMESPACE), text(5, UID), text(6, "7"), number(7, 9), created].concat();
        let (resource, schema) = (K::RESOURCE, K::PROTOBUF_SCHEMA.unwrap());
        let (fields, is_status, conditions, new_labels) = (Vec::new(), false, 0, None);
        Self {
            controller,
            resource,
            schema,
            is_status,
            fields,
            metadata,
            edited,
            conditions,
            new_labels,
            new_annotations: &[],
        }
    }

    /// A kind with a status that is replaced.
    fn status<K: Object>(controller: &'static str, spec: &Value, edited: &'static [u32], conditions: u32) -> Self {
        let row = Self::object::<K>(controller, edited);
        let (api_version, kind) = (row.resource.api_version(), row.resource.kind());
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {}, "spec": spec});
        let event = sandbox::protobuf::write_event("ADDED", &object).unwrap();
        let spec = Fields::read(WatchEvent::decode(&event).unwrap().object.object).take(SPEC).concat();
        let spec = [spec, text(FIRST_UNKNOWN, "new")].concat();
        Self { is_status: true, fields: bytes(SPEC, &spec), conditions, ..row }
    }

    /// Generates objects with fields of all versions of Kubernetes.
    fn arbitrary(&self) -> impl Strategy<Value = Vec<u8>> + use<> {
        let ValueType::Object(metadata) = self.schema.fields[0].value_type else { panic!("no metadata") };
        let metadata = arbitrary_message(metadata, &self.metadata, &DELETION);
        let rest = arbitrary_message(self.schema, &self.fields, &[METADATA]);
        (metadata, rest).prop_map(|(metadata, rest)| [bytes(METADATA, &metadata), rest].concat())
    }

    /// Fails unless the two objects differ in the edits of the controller only.
    fn compare(&self, received: &[u8], sent: &[u8]) {
        let kind = self.resource.kind();
        let [mut received, mut sent] = [received, sent].map(Fields::read);
        let [mut old, mut new] = [&mut received, &mut sent].map(|object| object.take_message(METADATA));
        old.take(MANAGED_FIELDS);
        let [mut labels, mut annotations] = [LABELS, ANNOTATIONS].map(|number| old.take_map(number));
        if let Some(new_labels) = self.new_labels {
            labels = owned(new_labels);
        }
        annotations.extend(owned(self.new_annotations));
        assert_eq!([LABELS, ANNOTATIONS].map(|number| new.take_map(number)), [labels, annotations], "{kind}");
        assert_eq!(new, old, "metadata of {kind}");
        if self.is_status {
            // The server keeps everything else.
            assert!(sent.0.keys().eq(&[STATUS]), "{kind}: {sent:?}");
            [received, sent] = [received, sent].map(|mut object| object.take_message(STATUS));
        }
        let [old, new] = [&mut received, &mut sent].map(|status| status.take_foreign_conditions(self.conditions));
        assert_eq!(new, old, "conditions of {kind}");
        for fields in [&mut received, &mut sent] {
            fields.0.retain(|number, _| !self.edited.contains(number));
        }
        assert_eq!(sent, received, "{kind}");
    }
}

/// The value of a field, as it is encoded.
#[derive(Debug, PartialEq)]
enum Encoded {
    Number(u64),
    Fixed(Vec<u8>),
    Bytes(Vec<u8>),
}

/// The fields of a message by number, each with its values in their order.
#[derive(Debug, PartialEq)]
struct Fields(BTreeMap<u32, Vec<Encoded>>);

impl Fields {
    fn read(mut rest: &[u8]) -> Self {
        let mut fields = BTreeMap::<u32, Vec<Encoded>>::new();
        while !rest.is_empty() {
            let tag = take_varint(&mut rest);
            let value = match tag & 7 {
                0 => Encoded::Number(take_varint(&mut rest)),
                1 => Encoded::Fixed(take_bytes(&mut rest, 8)),
                2 => {
                    let length = take_varint(&mut rest);
                    Encoded::Bytes(take_bytes(&mut rest, length))
                }
                5 => Encoded::Fixed(take_bytes(&mut rest, 4)),
                other => panic!("wire type {other}"),
            };
            fields.entry(u32::try_from(tag >> 3).unwrap()).or_default().push(value);
        }
        Self(fields)
    }

    /// Removes a repeated field of bytes.
    fn take(&mut self, number: u32) -> Vec<Vec<u8>> {
        let values = self.0.remove(&number).unwrap_or_default();
        let bytes =
            |value| if let Encoded::Bytes(bytes) = value { bytes } else { panic!("{value:?} in field {number}") };
        values.into_iter().map(bytes).collect()
    }

    /// Removes a single message.
    fn take_message(&mut self, number: u32) -> Self {
        let messages = self.take(number);
        let [message] = &*messages else { panic!("field {number}: {messages:?}") };
        Self::read(message)
    }

    /// Removes a map.
    fn take_map(&mut self, number: u32) -> BTreeMap<String, String> {
        let text = |pair: &mut Self, number| String::from_utf8(pair.take(number).concat()).unwrap();
        let pairs = self.take(number).into_iter().map(|pair| Self::read(&pair));
        pairs.map(|mut pair| (text(&mut pair, 1), text(&mut pair, 2))).collect()
    }

    /// Removes the conditions, and returns those of other writers. An absent text means the same as an empty one.
    fn take_foreign_conditions(&mut self, number: u32) -> Vec<Self> {
        let mut conditions: Vec<Self> = self.take(number).iter().map(|condition| Self::read(condition)).collect();
        let is_own = |Self(fields): &Self| matches!(fields.get(&1).map(Vec::as_slice), Some([Encoded::Bytes(kind)]) if kind.first().is_some_and(u8::is_ascii_uppercase));
        conditions.retain(|condition| !is_own(condition));
        for Self(fields) in &mut conditions {
            fields.retain(|number, values| *number >= FIRST_UNKNOWN || *values != [Encoded::Bytes(Vec::new())]);
        }
        conditions
    }
}

fn take_bytes(rest: &mut &[u8], length: u64) -> Vec<u8> {
    rest.split_off(..usize::try_from(length).unwrap()).unwrap().to_vec()
}

fn take_varint(rest: &mut &[u8]) -> u64 {
    let length = rest.iter().position(|byte| *byte < 0x80).unwrap() + 1;
    let bytes = rest.split_off(..length).unwrap();
    bytes.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f))
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

fn field(number: u32, wire_type: u64, value: &[u8]) -> Vec<u8> {
    [&*varint(u64::from(number) << 3 | wire_type), value].concat()
}

fn number(field_number: u32, value: u64) -> Vec<u8> {
    field(field_number, 0, &varint(value))
}

fn bytes(number: u32, value: &[u8]) -> Vec<u8> {
    field(number, 2, &[&*varint(value.len() as u64), value].concat())
}

fn text(number: u32, value: &str) -> Vec<u8> {
    bytes(number, value.as_bytes())
}

/// Generates messages with these encoded fields, with all others except `without`, and with fields that no version has.
fn arbitrary_message(schema: &MessageSchema, fixed: &[u8], without: &[u32]) -> BoxedStrategy<Vec<u8>> {
    let Fields(present) = Fields::read(fixed);
    let others =
        schema.fields.iter().filter(|field| !present.contains_key(&field.number) && !without.contains(&field.number));
    let others: Vec<_> = others.map(arbitrary_field).collect();
    let unknown = (
        FIRST_UNKNOWN..1 << 29,
        prop_oneof![
            any::<u64>().prop_map(|value| (0u64, varint(value))),
            any::<[u8; 8]>().prop_map(|value| (1, value.to_vec())),
            "[a-z]{0,8}".prop_map(|value| (2, [&[value.len() as u8][..], value.as_bytes()].concat())),
            any::<[u8; 4]>().prop_map(|value| (5, value.to_vec())),
        ],
    );
    let unknown = unknown.prop_map(|(number, (wire_type, value))| field(number, wire_type, &value));
    let fixed = fixed.to_vec();
    let fields = (others, vec((any::<Index>(), unknown), 0..3));
    let insert = fields.prop_map(move |(mut fields, unknown)| {
        fields.insert(0, fixed.clone());
        for (at, field) in unknown {
            fields.insert(at.index(fields.len() + 1), field);
        }
        fields.concat()
    });
    insert.boxed()
}

/// Generates the values of a field. Numbers and messages are there always, and no number is zero, so that a status is never that of
/// an object without Pods.
fn arbitrary_field(field: &FieldSchema) -> BoxedStrategy<Vec<u8>> {
    let FieldSchema { number, cardinality, value_type, .. } = *field;
    let value = match cardinality {
        Cardinality::One | Cardinality::Many => arbitrary_value(number, value_type),
        Cardinality::Keyed => {
            let pair = ("[a-z]{8}", arbitrary_value(2, value_type));
            pair.prop_map(move |(key, value)| bytes(number, &[text(1, &key), value].concat())).boxed()
        }
    };
    let count = match (cardinality, value_type) {
        (Cardinality::One, ValueType::Int | ValueType::Object(_)) => 1..2,
        (Cardinality::One, _) => 0..2,
        (Cardinality::Many | Cardinality::Keyed, _) => 0..3,
    };
    vec(value, count).prop_map(|values| values.concat()).boxed()
}

fn arbitrary_value(field_number: u32, value_type: ValueType) -> BoxedStrategy<Vec<u8>> {
    match value_type {
        ValueType::Text => "[a-z]{4,8}".prop_map(move |value| text(field_number, &value)).boxed(),
        ValueType::Bool => (0..2u64).prop_map(move |value| number(field_number, value)).boxed(),
        ValueType::Int => (1..9u64).prop_map(move |value| number(field_number, value)).boxed(),
        ValueType::Time => {
            let time = (0..1_700_000_000u64).prop_map(|seconds| [number(1, seconds), number(2, 0)].concat());
            time.prop_map(move |time| bytes(field_number, &time)).boxed()
        }
        ValueType::Json => Just(bytes(field_number, &text(1, "{}"))).boxed(),
        ValueType::Object(message) => {
            arbitrary_message(message, &[], &[]).prop_map(move |message| bytes(field_number, &message)).boxed()
        }
        other => panic!("no replaced field has the type {other:?}"),
    }
}

fn owned(pairs: Pairs) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Frames of a watch that brings one object and the end of the list.
fn frames(resource: &Resource, object: &[u8]) -> Vec<u8> {
    let (api_version, kind) = (resource.api_version(), resource.kind());
    let envelope = [bytes(1, &[text(1, &api_version), text(2, kind)].concat()), bytes(2, object)].concat();
    let added = [text(1, "ADDED"), bytes(2, &bytes(1, &[b"k8s\0", &*envelope].concat()))].concat();
    let metadata = json!({"resourceVersion": "8", "annotations": {"k8s.io/initial-events-end": "true"}});
    let bookmark = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    let bookmark = sandbox::protobuf::write_event("BOOKMARK", &bookmark).unwrap();
    let framed = |frame: Vec<u8>| [&u32::try_from(frame.len()).unwrap().to_be_bytes()[..], &frame].concat();
    [framed(added), framed(bookmark)].concat()
}

/// Returns a client of the sandbox for which the watch of a resource brings one object. The first body that replaces the object is
/// stored in `sent`.
fn client(sandbox: &Sandbox, row: &Row, object: &[u8], sent: &Arc<Mutex<Option<Bytes>>>) -> kube::Client {
    let (server, sent) = (sandbox.service("controller"), Arc::clone(sent));
    let watched = row.resource.path("", "", "");
    let replaced = row.resource.path(NAMESPACE, NAME, if row.is_status { "status" } else { "" });
    let frames = Bytes::from(frames(&row.resource, object));
    let service = service_fn(move |request: Request<kube::client::Body>| {
        let (server, sent, frames) = (server.clone(), Arc::clone(&sent), frames.clone());
        let (path, is_watch) =
            (request.uri().path(), request.uri().query().is_some_and(|query| query.contains("watch=true")));
        let (is_watch, is_replacement) =
            (is_watch && path == watched, request.method() == Method::PUT && path == replaced);
        async move {
            if is_watch {
                let body = Full::new(frames).with_trailers(pending()).map_err(|never| match never {}).boxed_unsync();
                let media_type = "application/vnd.kubernetes.protobuf;stream=watch";
                return Ok::<_, BoxError>(
                    Response::builder().header("content-type", media_type).body::<ResponseBody>(body)?,
                );
            }
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            if is_replacement {
                sent.lock().get_or_insert_with(|| body.clone());
            }
            Ok(server.oneshot(Request::from_parts(head, Full::new(body))).await?)
        }
    });
    kube::Client::new(service, "default")
}

/// Runs the controller until it replaces the object, and returns the message that it sends.
async fn replacement(row: &Row, object: &[u8]) -> Vec<u8> {
    let world = World::new(NAMESPACE, "2026-11-21T09:37:27.2Z", Sandbox::builder()).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME, "namespace": NAMESPACE, "uid": UID,
        "creationTimestamp": CREATED}, "spec": {"selector": {"app": NAME}, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "ports": [{"port": 80}]}});
    world.sandbox.load([service]).unwrap();
    let sent = Arc::default();
    let client = client(&world.sandbox, row, object, &sent);
    let program = controllers::ALL.iter().find(|program| program.name == row.controller).unwrap();
    let _loops = Loops::start(&client, &world.clock, OperatorSettings::new(), program.loops);
    for _ in 0..60 {
        world.pass(1).await;
        if let Some(body) = sent.lock().take() {
            let envelope = body.strip_prefix(b"k8s\0").unwrap_or_else(|| panic!("{}: {body:?}", row.resource));
            return Fields::read(envelope).take(2).concat();
        }
    }
    panic!("{} was not replaced", row.resource);
}

fn rows() -> Vec<Row> {
    use daemonset_controller::objects::DaemonSet;
    use deployment_controller::objects::Deployment;
    use disruption_controller::objects::Budget;
    use endpointslice_controller::objects::{Endpoints, Slice};
    use job_controller::objects::Job;
    use replicaset_controller::{
        kind::{ReplicaSets, ReplicationControllers},
        objects::CachedSet,
    };
    use statefulset_controller::objects::StatefulSet;

    let (labels, selector) = (json!({"app": NAME}), json!({"matchLabels": {"app": NAME}}));
    let [template, ending] = ["Always", "Never"].map(|policy| {
        json!({"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": policy}})
    });
    let daemons = json!({"selector": selector, "template": template});
    let replicas = json!({"replicas": 0, "selector": selector, "template": template});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}});
    let rollout = json!({"replicas": 0, "selector": selector, "template": template, "strategy": strategy});
    let controller = json!({"replicas": 0, "selector": labels, "template": template});
    let ordinals = json!({"replicas": 0, "selector": selector, "template": template, "serviceName": NAME});
    let job = json!({"suspend": true, "completions": 1, "parallelism": 1, "selector": selector, "template": ending});
    let budget = json!({"selector": selector, "maxUnavailable": 1});
    let deployment = Row::status::<Deployment>("deployment-controller", &rollout, &[1, 2, 3, 4, 5, 7, 9], 6);
    let endpoints = Row::object::<Endpoints>("endpointslice-controller", &[2]);
    let slice = Row::object::<Slice>("endpointslice-controller", &[2, 3]);
    let owner = [text(1, "Service"), text(3, NAME), text(4, UID), text(5, "v1")].concat();
    let slice_label = |(key, value): &(&str, &str)| bytes(LABELS, &[text(1, key), text(2, value)].concat());
    let slice_labels: Vec<u8> = SLICE_LABELS.iter().chain(&[("foreign", "")]).flat_map(slice_label).collect();
    vec![
        Row::status::<DaemonSet>("daemonset-controller", &daemons, &[1, 2, 3, 4, 5, 6, 7, 8], 0),
        Row { new_annotations: &[("deployment.kubernetes.io/revision", "1")], ..deployment },
        Row::status::<Budget>("disruption-controller", &budget, &[1, 2, 3, 4, 5, 6], 7),
        Row::status::<Job>("job-controller", &job, &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11], 1),
        Row::status::<CachedSet<ReplicaSets>>("replicaset-controller", &replicas, &[1, 2, 3, 4, 5, 7], 6),
        Row::status::<CachedSet<ReplicationControllers>>("replicaset-controller", &controller, &[1, 2, 3, 4, 5], 6),
        Row::status::<StatefulSet>("statefulset-controller", &ordinals, &[1, 2, 3, 4, 5, 6, 7, 11], 0),
        Row {
            new_labels: Some(&[("endpoints.kubernetes.io/managed-by", "endpoint-controller")]),
            new_annotations: TRIGGER_TIME,
            ..endpoints
        },
        Row {
            // A slice without endpoints stays as it is.
            fields: [text(4, "IPv4"), bytes(2, &text(1, "10.0.0.9"))].concat(),
            metadata: [slice.metadata, slice_labels, bytes(13, &owner)].concat(),
            new_labels: Some(SLICE_LABELS),
            new_annotations: TRIGGER_TIME,
            ..slice
        },
    ]
}

/// The creation time of the Service, which is the first change that its endpoints show.
const CREATED: &str = "2026-01-01T00:00:00Z";
const TRIGGER_TIME: Pairs = &[("endpoints.kubernetes.io/last-change-trigger-time", CREATED)];

/// The labels with which endpointslice-controller finds its slices.
const SLICE_LABELS: Pairs = &[
    ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"),
    ("kubernetes.io/service-name", NAME),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 200, ..ProptestConfig::default() })]

    /// COMMON-95.
    #[test]
    fn arbitrary_objects_are_replaced_with_edits_only(objects in rows().iter().map(Row::arbitrary).collect::<Vec<_>>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        for (row, object) in rows().iter().zip(&objects) {
            row.compare(object, &runtime.block_on(replacement(row, object)));
        }
    }
}
