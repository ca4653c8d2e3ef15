//! What clients see that ask for protobuf.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use bytes::Bytes;
use common::clock::Clock;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use sandbox::{
    Action, Builder, ConnectionCut, ResponseBody, Rule, Sandbox,
    protobuf::{parse, parse_event},
};
use serde_json::{Value, json};
use tower::ServiceExt as _;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const BOTH: &str = "application/vnd.kubernetes.protobuf,application/json";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1";
const STREAMING_LIST: &str = "/api/v1/namespaces/default/configmaps?watch=1&allowWatchBookmarks=1&sendInitialEvents=1\
                              &resourceVersionMatch=NotOlderThan";

fn builder() -> Builder {
    Sandbox::builder().clock(Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 7))
}

fn map(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"name": name},
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}}
    })
}

/// A sandbox with two ConfigMaps.
async fn two_maps() -> Sandbox {
    let sandbox = builder().build();
    for name in ["a", "b"] {
        sandbox.create(map(name)).await.unwrap();
    }
    sandbox
}

/// A sandbox with one custom resource.
async fn one_widget() -> Sandbox {
    let sandbox = builder().build();
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]
        }
    });
    sandbox.create(definition).await.unwrap();
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"n": 1}});
    sandbox.create(widget).await.unwrap();
    sandbox
}

const WIDGETS: &str = "/apis/example.com/v1/widgets";

struct Answer {
    status: StatusCode,
    media_type: String,
    body: Bytes,
}

impl Answer {
    /// The object in the body, in the format that the answer declares.
    fn object(&self) -> Value {
        match &*self.media_type {
            PROTOBUF => parse(&self.body).unwrap(),
            "application/json" => serde_json::from_slice(&self.body).unwrap(),
            other => panic!("{other}"),
        }
    }
}

async fn send(sandbox: &Sandbox, request: http::request::Builder, body: Vec<u8>) -> http::Response<ResponseBody> {
    sandbox.service("me").oneshot(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap()
}

async fn answer(response: http::Response<ResponseBody>) -> Answer {
    let media_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    let status = response.status();
    Answer { status, media_type, body: response.into_body().collect().await.unwrap().to_bytes() }
}

async fn get(sandbox: &Sandbox, path: &str, accept: &str) -> Answer {
    answer(send(sandbox, Request::get(path).header("Accept", accept), Vec::new()).await).await
}

/// A watch as frames, read one at a time.
struct Frames {
    body: ResponseBody,
    bytes: Vec<u8>,
}

impl Frames {
    async fn open(sandbox: &Sandbox, path: &str, accept: &str) -> Self {
        let response = send(sandbox, Request::get(path).header("Accept", accept), Vec::new()).await;
        assert_eq!(response.headers()["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
        Self { body: response.into_body(), bytes: Vec::new() }
    }

    /// The next frame without its length.
    async fn frame(&mut self) -> Vec<u8> {
        loop {
            if let Some((length, rest)) = self.bytes.split_first_chunk() {
                let length = usize::try_from(u32::from_be_bytes(*length)).unwrap();
                if let Some(frame) = rest.get(..length) {
                    let frame = frame.to_vec();
                    self.bytes.drain(..4 + length);
                    return frame;
                }
            }
            let piece = self.body.frame().await.unwrap().unwrap();
            self.bytes.extend_from_slice(piece.data_ref().unwrap());
        }
    }

    async fn event(&mut self) -> Value {
        parse_event(&self.frame().await).unwrap()
    }

    /// What comes until the end, and whether the connection broke.
    async fn rest(mut self) -> (Vec<u8>, bool) {
        loop {
            match self.body.frame().await {
                None => return (self.bytes, false),
                Some(Err(ConnectionCut)) => return (self.bytes, true),
                Some(Ok(piece)) => self.bytes.extend_from_slice(piece.data_ref().unwrap()),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn objects_and_lists_are_the_same_as_in_json() {
    let sandbox = two_maps().await;
    let one = get(&sandbox, &format!("{MAPS}/a"), PROTOBUF).await;
    assert_eq!((one.status, &*one.media_type), (StatusCode::OK, PROTOBUF));
    let json = sandbox.get("configmaps", Some("default"), "a").await.unwrap();
    for (field, value) in json["metadata"].as_object().unwrap() {
        assert_eq!(one.object()["metadata"][field], *value, "{field}");
    }
    assert_eq!(one.object()["data"], json["data"]);

    let list = get(&sandbox, &format!("{MAPS}?limit=1"), PROTOBUF).await;
    assert_eq!(list.media_type, PROTOBUF);
    let list = list.object();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&json!("v1"), &json!("ConfigMapList")));
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(list["items"][0]["metadata"]["uid"], json["metadata"]["uid"]);
    let json = get(&sandbox, &format!("{MAPS}?limit=1"), "application/json").await.object();
    for field in ["resourceVersion", "continue", "remainingItemCount"] {
        assert_eq!(list["metadata"][field], json["metadata"][field], "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn converted_kinds_are_converted_in_protobuf_too() {
    let sandbox = builder().build();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "R", "message": "m", "type": "Normal"
    });
    sandbox.create(event).await.unwrap();
    let list = get(&sandbox, "/apis/events.k8s.io/v1/namespaces/default/events", PROTOBUF).await.object();
    assert_eq!((&list["apiVersion"], &list["items"][0]["note"]), (&json!("events.k8s.io/v1"), &json!("m")));
    let watch = "/apis/events.k8s.io/v1/namespaces/default/events?watch=1";
    let event = Frames::open(&sandbox, watch, PROTOBUF).await.event().await;
    assert_eq!((&event["object"]["apiVersion"], &event["object"]["note"]), (&json!("events.k8s.io/v1"), &json!("m")));
}

#[tokio::test(start_paused = true)]
async fn a_watch_sends_the_list_a_bookmark_and_the_changes_as_frames() {
    let sandbox = two_maps().await;
    let mut watch = Frames::open(&sandbox, STREAMING_LIST, PROTOBUF).await;
    for name in ["a", "b"] {
        let event = watch.event().await;
        assert_eq!((&event["type"], &event["object"]["data"]["name"]), (&json!("ADDED"), &json!(name)));
    }
    let bookmark = watch.event().await;
    assert_eq!((&bookmark["type"], &bookmark["object"]["kind"]), (&json!("BOOKMARK"), &json!("ConfigMap")));
    let metadata = &bookmark["object"]["metadata"];
    assert_eq!(metadata["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    assert_eq!(metadata["resourceVersion"], sandbox.resource_version().to_string());
    sandbox.merge("configmaps", Some("default"), "a", None, json!({"data": {"x": "y"}})).await.unwrap();
    sandbox.delete("configmaps", Some("default"), "b").await.unwrap();
    let (changed, deleted) = (watch.event().await, watch.event().await);
    assert_eq!((&changed["type"], &changed["object"]["data"]["x"]), (&json!("MODIFIED"), &json!("y")));
    assert_eq!((&deleted["type"], &deleted["object"]["metadata"]["name"]), (&json!("DELETED"), &json!("b")));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selection_is_deleted() {
    let sandbox = two_maps().await;
    let mut watch = Frames::open(&sandbox, &format!("{WATCH}&labelSelector=app%3Da"), PROTOBUF).await;
    assert_eq!(watch.event().await["type"], "ADDED");
    let patch = json!({"metadata": {"labels": {"app": "z"}}});
    sandbox.merge("configmaps", Some("default"), "a", None, patch).await.unwrap();
    let event = watch.event().await;
    assert_eq!((&event["type"], &event["object"]["metadata"]["labels"]["app"]), (&json!("DELETED"), &json!("a")));
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_ends_with_a_status() {
    let sandbox = two_maps().await;
    sandbox.compact();
    for accept in [PROTOBUF, METADATA] {
        let event = Frames::open(&sandbox, &format!("{WATCH}&resourceVersion=1"), accept).await.event().await;
        assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("ERROR"), &json!("Status")));
        assert_eq!((&event["object"]["code"], &event["object"]["reason"]), (&json!(410), &json!("Expired")));
    }
}

#[tokio::test(start_paused = true)]
async fn watchers_see_the_same_bytes() {
    let sandbox = two_maps().await;
    let mut frames = Vec::new();
    for _ in 0..2 {
        frames.push(Frames::open(&sandbox, WATCH, PROTOBUF).await.frame().await);
    }
    assert_eq!(frames[0], frames[1]);
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_comes_in_protobuf() {
    let sandbox = two_maps().await;
    let list = get(&sandbox, MAPS, METADATA_LIST).await.object();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&json!("meta.k8s.io/v1"), &json!("PartialObjectMetadataList")));
    assert_eq!(list["items"][1]["metadata"]["labels"], json!({"app": "b"}));
    assert!(list["items"][1].get("data").is_none());
    let mut watch = Frames::open(&sandbox, STREAMING_LIST, METADATA).await;
    for (kind, name) in [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")] {
        let event = watch.event().await;
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!(kind), &json!(name)));
        assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(event["object"]["apiVersion"], "meta.k8s.io/v1");
    }
}

#[tokio::test(start_paused = true)]
async fn custom_resources_come_in_protobuf_as_metadata_only() {
    let sandbox = one_widget().await;
    let list = get(&sandbox, WIDGETS, METADATA_LIST).await;
    assert_eq!((&*list.media_type, &list.object()["items"][0]["metadata"]["name"]), (PROTOBUF, &json!("w")));
    let event = Frames::open(&sandbox, &format!("{WIDGETS}?watch=1"), METADATA).await.event().await;
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("w")));

    for path in [format!("{WIDGETS}/w"), WIDGETS.to_owned()] {
        let whole = get(&sandbox, &path, BOTH).await;
        assert_eq!((whole.status, &*whole.media_type), (StatusCode::OK, "application/json"));
        let refused = get(&sandbox, &path, PROTOBUF).await;
        assert_eq!((refused.status, &*refused.media_type), (StatusCode::NOT_ACCEPTABLE, PROTOBUF));
        assert_eq!(refused.object()["reason"], "NotAcceptable");
    }
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    let definition = get(&sandbox, definitions, PROTOBUF).await.object();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], true);
}

#[tokio::test(start_paused = true)]
async fn the_first_acceptable_format_counts() {
    let sandbox = two_maps().await;
    for (accept, format) in [
        (BOTH, PROTOBUF),
        ("application/json,application/vnd.kubernetes.protobuf", "application/json"),
        ("text/html,application/vnd.kubernetes.protobuf", PROTOBUF),
        ("application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json", "application/json"),
        ("*/*", "application/json"),
    ] {
        assert_eq!(get(&sandbox, MAPS, accept).await.media_type, format, "{accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_and_answers_to_writes_come_in_protobuf() {
    let sandbox = two_maps().await;
    let refused = get(&sandbox, &format!("{MAPS}/none"), BOTH).await;
    assert_eq!((refused.status, &*refused.media_type), (StatusCode::NOT_FOUND, PROTOBUF));
    let status = refused.object();
    assert_eq!((&status["apiVersion"], &status["kind"]), (&json!("v1"), &json!("Status")));
    assert_eq!((&status["code"], &status["reason"]), (&json!(404), &json!("NotFound")));
    assert_eq!((&status["details"]["name"], &status["details"]["kind"]), (&json!("none"), &json!("configmaps")));
    // A refusal has no metadata of its own, so the next media type counts.
    let refused = get(&sandbox, &format!("{MAPS}/none"), &format!("{METADATA},application/json")).await;
    assert_eq!((&*refused.media_type, &refused.object()["reason"]), ("application/json", &json!("NotFound")));

    let request = Request::post(MAPS).header("Accept", BOTH).header("Content-Type", "application/json");
    let created = answer(send(&sandbox, request, map("c").to_string().into_bytes()).await).await;
    assert_eq!((created.status, &*created.media_type), (StatusCode::CREATED, PROTOBUF));
    assert_eq!(created.object()["data"], json!({"name": "c"}));
    let request = Request::delete(format!("{MAPS}/c")).header("Accept", BOTH);
    let deleted = answer(send(&sandbox, request, Vec::new()).await).await.object();
    assert_eq!((&deleted["kind"], &deleted["status"]), (&json!("Status"), &json!("Success")));
}

#[tokio::test(start_paused = true)]
async fn a_server_may_know_json_only() {
    let sandbox = builder().protobuf(false).build();
    sandbox.create(map("a")).await.unwrap();
    assert_eq!(get(&sandbox, MAPS, BOTH).await.media_type, "application/json");
    let refused = get(&sandbox, MAPS, PROTOBUF).await;
    assert_eq!((refused.status, &*refused.media_type), (StatusCode::NOT_ACCEPTABLE, "application/json"));
    let watch = send(&sandbox, Request::get(WATCH).header("Accept", BOTH), Vec::new()).await;
    assert_eq!(watch.headers()["content-type"], "application/json");
    let request = Request::post(MAPS).header("Content-Type", PROTOBUF);
    assert_eq!(send(&sandbox, request, b"k8s\0".to_vec()).await.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

/// What a watch in protobuf sends under a fault, and whether the connection broke.
async fn faulty(action: Action) -> (Vec<u8>, bool) {
    let sandbox = two_maps().await;
    sandbox.faults().add(Rule::new(action).verb("watch"));
    Frames::open(&sandbox, WATCH, PROTOBUF).await.rest().await
}

#[tokio::test(start_paused = true)]
async fn faults_damage_frames() {
    let length = |bytes: &[u8]| u32::from_be_bytes(*bytes.first_chunk().unwrap());
    let (bytes, cut) = faulty(Action::HalfLine).await;
    assert!(cut && usize::try_from(length(&bytes)).unwrap() > bytes.len() - 4, "{bytes:?}");
    let (bytes, cut) = faulty(Action::OverlongFrame).await;
    assert!(!cut && length(&bytes) == u32::MAX, "{bytes:?}");
    let (bytes, _) = faulty(Action::Garbage).await;
    assert_eq!(usize::try_from(length(&bytes)).unwrap(), bytes.len() - 4);
    assert!(parse_event(&bytes[4..]).is_err());
    let (bytes, _) = faulty(Action::UnknownEventType).await;
    assert_eq!(parse_event(&bytes[4..]).unwrap()["type"], "RENAMED");
    let (bytes, _) = faulty(Action::WrongKind).await;
    let event = parse_event(&bytes[4..]).unwrap();
    assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("ADDED"), &json!("Secret")));
}
