//! Replays requests recorded from a real kube-apiserver against the sandbox and compares the answers.
//!
//! What differs from run to run (uids, versions, times, generated suffixes, ages, addresses) is masked. Structures in messages are
//! masked, too: kube-apiserver prints them as its internal Go types. Everything else must agree, except for the lines in
//! `goldens/known-differences.txt`, each of which has its reason. A listed line that agrees fails the test, too.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use common::clock::Clock;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use sandbox::{ADMIN, Builder, InProcess, Sandbox};
use serde_json::{Map, Value, json, value::RawValue};
use tower::ServiceExt as _;

/// In this order: later files depend on earlier ones.
const FILES: [&str; 6] =
    ["crud.jsonl", "patch.jsonl", "workloads.jsonl", "core.jsonl", "watch.jsonl", "discovery.jsonl"];
const MOST_KNOWN_DIFFERENCES: usize = 10;
/// Fields whose values no two runs share.
const MASKED: [&str; 13] = [
    "resourceVersion",
    "continue",
    "creationTimestamp",
    "deletionTimestamp",
    "timeAdded",
    "remainingItemCount",
    "clusterIP",
    "clusterIPs",
    "nodePort",
    "healthCheckNodePort",
    "storageVersionHash",
    "age",
    "uid",
];
/// Build data in the answer of `/version`.
const BUILD: [&str; 7] = ["gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"];

/// What recorded values are in this run.
#[derive(Default)]
struct Learned {
    versions: BTreeMap<String, String>,
    uids: BTreeMap<String, String>,
    tokens: BTreeMap<String, String>,
}

impl Learned {
    fn learn(&mut self, recorded: &Value, found: &Value) {
        match (recorded, found) {
            (Value::Object(recorded), Value::Object(found)) => {
                for (key, value) in recorded {
                    let Some(other) = found.get(key) else { continue };
                    let known = match (key.as_str(), value.as_str()) {
                        ("resourceVersion", Some(_)) => &mut self.versions,
                        ("uid", Some(text)) if text.matches('-').count() == 4 => &mut self.uids,
                        ("continue", Some(_)) => &mut self.tokens,
                        _ => {
                            self.learn(value, other);
                            continue;
                        }
                    };
                    if let (Some(value), Some(other)) = (value.as_str(), other.as_str()) {
                        known.entry(value.to_owned()).or_insert_with(|| other.to_owned());
                    }
                }
            }
            (Value::Array(recorded), Value::Array(found)) => {
                recorded.iter().zip(found).for_each(|(a, b)| self.learn(a, b));
            }
            _ => {}
        }
    }

    fn body(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.uids.get(text).unwrap_or(text).clone()),
            Value::Object(map) => Value::Object(
                map.iter()
                    .map(|(key, value)| {
                        let value = match (key.as_str(), value) {
                            ("resourceVersion", Value::String(v)) => self.versions.get(v).unwrap_or(v).clone().into(),
                            _ => self.body(value),
                        };
                        (key.clone(), value)
                    })
                    .collect(),
            ),
            Value::Array(list) => list.iter().map(|v| self.body(v)).collect(),
            other => other.clone(),
        }
    }

    fn path(&self, path: &str) -> String {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let pairs: Vec<String> = query
            .split('&')
            .filter(|p| !p.is_empty())
            .map(|pair| match pair.split_once('=') {
                Some(("resourceVersion", v)) => format!("resourceVersion={}", self.versions.get(v).map_or(v, |v| v)),
                Some(("continue", t)) => format!("continue={}", self.tokens.get(t).map_or(t, |t| t)),
                _ => pair.to_owned(),
            })
            .collect();
        if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
    }
}

/// Replaces each longest run of `is_part` characters for which `known` gives another text.
fn replace_words(text: &str, is_part: fn(char) -> bool, known: impl Fn(&str) -> Option<&'static str>) -> String {
    let words = text.split_inclusive(|c| !is_part(c)).map(|word| {
        let (part, end) = word.split_at(word.trim_end_matches(|c| !is_part(c)).len());
        known(part).unwrap_or(part).to_owned() + end
    });
    words.collect()
}

fn replace_uids(text: &str) -> String {
    let is_uid = |word: &str| word.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    replace_words(text, |c| c.is_ascii_hexdigit() || c == '-', |word| is_uid(word).then_some("<uid>"))
}

fn is_age(text: &str) -> bool {
    let mut units = 0;
    let mut digits = 0;
    for c in text.chars() {
        match c {
            '0'..='9' => digits += 1,
            's' | 'm' | 'h' | 'd' | 'y' if digits > 0 => {
                units += 1;
                digits = 0;
            }
            _ => return false,
        }
    }
    digits == 0 && matches!(units, 1 | 2)
}

/// Replaces times within a longer text.
fn replace_times(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | ':' | 'T' | 'Z' | '.');
    let is_time = |word: &str| word.ends_with('Z') && word.parse::<Timestamp>().is_ok();
    replace_words(text, is_part, |word| is_time(word).then_some("<time>"))
}

/// Replaces the five random characters behind the prefixes that recorded names were generated from.
fn replace_generated(text: &str) -> String {
    let mut out = text.to_owned();
    for prefix in ["gen-", "s1-"] {
        if let Some(at) = out.find(prefix) {
            let from = at + prefix.len();
            let boundary = at == 0 || !out.as_bytes()[at - 1].is_ascii_alphanumeric();
            let suffix = out.get(from..from + 5);
            let end = out.as_bytes().get(from + 5).is_none_or(|c| !c.is_ascii_alphanumeric());
            if boundary
                && end
                && suffix.is_some_and(|s| s.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()))
            {
                out.replace_range(from..from + 5, "*");
            }
        }
    }
    out
}

/// Replaces the structures that a refusal prints, and leaves out a comparison of two of them.
fn replace_structures(text: &str) -> String {
    let text = text.split("\n@@ ").next().unwrap_or(text);
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = ["value: {", "value: [{"].iter().filter_map(|start| rest.find(start)).min() {
        let (before, structure) = rest.split_at(at + "value: ".len());
        let mut depth = 0;
        let end = structure.find(|c| {
            depth += i32::from(matches!(c, '{' | '[')) - i32::from(matches!(c, '}' | ']'));
            depth == 0
        });
        out.push_str(before);
        out.push_str("<structure>");
        rest = &structure[end.map_or(structure.len(), |end| end + 1)..];
    }
    out + rest
}

/// Replaces addresses and ports that a Service was given, in the cells of a table.
fn replace_allocated(text: &str) -> String {
    let is_address = |word: &str| word.starts_with("10.") && word.parse::<std::net::Ipv4Addr>().is_ok();
    let is_port = |word: &str| word.len() == 5 && word.starts_with('3') && word.parse::<u16>().is_ok();
    let words = text.split_inclusive([',', ':', '/']).map(|word| {
        let bare = word.trim_end_matches([',', ':', '/']);
        if is_address(bare) || is_port(bare) { format!("*{}", &word[bare.len()..]) } else { word.to_owned() }
    });
    words.collect()
}

/// Several refusals of one object as a set: kube-apiserver checks some things twice, and in an order of its own.
fn as_set_of_refusals(body: &mut Value) {
    let Some(causes) = body.pointer_mut("/body/details/causes").and_then(Value::as_array_mut) else { return };
    causes.sort_by_key(Value::to_string);
    causes.dedup();
    let all: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause["field"], cause["message"])).collect();
    let message = body["body"]["message"].as_str().unwrap_or_default();
    let (object, _) = message.split_once(" is invalid: ").unwrap_or((message, ""));
    body["body"]["message"] = format!("{object} is invalid: {}", all.join(", ")).into();
}

fn mask_text(text: &str, key: &str) -> Value {
    let text = if key == "message" { replace_structures(text) } else { text.to_owned() };
    let text = replace_uids(&text);
    if text.parse::<Timestamp>().is_ok() && text.ends_with('Z') {
        return "<time>".into();
    }
    let text = if matches!(key, "lastTransitionTime" | "lastUpdateTime" | "message" | "time") {
        replace_times(&text)
    } else {
        text
    };
    let text = ["current: ", "in record ("].iter().fold(text, |text, words| match text.split_once(words) {
        Some((before, after)) => {
            let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}{words}*{after}")
        }
        None => text,
    });
    let text = if key == "cells" { replace_allocated(&text) } else { text };
    let text = replace_generated(&text);
    if is_age(&text) || text == "<unknown>" || text == "<invalid>" {
        return "<age>".into();
    }
    text.into()
}

fn mask(value: &Value, key: &str) -> Value {
    match value {
        Value::Object(map) => {
            let generate = map.get("generateName").and_then(Value::as_str);
            let mut masked = Map::new();
            for (key, value) in map.iter().filter(|(key, _)| *key != "managedFields") {
                let none = value.is_null() || *value == json!("None") || *value == json!(["None"]);
                let new = match (key.as_str(), value.as_str(), generate) {
                    (key, _, _) if MASKED.contains(&key) && !none => "*".into(),
                    (key, _, _) if BUILD.contains(&key) => "*".into(),
                    ("name", Some(name), Some(prefix)) if name.starts_with(prefix) => format!("{prefix}*").into(),
                    _ => mask(value, key),
                };
                masked.insert(key.clone(), new);
            }
            Value::Object(masked)
        }
        Value::Array(list) => list.iter().map(|v| mask(v, key)).collect(),
        Value::String(text) => mask_text(text, key),
        other => other.clone(),
    }
}

fn differences(want: &Value, got: &Value, path: &str, out: &mut Vec<String>) {
    let short = |v: &Value| v.to_string().chars().take(400).collect::<String>();
    match (want, got) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                match (a.get(key), b.get(key)) {
                    (Some(x), Some(y)) => differences(x, y, &format!("{path}.{key}"), out),
                    (Some(x), None) => out.push(format!("{path}.{key}: missing, want {}", short(x))),
                    (None, Some(y)) => out.push(format!("{path}.{key}: not expected, got {}", short(y))),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (x, y)) in a.iter().zip(b).enumerate() {
                differences(x, y, &format!("{path}[{i}]"), out);
            }
        }
        (Value::Array(a), Value::Array(b)) => out.push(format!("{path}: want {} items got {}", a.len(), b.len())),
        (a, b) if a == b => {}
        (a, b) => out.push(format!("{path}: want {} got {}", short(a), short(b))),
    }
}

/// What one request was answered with.
struct Answer {
    status: u16,
    headers: Value,
    body: sandbox::ResponseBody,
}

/// Sends a request; `recorded` is the text of its body, if known.
async fn send(service: &InProcess, learned: &Learned, request: &Value, recorded: &str) -> Answer {
    let body = match &request["body"] {
        Value::Null => Bytes::new(),
        Value::String(text) => Bytes::from(text.clone()),
        // As it was sent, to the byte, where nothing in it has to be replaced.
        value if learned.body(value) == *value && !recorded.is_empty() => Bytes::from(recorded.to_owned()),
        value => Bytes::from(learned.body(value).to_string()),
    };
    let mut http = Request::builder()
        .method(request["method"].as_str().unwrap())
        .uri(learned.path(request["path"].as_str().unwrap()));
    for (name, value) in request["headers"].as_object().unwrap() {
        http = http.header(name, value.as_str().unwrap());
    }
    let response = service.clone().oneshot(http.body(Full::new(body)).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let mut headers = Map::new();
    for name in ["content-type", "warning", "retry-after"] {
        if let Some(value) = parts.headers.get(name) {
            headers.insert(name.into(), value.to_str().unwrap().into());
        }
    }
    Answer { status: parts.status.as_u16(), headers: Value::Object(headers), body }
}

async fn whole(body: sandbox::ResponseBody) -> Value {
    let bytes = body.collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into())
}

/// Reads events until there are as many as were recorded, the stream ends, or nothing comes for a while.
async fn events(mut body: sandbox::ResponseBody, wanted: usize) -> Vec<Value> {
    let mut events = Vec::new();
    let mut text = BytesMut::new();
    while events.len() < wanted.max(1) {
        let Ok(Some(frame)) = tokio::time::timeout(Duration::from_secs(5), body.frame()).await else { break };
        if let Ok(data) = frame.unwrap().into_data() {
            text.extend_from_slice(&data);
        }
        while let Some(end) = text.iter().position(|c| *c == b'\n') {
            events.push(serde_json::from_slice(&text.split_to(end + 1)).unwrap());
        }
    }
    events.truncate(wanted.max(1));
    events
}

/// The text of a line's request body.
fn body_text(line: &str) -> &str {
    #[derive(serde::Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        request: BTreeMap<&'a str, &'a RawValue>,
    }
    let line: Line<'_> = serde_json::from_str(line).unwrap();
    line.request.get("body").map_or("", |body| body.get())
}

/// Replays one line; the differences, if it is one to compare.
async fn replay(service: &InProcess, learned: &mut Learned, text: &str, line: &Value) -> Option<Vec<String>> {
    let request = &line["request"];
    let recorded = body_text(text);
    if line["setup"] == true {
        drop(whole(send(service, learned, request, recorded).await.body).await);
        return None;
    }
    let want = &line["response"];
    let answer = send(service, learned, request, recorded).await;
    let got = if line["watch"] == true && answer.status == 200 {
        for during in line["during"].as_array().into_iter().flatten() {
            drop(whole(send(service, learned, during, "").await.body).await);
        }
        let wanted = want["events"].as_array().map_or(0, Vec::len);
        json!({"status": 200, "events": events(answer.body, wanted).await})
    } else if line["watch"] == true {
        json!({"status": answer.status, "body": whole(answer.body).await})
    } else {
        json!({"status": answer.status, "headers": answer.headers, "body": whole(answer.body).await})
    };
    let mut got = got;
    if want.get("headers").is_none() {
        got.as_object_mut().unwrap().remove("headers");
    }
    learned.learn(want, &got);
    let mut found = Vec::new();
    let [mut want, mut got] = [want, &got].map(|answer| mask(answer, ""));
    if want.get("headers").is_none() {
        as_set_of_refusals(&mut want);
        as_set_of_refusals(&mut got);
    }
    differences(&want, &got, "", &mut found);
    Some(found)
}

fn path(file: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../goldens").join(file)
}

/// Lines `file | case | reason`.
fn known_differences() -> BTreeMap<(String, String), String> {
    let text = std::fs::read_to_string(path("known-differences.txt")).unwrap();
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines
        .map(|line| {
            let parts: Vec<&str> = line.split(" | ").map(str::trim).collect();
            let [file, case, reason] = parts.as_slice() else { panic!("not `file | case | reason`: {line}") };
            ((file.to_string(), case.to_string()), reason.to_string())
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn answers_as_a_real_api_server_did() {
    replay_all(Sandbox::builder(), &FILES, 248).await;
}

#[tokio::test(start_paused = true)]
async fn answers_as_a_real_api_server_with_gangs_did() {
    replay_all(Sandbox::builder().gate("GenericWorkload", true), &["scheduling.jsonl"], 36).await;
}

/// Every kind: defaults, what an update may change, statuses, columns.
#[tokio::test(start_paused = true)]
async fn answers_for_every_kind_as_a_real_api_server_did() {
    replay_all(Sandbox::builder(), &["kinds.jsonl"], 731).await;
}

async fn replay_all(builder: Builder, files: &[&str], lines: usize) {
    let clock = Clock::simulated("2026-11-21T09:50:29Z".parse().unwrap(), 1);
    // No controllers ran beside the recorded servers, which remembered the owner of each field.
    let builder = builder.without_namespace_controller().without_quota_controller().managed_fields(true);
    let sandbox = builder.clock(clock).advertised("127.0.0.1:16443").build();
    let service = sandbox.service(ADMIN);
    let mut learned = Learned::default();
    let known: BTreeMap<_, _> =
        known_differences().into_iter().filter(|((file, _), _)| files.contains(&file.as_str())).collect();
    assert!(known.len() <= MOST_KNOWN_DIFFERENCES, "{} known differences are too many", known.len());
    let (mut failures, mut differing, mut total) = (Vec::new(), BTreeSet::new(), 0);
    for file in files {
        let text = std::fs::read_to_string(path(file)).unwrap();
        for text in text.lines() {
            let line: Value = serde_json::from_str(text).unwrap();
            let Some(found) = replay(&service, &mut learned, text, &line).await else { continue };
            total += 1;
            let id = ((*file).to_owned(), line["case"].as_str().unwrap().to_owned());
            if !found.is_empty() {
                if !known.contains_key(&id) {
                    let more = found.iter().take(12).cloned().collect::<Vec<_>>().join("\n    ");
                    failures.push(format!("{}: {}:\n    {more}", id.0, id.1));
                }
                differing.insert(id);
            }
        }
    }
    for id in known.keys().filter(|id| !differing.contains(*id)) {
        failures.push(format!("{}: {}: agrees, but is listed as a known difference", id.0, id.1));
    }
    assert!(failures.is_empty(), "{} of {total} lines:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(total, lines, "{files:?}: the number of lines; correct it in this test if lines were added");
}
