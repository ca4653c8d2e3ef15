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

/// What two runs of one scenario have in common: the values of each line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Signature(BTreeMap<String, Vec<String>>);

impl Signature {
    /// Adds a value behind the others, unless it repeats the last one.
    pub(crate) fn push(&mut self, line: impl Into<String>, value: impl ToString) {
        let (values, value) = (self.0.entry(line.into()).or_default(), value.to_string());
        if values.last() != Some(&value) {
            values.push(value);
        }
    }

    /// Adds a value to those that come in any order, once.
    pub(crate) fn insert(&mut self, line: impl Into<String>, value: impl ToString) {
        let (values, value) = (self.0.entry(line.into()).or_default(), value.to_string());
        if let Err(place) = values.binary_search(&value) {
            values.insert(place, value);
        }
    }

    /// Replaces the values.
    pub(crate) fn set(&mut self, line: impl Into<String>, values: Vec<String>) {
        self.0.insert(line.into(), values);
    }

    /// The values of a line.
    pub(crate) fn values(&self, line: &str) -> &[String] {
        self.0.get(line).map_or(&[], Vec::as_slice)
    }

    /// The number of lines.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Fails with the lines in which it differs from that of another run.
    pub(crate) fn assert_same(&self, recorded: &Self) {
        let lines: BTreeSet<&String> = recorded.0.keys().chain(self.0.keys()).collect();
        let differing = lines.into_iter().filter(|line| self.values(line) != recorded.values(line));
        let show = |values: &[String]| values.join("\n       ");
        let differences: Vec<String> = differing
            .map(|line| format!("{line}\n  want {}\n  got  {}", show(recorded.values(line)), show(self.values(line))))
            .collect();
        assert!(differences.is_empty(), "the runs differ:\n{}", differences.join("\n"));
    }
}

/// An Event of either API, in the same words.
pub(crate) struct EventText<'a> {
    pub(crate) about: &'a Value,
    pub(crate) note: &'a str,
    pub(crate) component: &'a str,
}

impl<'a> EventText<'a> {
    pub(crate) fn of(object: &'a Value) -> Self {
        let one_of = |new: &str, old: &str| if object[new].is_null() { &object[old] } else { &object[new] };
        let source = one_of("deprecatedSource", "source");
        Self {
            about: one_of("regarding", "involvedObject"),
            note: one_of("note", "message").as_str().unwrap_or_default(),
            component: source["component"].as_str().unwrap_or_default(),
        }
    }
}

/// Takes the signature of a run.
pub(crate) fn signature(steps: &[Step]) -> Signature {
    let mut out = Signature::default();
    let mut events: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let mut last: BTreeMap<(String, String), Value> = BTreeMap::new();
    for step in steps {
        let object = &step.object;
        let name = text(object, "/metadata/name");
        match step.resource.as_str() {
            "deployments" | "replicasets" => {
                let what = format!("{} {name}", step.resource);
                if step.created {
                    out.push(format!("{what}: as created"), masked(object));
                }
                out.push(format!("{what}: sizes"), &object["spec"]["replicas"]);
                out.push(format!("{what}: annotations"), &object["metadata"]["annotations"]);
                out.push(format!("{what}: owners"), masked(&object["metadata"]["ownerReferences"]));
                for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
                    let state = format!("{} {}: {}", condition["status"], condition["reason"], condition["message"]);
                    out.push(format!("{what}: condition {}", condition["type"]), state);
                }
                last.insert((step.resource.clone(), name.to_owned()), object.clone());
            }
            "pods" => {
                if step.created {
                    out.insert("pods: as created", masked(object));
                }
                if generated(name).is_none() {
                    out.push(format!("pods {name}: owners"), masked(&object["metadata"]["ownerReferences"]));
                    out.push(format!("pods {name}: labels"), masked(&object["metadata"]["labels"]));
                }
                let key = ("pods".to_owned(), name.to_owned());
                if step.removed {
                    last.remove(&key)
                } else {
                    last.insert(key, object.clone())
                };
            }
            "events" => {
                let EventText { about, note, component } = EventText::of(object);
                let reporting =
                    object["reportingController"].as_str().or_else(|| object["reportingComponent"].as_str());
                let count = object["deprecatedCount"].as_u64().or_else(|| object["count"].as_u64()).unwrap_or(1);
                let line = format!(
                    "{} {} {} {} {component}/{}: {}",
                    about["kind"],
                    family(text(about, "/name")),
                    object["type"],
                    object["reason"],
                    reporting.unwrap_or_default(),
                    hide_generated(note)
                );
                events.insert(name.to_owned(), (count, line));
            }
            _ => {}
        }
    }
    // A Pod is created for each place, in whatever order: only how many of each family.
    let mut families: BTreeMap<String, usize> = BTreeMap::new();
    for step in steps.iter().filter(|s| s.resource == "pods" && s.created) {
        *families.entry(family(text(&step.object, "/metadata/name"))).or_default() += 1;
    }
    out.set("pods: created", families.into_iter().map(|(f, n)| format!("{n} of {f}")).collect());
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    for (count, line) in events.into_values() {
        *counted.entry(line).or_default() += count;
    }
    out.set("events", counted.into_iter().map(|(line, n)| format!("{n} times {line}")).collect());
    let mut living: BTreeMap<String, usize> = BTreeMap::new();
    for ((resource, name), object) in &last {
        if resource == "pods" {
            *living.entry(family(name)).or_default() += 1;
        } else {
            out.set(format!("{resource} {name}: final status"), vec![status(object).to_string()]);
        }
    }
    out.set("pods: final", living.into_iter().map(|(f, n)| format!("{n} of {f}")).collect());
    out
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

pub(crate) fn hide_generated(note: &str) -> String {
    note.split([' ', '/']).map(family).collect::<Vec<_>>().join(" ")
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
