//! Replays recorded requests against the kinds alone: a storage of JSON values, without HTTP, metadata rules, watches or
//! patches of lists. What a real server answered must come out, but for what it makes up itself.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Allocated, Env, Kind, allocate_service, builtin};

/// One recorded request with its answer.
struct Line {
    case: String,
    method: String,
    path: String,
    content: String,
    accept: String,
    body: Value,
    status: u64,
    answer: Value,
}

fn lines(text: &str) -> Vec<Line> {
    text.lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let request = &line["request"];
            Line {
                case: word(&line["case"]),
                method: word(&request["method"]),
                path: word(&request["path"]),
                content: word(&request["headers"]["Content-Type"]),
                accept: word(&request["headers"]["Accept"]),
                body: request["body"].clone(),
                status: line["response"]["status"].as_u64().unwrap_or_default(),
                answer: line["response"]["body"].clone(),
            }
        })
        .collect()
}

/// What a path names.
struct Target {
    kind: &'static Kind,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
}

fn target(path: &str) -> Option<Target> {
    let path = path.split('?').next()?;
    let mut parts = path.trim_start_matches('/').split('/').peekable();
    let (group, version) = match parts.next()? {
        "api" => ("", parts.next()?),
        _ => (parts.next()?, parts.next()?),
    };
    let mut namespace = None;
    let mut plural = parts.next()?;
    if plural == "namespaces" {
        let rest: Vec<&str> = parts.clone().collect();
        if rest.len() >= 2 && rest[1] != "status" && rest[1] != "finalize" {
            namespace = Some(parts.next()?.to_owned());
            plural = parts.next()?;
        }
    }
    let kind = builtin().iter().find(|k| k.group == group && k.version == version && k.plural == plural)?;
    let name = parts.next().map(str::to_owned);
    Some(Target { kind, namespace, name, subresource: parts.next().map(str::to_owned) })
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let map = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            map.remove(key);
        } else {
            merge(map.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Merges lists by their key as well, as far as the recorded requests need it.
fn merge_strategic(kind: &Kind, path: &str, target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let map = target.as_object_mut().unwrap();
    for (key, value) in patch {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let slot = map.entry(key.clone()).or_insert(Value::Null);
        match (value, (kind.merge_keys)(&path)) {
            (Value::Null, _) => {
                map.remove(key);
            }
            (Value::Array(wanted), Some(list)) if !list.key.is_empty() => {
                let mut held = slot.as_array().cloned().unwrap_or_default();
                let mut fresh = vec![];
                for element in wanted {
                    match held.iter_mut().find(|held| held[list.key] == element[list.key]) {
                        Some(held) => merge_strategic(kind, &path, held, element),
                        None => fresh.push(element.clone()),
                    }
                }
                fresh.extend(held);
                *slot = fresh.into();
            }
            _ => merge_strategic(kind, &path, slot, value),
        }
    }
}

#[derive(Default)]
struct Server {
    objects: BTreeMap<String, Value>,
    made: usize,
}

/// Gates of the recorded server that are off.
const OFF: [&str; 2] = ["CoordinatedLeaderElection", "MaxUnavailableStatefulSet"];

const NOW: &str = "2026-11-21T09:50:36Z";

impl Server {
    fn key(target: &Target, name: &str) -> String {
        let namespace = target.namespace.as_deref().unwrap_or_default();
        format!("{}/{}/{namespace}/{name}", target.kind.group, target.kind.plural)
    }

    /// The status and body that the kinds answer; `None` where they are not asked.
    fn answer(&mut self, line: &Line, target: &Target, env: &Env<'_>) -> Option<(u64, Value)> {
        let kind = target.kind;
        match (line.method.as_str(), target.subresource.as_deref()) {
            ("POST", None) => Some(self.create(line, target, env)),
            ("PUT" | "PATCH", None | Some("status")) => {
                let key = Self::key(target, target.name.as_deref()?);
                let old = self.objects.get(&key)?.clone();
                let mut new = old.clone();
                match line.content.as_str() {
                    "application/merge-patch+json" => merge(&mut new, &line.body),
                    "application/strategic-merge-patch+json" => merge_strategic(kind, "", &mut new, &line.body),
                    _ if line.method == "PUT" => {
                        new = line.body.clone();
                        for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
                            if let Some(held) = old["metadata"].get(field) {
                                new["metadata"][field] = held.clone();
                            }
                        }
                    }
                    _ => return None,
                }
                if let Some(error) = (kind.type_error)(&new) {
                    return Some((
                        400,
                        json!({"message": format!("{} in version \"{}\" cannot be handled as a {}: {error}",
                        kind.kind, kind.version, kind.kind)}),
                    ));
                }
                (kind.default)(&mut new);
                let errors = if target.subresource.is_some() {
                    (kind.prepare_status)(&mut new, &old, env);
                    (kind.validate_status)(&new, &old)
                } else {
                    (kind.prepare_update)(&mut new, &old, env);
                    (kind.validate_update)(&new, &old)
                };
                if errors.is_empty() {
                    self.objects.insert(key, new.clone());
                    return Some((200, new));
                }
                Some((422, refusal(kind, &new, errors)))
            }
            ("GET", None) if line.accept.contains("as=Table") => {
                let key = Self::key(target, target.name.as_deref().unwrap_or_default());
                let now = env.now;
                let rows: Vec<Value> = self
                    .objects
                    .iter()
                    .filter(|(held, _)| **held == key || (key.ends_with('/') && held.starts_with(&key)))
                    .map(|(_, object)| json!({"cells": (kind.row)(object, now)}))
                    .collect();
                let columns: Vec<Value> = kind
                    .columns
                    .iter()
                    .map(|c| {
                        json!({"name": c.name, "type": c.kind, "format": c.format, "description": c.description,
                            "priority": c.priority})
                    })
                    .collect();
                Some((200, json!({"columnDefinitions": columns, "rows": rows})))
            }
            _ => None,
        }
    }

    fn create(&mut self, line: &Line, target: &Target, env: &Env<'_>) -> (u64, Value) {
        let kind = target.kind;
        let mut object = line.body.clone();
        if let Some(error) = (kind.type_error)(&object) {
            let what = kind.kind;
            let message = format!("{what} in version \"{}\" cannot be handled as a {what}: {error}", kind.version);
            return (400, json!({ "message": message }));
        }
        self.made += 1;
        let metadata = object["metadata"].as_object_mut().unwrap();
        let own =
            [("uid", format!("uid-{}", self.made)), ("creationTimestamp", NOW.to_owned()), ("name", "made".to_owned())];
        for (field, own) in own {
            if field != "name" || metadata.contains_key("generateName") {
                let held = line.answer["metadata"].get(field).cloned().unwrap_or_else(|| own.into());
                metadata.insert(field.into(), held);
            }
        }
        if let Some(namespace) = &target.namespace {
            metadata.insert("namespace".into(), namespace.as_str().into());
        }
        (kind.default)(&mut object);
        // The server's time on creation.
        let now = object["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
        if kind.plural == "services" {
            let held: Vec<&Value> = self.objects.values().filter(|held| held["kind"] == "Service").collect();
            let refused = allocate_service(&mut object, &|wanted| match wanted {
                Allocated::Address(_) => false,
                Allocated::NodePort(wanted) => held
                    .iter()
                    .flat_map(|held| held["spec"]["ports"].as_array().into_iter().flatten())
                    .any(|port| port["nodePort"] == wanted),
            });
            if !refused.is_empty() {
                return (422, refusal(kind, &object, refused));
            }
        }
        (kind.prepare_create)(&mut object, &Env { now, ..*env });
        let errors = (kind.validate_create)(&object);
        if !errors.is_empty() {
            return (422, refusal(kind, &object, errors));
        }
        if let Some(hub) = &kind.hub {
            (hub.to_hub)(&mut object);
            (hub.from_hub)(&mut object);
        }
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.objects.insert(Self::key(target, &name), object.clone());
        (201, object)
    }

    /// Takes over what the real server says, where the kinds are not asked.
    fn learn(&mut self, line: &Line, target: &Target, env: &Env<'_>) {
        let Some(name) = line.answer["metadata"]["name"].as_str().filter(|_| line.status < 300) else { return };
        let key = Self::key(target, name);
        if line.answer["kind"] == "Scale" {
            if let Some(old) = self.objects.get(&key).cloned() {
                let mut new = old.clone();
                new["spec"]["replicas"] = line.answer["spec"]["replicas"].clone();
                (target.kind.prepare_update)(&mut new, &old, env);
                self.objects.insert(key, new);
            }
        } else if line.answer["kind"] == target.kind.kind {
            if line.method == "DELETE" && line.answer["metadata"].get("finalizers").is_none() {
                self.objects.remove(&key);
            } else {
                self.objects.insert(key, line.answer.clone());
            }
        }
    }
}

fn refusal(kind: &Kind, object: &Value, errors: Vec<super::FieldError>) -> Value {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let mut shown: Vec<String> = vec![];
    for error in &errors {
        let message = format!("{}: {}", error.field, error.message);
        if !shown.contains(&message) {
            shown.push(message);
        }
    }
    let text = if let [only] = &shown[..] { only.clone() } else { format!("[{}]", shown.join(", ")) };
    // Events are refused under the group they are stored in.
    let group = kind.hub.as_ref().map_or(kind.group, |hub| hub.group);
    let what = if group.is_empty() { kind.kind.to_owned() } else { format!("{}.{group}", kind.kind) };
    let causes: Vec<Value> = errors
        .into_iter()
        .map(|error| json!({"reason": error.reason, "message": error.message, "field": error.field}))
        .collect();
    json!({"message": format!("{what} \"{name}\" is invalid: {text}"), "causes": causes})
}

/// Replaces what every server makes up: uids, versions, times of its own, allocated addresses, names.
fn mask(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("resourceVersion");
            for field in ["clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"] {
                if map.get(field).is_some_and(|held| *held != "None" && *held != json!(["None"])) {
                    map.insert(field.into(), "*".into());
                }
            }
            map.values_mut().for_each(mask);
        }
        Value::Array(list) => list.iter_mut().for_each(mask),
        Value::String(text) => {
            // uids within messages and selectors
            let mut out = String::new();
            for part in text.split_inclusive(['"', '=', '\'']) {
                let word = part.trim_end_matches(['"', '=', '\'']);
                let uid = word.len() == 36 && word.bytes().filter(|b| *b == b'-').count() == 4;
                let own = word.strip_prefix("uid-").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
                if uid || own {
                    out.push('*');
                    out.push_str(&part[word.len()..]);
                } else {
                    out.push_str(part);
                }
            }
            *text = out;
        }
        _ => {}
    }
}

fn comparable(line: &Line, mut body: Value) -> Value {
    if line.status >= 400 {
        let causes = body.get("causes").or_else(|| body["details"].get("causes")).cloned();
        body = json!({"message": body["message"], "causes": causes});
        if line.status == 400 {
            body["causes"] = Value::Null;
        }
    } else if line.accept.contains("as=Table") {
        let columns = body["columnDefinitions"].as_array().unwrap();
        let ages: Vec<bool> = columns.iter().map(|c| c["name"] == "Age" || c["name"] == "Last Seen").collect();
        let rows: Vec<Value> = body["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                let cells = row["cells"].as_array().unwrap().iter().zip(&ages);
                cells.map(|(cell, age)| if *age && cell != "<unknown>" { json!("*") } else { cell.clone() }).collect()
            })
            .collect();
        body = json!({"columns": body["columnDefinitions"], "rows": rows});
    }
    mask(&mut body);
    body
}

/// Replays one recording. `skip` are cases that need more than the kinds.
fn replay(server: &mut Server, text: &str, skip: &[&str]) -> (usize, Vec<String>) {
    let (mut compared, mut wrong) = (0, vec![]);
    let env = Env { now: NOW.parse().unwrap(), gate: &|name| !OFF.contains(&name) };
    for line in lines(text) {
        let Some(target) = target(&line.path) else { continue };
        // Who may change a name, a namespace or a version is not the kinds' business.
        let skipped = skip.iter().any(|case| line.case.starts_with(case));
        if line.case.is_empty() {
            server.answer(&line, &target, &env);
            continue;
        }
        if skipped || ![200, 201, 400, 422].contains(&line.status) {
            server.learn(&line, &target, &env);
            continue;
        }
        let Some((status, body)) = server.answer(&line, &target, &env) else {
            server.learn(&line, &target, &env);
            continue;
        };
        compared += 1;
        let (ours, theirs) = (comparable(&line, body), comparable(&line, line.answer.clone()));
        if status != line.status || ours != theirs {
            wrong.push(format!(
                "{}: {} {}\n  ours   {status} {ours}\n  theirs {} {theirs}",
                line.case, line.method, line.path, line.status
            ));
        }
        server.learn(&line, &target, &env);
    }
    (compared, wrong)
}

fn check(recordings: &[(&str, &[&str])], at_least: usize) {
    let mut server = Server::default();
    let (mut compared, mut wrong) = (0, vec![]);
    for (text, skip) in recordings {
        let (n, found) = replay(&mut server, text, skip);
        compared += n;
        wrong.extend(found);
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared >= at_least, "only {compared} lines were compared");
}

#[test]
fn kinds_answer_as_the_real_server() {
    check(
        &[
            // Re-encoding of raw data by a patch, and metadata, are the server's business.
            (include_str!("../../../goldens/workloads.jsonl"), &["ControllerRevision: bump revision"]),
            (
                include_str!("../../../goldens/core.jsonl"),
                &["Pod: binding", "Pod: delete", "Pod: finalizer removed", "CRD: established"],
            ),
        ],
        70,
    );
}

#[test]
fn kinds_answer_as_recorded() {
    check(&[(include_str!("data/recorded.jsonl"), &[])], 150);
}
