//! What of a run does not race: the part of a trace that two runs must have in common.

use std::collections::{BTreeMap, BTreeSet};

use e2e::sandbox::{Change, Write};
use serde_json::{Value, json};

use crate::world::name;

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

impl Step {
    /// A line of a recording.
    pub(crate) fn recorded(line: &Value) -> Self {
        Self {
            resource: line["kind"].as_str().unwrap().to_owned(),
            created: line["type"] == "ADDED",
            removed: line["type"] == "DELETED",
            object: line["object"].clone(),
        }
    }

    /// A write that the sandbox accepted.
    pub(crate) fn written(write: &Write) -> Self {
        Self {
            resource: write.resource.clone(),
            created: write.change == Change::Added,
            removed: write.change == Change::Deleted,
            object: write.after().or_else(|| write.before()).map_or(Value::Null, |object| (*object).clone()),
        }
    }

    pub(crate) fn name(&self) -> &str {
        name(&self.object)
    }

    pub(crate) fn is_terminating(&self) -> bool {
        !self.object["metadata"]["deletionTimestamp"].is_null()
    }
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

    /// Replaces the values by one.
    pub(crate) fn set(&mut self, line: impl Into<String>, value: impl ToString) {
        self.0.insert(line.into(), vec![value.to_string()]);
    }

    /// Replaces the values by each of these that differ, in any order, with its number.
    pub(crate) fn tally(&mut self, line: impl Into<String>, values: impl IntoIterator<Item = String>) {
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        for value in values {
            *numbers.entry(value).or_default() += 1;
        }
        let values = numbers.into_iter().map(|(value, number)| format!("{number} times {value}"));
        self.0.insert(line.into(), values.collect());
    }

    /// The values of a line.
    pub(crate) fn values(&self, line: &str) -> &[String] {
        self.0.get(line).map_or(&[], Vec::as_slice)
    }

    /// Removes a line, and returns its values.
    pub(crate) fn take(&mut self, line: &str) -> Vec<String> {
        self.0.remove(line).unwrap_or_default()
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
    // An Event is counted as often as its last state says.
    let mut events: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    let mut living: BTreeSet<&str> = BTreeSet::new();
    for step in steps {
        let (object, name) = (&step.object, step.name());
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
                out.set(format!("{what}: final status"), status(object));
            }
            "pods" => {
                if step.created {
                    out.insert("pods: as created", masked(object));
                }
                if generated(name).is_none() {
                    out.push(format!("pods {name}: owners"), masked(&object["metadata"]["ownerReferences"]));
                    out.push(format!("pods {name}: labels"), masked(&object["metadata"]["labels"]));
                }
                if step.removed {
                    living.remove(name)
                } else {
                    living.insert(name)
                };
            }
            "events" => {
                let EventText { about, note, component } = EventText::of(object);
                let one_of = |fields: [&str; 2]| fields.into_iter().map(|field| &object[field]).find(|v| !v.is_null());
                let reporting = one_of(["reportingController", "reportingComponent"]).and_then(Value::as_str);
                let count = one_of(["deprecatedCount", "count"]).and_then(Value::as_u64).unwrap_or(1);
                let (about, reporting) =
                    ((&about["kind"], about["name"].as_str().map(family)), reporting.unwrap_or_default());
                let text = format!("{about:?} {} {} {component}/{reporting}", object["type"], object["reason"]);
                events.insert(name, (usize::try_from(count).unwrap(), format!("{text}: {}", hide_generated(note))));
            }
            _ => {}
        }
    }
    // A Pod is created for each place, in whatever order: only how many of each family.
    let created = steps.iter().filter(|step| step.resource == "pods" && step.created);
    out.tally("pods: created", created.map(|step| family(step.name())));
    out.tally("pods: final", living.into_iter().map(family));
    out.tally("events", events.into_values().flat_map(|(count, text)| vec![text; count]));
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

/// What two runs have in common of a ControllerRevision.
pub(crate) fn revision(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let owners = masked(&metadata["ownerReferences"]);
    json!([metadata["labels"], metadata["annotations"], owners, object["revision"], object["data"]])
}

/// The part of a generated name before its random end.
fn generated(name: &str) -> Option<&str> {
    let (head, tail) = name.rsplit_once('-')?;
    let random = tail.len() == 5 && tail.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b));
    random.then_some(head)
}

pub(crate) fn family(name: &str) -> String {
    generated(name).map_or_else(|| name.to_owned(), |head| format!("{head}-*"))
}

pub(crate) fn hide_generated(note: &str) -> String {
    note.split([' ', '/']).map(family).collect::<Vec<_>>().join(" ")
}

/// What a server makes up.
const MADE_UP: [&str; 7] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "namespace",
    // On which node a Pod lands is the scheduler's choice.
    "topology.kubernetes.io/zone",
];

/// A value without what a server makes up: uids, versions, times, random ends of names.
pub(crate) fn masked(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(k, _)| *k != "managedFields")
            .map(|(k, v)| {
                let v = match v.as_str() {
                    _ if MADE_UP.contains(&k.as_str()) => json!("*"),
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
