//! What of a run does not race: the part of a trace that two runs must have in common.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// One state an object went through.
pub(crate) struct Step {
    /// Plural name of the resource.
    pub resource: String,
    /// Whether the object was created, and not changed or removed, by this.
    pub created: bool,
    /// Whether it was removed.
    pub removed: bool,
    /// The state.
    pub object: Value,
}

/// What two runs of one scenario have in common, line by line.
pub(crate) type Signature = BTreeMap<String, Vec<String>>;

/// Takes the signature of a run.
pub(crate) fn signature(steps: &[Step]) -> Signature {
    let mut out = Signature::new();
    let mut events: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let mut last: BTreeMap<(String, String), Value> = BTreeMap::new();
    let mut shapes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for step in steps {
        let object = &step.object;
        let name = text(object, "/metadata/name");
        let mut add = |line: String, value: String| {
            let lines = out.entry(line).or_default();
            if lines.last() != Some(&value) {
                lines.push(value);
            }
        };
        match step.resource.as_str() {
            "deployments" | "replicasets" => {
                let what = format!("{} {name}", step.resource);
                if step.created {
                    add(format!("{what}: as created"), masked(object).to_string());
                }
                add(format!("{what}: sizes"), object["spec"]["replicas"].to_string());
                add(format!("{what}: annotations"), object["metadata"]["annotations"].to_string());
                add(format!("{what}: owners"), masked(&object["metadata"]["ownerReferences"]).to_string());
                for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
                    let state = format!("{} {}: {}", condition["status"], condition["reason"], condition["message"]);
                    add(format!("{what}: condition {}", condition["type"]), state);
                }
                last.insert((step.resource.clone(), name.to_owned()), object.clone());
            }
            "pods" => {
                if step.created {
                    shapes.entry("pods: as created".into()).or_default().insert(masked(object).to_string());
                    add("pods: created".into(), format!("{} {}", out_count(&shapes), family(name)));
                }
                let owners = masked(&object["metadata"]["ownerReferences"]).to_string();
                if generated(name).is_none() {
                    add(format!("pods {name}: owners"), owners);
                    add(format!("pods {name}: labels"), masked(&object["metadata"]["labels"]).to_string());
                }
                let key = ("pods".to_owned(), name.to_owned());
                if step.removed {
                    last.remove(&key)
                } else {
                    last.insert(key, object.clone())
                };
            }
            "events" => {
                let about =
                    if object["regarding"].is_object() { &object["regarding"] } else { &object["involvedObject"] };
                let note = object["note"].as_str().or_else(|| object["message"].as_str()).unwrap_or_default();
                let count = object["deprecatedCount"].as_u64().or_else(|| object["count"].as_u64()).unwrap_or(1);
                let line = format!(
                    "{} {} {} {} {}: {}",
                    about["kind"],
                    family(text(about, "/name")),
                    object["type"],
                    object["reason"],
                    reporter(object),
                    hide_generated(note)
                );
                events.insert(name.to_owned(), (count, line));
            }
            _ => {}
        }
    }
    // A Pod is created for each place, in whatever order: only how many of each family.
    out.remove("pods: created");
    let mut families: BTreeMap<String, usize> = BTreeMap::new();
    for step in steps.iter().filter(|s| s.resource == "pods" && s.created) {
        *families.entry(family(text(&step.object, "/metadata/name"))).or_default() += 1;
    }
    out.insert("pods: created".into(), families.into_iter().map(|(f, n)| format!("{n} of {f}")).collect());
    for (line, set) in shapes {
        out.insert(line, set.into_iter().collect());
    }
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    for (count, line) in events.into_values() {
        *counted.entry(line).or_default() += count;
    }
    out.insert("events".into(), counted.into_iter().map(|(line, n)| format!("{n} times {line}")).collect());
    let mut living: BTreeMap<String, usize> = BTreeMap::new();
    for ((resource, name), object) in &last {
        if resource == "pods" {
            *living.entry(family(name)).or_default() += 1;
        } else {
            out.insert(format!("{resource} {name}: final status"), vec![status(object).to_string()]);
        }
    }
    out.insert("pods: final".into(), living.into_iter().map(|(f, n)| format!("{n} of {f}")).collect());
    out
}

fn out_count(shapes: &BTreeMap<String, BTreeSet<String>>) -> usize {
    shapes.values().map(BTreeSet::len).sum()
}

/// Who an event says it comes from, in every field that says so.
fn reporter(object: &Value) -> String {
    let source = if object["deprecatedSource"].is_object() { &object["deprecatedSource"] } else { &object["source"] };
    let reporting = object["reportingController"].as_str().or_else(|| object["reportingComponent"].as_str());
    format!("{}/{}", text(source, "/component"), reporting.unwrap_or_default())
}

/// A status without times, its conditions in the order of their types.
fn status(object: &Value) -> Value {
    let mut status = object["status"].clone();
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.sort_by_key(|c| c["type"].to_string());
    }
    masked(&status)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The part of a generated name before its random end.
fn generated(name: &str) -> Option<&str> {
    let (head, tail) = name.rsplit_once('-')?;
    let random = tail.len() == 5 && tail.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b));
    random.then_some(head)
}

fn family(name: &str) -> String {
    generated(name).map_or_else(|| name.to_owned(), |head| format!("{head}-*"))
}

fn hide_generated(note: &str) -> String {
    note.split(' ').map(family).collect::<Vec<_>>().join(" ")
}

/// A value without what a server makes up: uids, versions, times, random ends of names.
pub(crate) fn masked(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(k, _)| *k != "managedFields")
            .map(|(k, v)| {
                let hidden = matches!(
                    k.as_str(),
                    "uid"
                        | "resourceVersion"
                        | "creationTimestamp"
                        | "lastTransitionTime"
                        | "lastUpdateTime"
                        | "namespace"
                        // On which node a Pod lands is the scheduler's choice.
                        | "topology.kubernetes.io/zone"
                );
                let v = match v.as_str() {
                    _ if hidden => json!("*"),
                    Some(name) if k == "name" => json!(family(name)),
                    _ => masked(v),
                };
                (k.clone(), v)
            })
            .collect(),
        Value::Array(items) => Value::Array(items.iter().map(masked).collect()),
        other => other.clone(),
    }
}

/// The lines in which two signatures differ.
pub(crate) fn differences(want: &Signature, got: &Signature) -> Vec<String> {
    let keys: BTreeSet<&String> = want.keys().chain(got.keys()).collect();
    let empty = Vec::new();
    keys.into_iter()
        .filter_map(|key| {
            let (want, got) = (want.get(key).unwrap_or(&empty), got.get(key).unwrap_or(&empty));
            (want != got).then(|| format!("{key}\n  want {}\n  got  {}", want.join("\n       "), got.join("\n       ")))
        })
        .collect()
}
