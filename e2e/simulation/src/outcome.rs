//! How a run ends: the state it leaves, made comparable, and what is wrong with it.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value, json};

use super::{hub::Point, json, scenarios, world::World};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant, promise or oracle.
    pub oracle: &'static str,
    /// The claims of `docs/behaviour` that it checks; empty if it checks the run itself.
    pub claims: &'static str,
    /// What was seen.
    pub what: String,
}

/// What a run was.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The scenario's name.
    pub scenario: String,
    /// Digest of everything that went between the processes and the API server, and when.
    pub hash: u64,
    /// Writes of the controllers as they left, Events aside.
    pub points: Vec<Point>,
    /// Steps of the users.
    pub steps: u64,
    /// Resources watched to which something happened, by program.
    pub watched: Vec<(&'static str, String)>,
    /// Accepted writes of all.
    pub writes: u64,
    /// Requests of all.
    pub requests: u64,
    /// Seconds the run took in the cluster.
    pub seconds: u64,
    /// How long users waited, each time that they waited for something: until the last write, or until what they wait for.
    pub waits: Vec<Duration>,
    /// Writes of the controllers for hostile neighbours, Events aside.
    pub beside: u64,
    /// The state in the end, made comparable: a count for each different object.
    pub end: BTreeMap<String, u32>,
    /// The first violation.
    pub violation: Option<Violation>,
    /// What there is to read of it.
    pub story: Story,
}

/// What there is to read of a run. Kept only of one that went wrong, or on demand.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// The writes, one line each.
    pub writes: Vec<String>,
    /// What every program said of itself in the end.
    pub explain: Value,
}

/// Resources that say nothing about where a run has got to.
const ASIDE: &[&str] =
    &["events", "leases.coordination.k8s.io", "nodes", "namespaces", "events.events.k8s.io", "resourcequotas"];

const SLICES: &str = "endpointslices.discovery.k8s.io";

/// What ReplicaSets remember of their Deployment's size.
const SIZES: [&str; 2] = ["deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"];

/// What objects are called by chance, and what they are called instead when runs are compared.
#[derive(Debug, Default)]
struct Names {
    /// By uid: what the object is, and whether it is gone.
    uids: BTreeMap<String, String>,
    /// Names that the server made up, and of what.
    generated: Vec<(String, String)>,
}

impl Names {
    fn add(&mut self, resource: &str, object: &Value, present: bool) {
        let (own, prefix) = (json::name(object), json::text(object, "/metadata/generateName"));
        let name = if prefix.is_empty() { own } else { prefix };
        let gone = if present { "" } else { ", which is gone" };
        self.uids.insert(json::uid(object).to_owned(), format!("uid of {resource} {name}{gone}"));
        if !prefix.is_empty() {
            self.generated.push((own.to_owned(), format!("{prefix}*")));
        }
    }

    fn mask(&self, text: &mut String) {
        if let Some(instead) = self.uids.get(text.as_str()) {
            text.clone_from(instead);
            return;
        }
        for (name, instead) in &self.generated {
            if text.contains(name.as_str()) {
                *text = text.replace(name.as_str(), instead);
            }
        }
    }
}

/// The end of a run: every object without what differs from run to run for no reason that matters.
pub(super) fn end(world: &World) -> BTreeMap<String, u32> {
    let mut names = Names::default();
    for ((resource, _, _), object, present) in world.ever() {
        names.add(resource, object, present);
    }
    let uncounted = scenarios::pods_ended_untracked(world);
    let mut end = BTreeMap::new();
    for ((resource, _, _), object) in world.present() {
        if ASIDE.contains(&resource.as_str()) || uncounted.contains(json::uid(object)) {
            continue;
        }
        let mut object = comparable(resource, object, &names);
        if resource == SLICES {
            // How endpoints are spread over the slices of a Service depends on the order of events; what they say together
            // does not.
            let endpoints = object["endpoints"].take();
            let slice = object.to_string();
            for endpoint in endpoints.as_array().into_iter().flatten() {
                *end.entry(format!("{slice} {endpoint}")).or_insert(0) += 1;
            }
            end.insert(slice, 1);
        } else {
            *end.entry(object.to_string()).or_insert(0) += 1;
        }
    }
    end
}

/// What becomes of a field that is not compared as it is.
#[derive(Clone, Copy)]
enum Mask {
    Removed,
    Hidden,
    /// A field of this name says whether it is there.
    Whether(&'static str),
    Changed(fn(&mut Value)),
}

const TERMS: [&str; 5] =
    ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];

/// The fields that are not compared as they are: of these resources, or of all; the path, in which `*` stands for every item and
/// for the rest of a name; and what becomes of them.
const MASKS: &[(&[&str], &[&str], Mask)] = &[
    (&[], &[], Mask::Changed(observed)),
    (&[], &["metadata", "uid"], Mask::Removed),
    (&[], &["metadata", "resourceVersion"], Mask::Removed),
    (&[], &["metadata", "creationTimestamp"], Mask::Removed),
    (&[], &["metadata", "generation"], Mask::Removed),
    (&[], &["metadata", "managedFields"], Mask::Removed),
    (&[], &["metadata", "deletionTimestamp"], Mask::Hidden),
    (&[], &["metadata"], Mask::Changed(generated_name)),
    (&[], &["status", "conditions", "*"], Mask::Changed(finished_rollout)),
    (&["pods"], &["status"], Mask::Changed(phase_and_readiness)),
    (&["pods"], &["spec", "nodeName"], Mask::Whether("bound")),
    // The name of its node, in a Pod of a DaemonSet.
    (&["pods"], &[TERMS[0], TERMS[1], TERMS[2], TERMS[3], TERMS[4], "*", "matchFields", "*", "values"], Mask::Hidden),
    // The node's place comes with the node.
    (&["pods"], &["metadata", "labels", "topology.kubernetes.io/*"], Mask::Removed),
    (&["services"], &["spec"], Mask::Changed(drawn_addresses)),
    // Addresses and places come with Pods and nodes; when a change was first told of is a matter of timing.
    (&[SLICES, "endpoints"], &[], Mask::Changed(bare_endpoints)),
    (&["replicasets.apps"], &[], Mask::Changed(old_sizes)),
];

impl Mask {
    fn apply(self, path: &[&str], value: &mut Value) {
        match (path, value) {
            ([], value) => {
                if let Self::Changed(change) = self {
                    change(value);
                }
            }
            (["*", rest @ ..], Value::Array(items)) => items.iter_mut().for_each(|item| self.apply(rest, item)),
            ([field], Value::Object(fields)) if !matches!(self, Self::Changed(_)) => match self {
                Self::Whether(name) => {
                    let is_there = fields.remove(*field).is_some();
                    fields.insert(name.to_owned(), json!(is_there));
                }
                Self::Hidden => {
                    if let Some(value) = fields.get_mut(*field) {
                        *value = json!("masked");
                    }
                }
                _ => fields
                    .retain(|key, _| field.strip_suffix('*').map_or(key != field, |start| !key.starts_with(start))),
            },
            ([field, rest @ ..], Value::Object(fields)) => {
                if let Some(value) = fields.get_mut(*field) {
                    self.apply(rest, value);
                }
            }
            _ => {}
        }
    }
}

fn observed(object: &mut Value) {
    let generation = json::number(object, "/metadata/generation");
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut)
        && let Some(observed) = status.remove("observedGeneration")
    {
        status.insert("observed".to_owned(), json!(observed == generation));
    }
}

fn generated_name(metadata: &mut Value) {
    if let Some(metadata) = metadata.as_object_mut().filter(|metadata| metadata.contains_key("generateName")) {
        metadata.remove("name");
    }
}

/// Whether a rollout that was interrupted at its start names its own ReplicaSet in the end: with upstream's rules it may name the
/// one before, under Recreate, where a reason is not replaced while all Pods there are new.
fn finished_rollout(condition: &mut Value) {
    if condition["reason"] == "NewReplicaSetAvailable" {
        condition["message"] = json!("masked");
    }
}

fn phase_and_readiness(status: &mut Value) {
    let pod = json!({ "status": status.take() });
    *status = json!({"phase": pod["status"]["phase"], "ready": json::condition(&pod, "Ready", "status")});
}

fn drawn_addresses(spec: &mut Value) {
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|field, address| !field.starts_with("clusterIP") || *address == "None");
    }
}

/// What an empty ReplicaSet remembers of its Deployment's size is of when it was last active, and is written anew before it counts
/// again.
fn old_sizes(set: &mut Value) {
    if json::number(set, "/spec/replicas") == 0
        && let Some(annotations) = set.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
    {
        annotations.retain(|key, _| !SIZES.contains(&key.as_str()));
    }
}

fn comparable(resource: &str, object: &Value, names: &Names) -> Value {
    let mut object = object.clone();
    for (resources, path, how) in MASKS {
        if resources.is_empty() || resources.contains(&resource) {
            how.apply(path, &mut object);
        }
    }
    mask(&mut object, names);
    // Nobody looks after the slices of a Service that is gone: they stay as its controller has left them, which it may have done
    // before or after the last change of a Pod.
    let is_left = |owner: &Value| json::text(owner, "/uid").ends_with(", which is gone");
    if resource == SLICES && json::owners(&object).any(is_left) {
        object["endpoints"] = json!("masked");
    }
    object
}

/// What is behind a Service, and whether it can be used; in no order.
fn bare_endpoints(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
    {
        annotations.remove("endpoints.kubernetes.io/last-change-trigger-time");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    let mut lists: Vec<&mut Value> = Vec::new();
    match object {
        Value::Object(fields) => {
            for (field, value) in fields.iter_mut() {
                match (field.as_str(), value) {
                    ("endpoints", endpoints) => lists.push(endpoints),
                    ("subsets", Value::Array(subsets)) => lists.extend(subsets.iter_mut().flat_map(|subset| {
                        let fields = subset.as_object_mut().into_iter().flatten();
                        fields.filter(|(field, _)| *field != "ports").map(|(_, addresses)| addresses)
                    })),
                    _ => {}
                }
            }
        }
        _ => return,
    }
    for list in lists {
        let mut kinds: Vec<String> = Vec::new();
        for endpoint in list.as_array().into_iter().flatten() {
            let target = json::text(endpoint, "/targetRef/kind");
            let hinted = !endpoint["hints"].is_null();
            kinds.push(format!("{target} {} hinted: {hinted}", endpoint["conditions"]));
        }
        kinds.sort();
        *list = json!(kinds);
    }
}

/// Takes times and what is called by chance out, and sorts conditions: their order tells in which order things went wrong.
fn mask(value: &mut Value, names: &Names) {
    match value {
        Value::Object(fields) => {
            let timed = |key: &String| key.ends_with("Time") || key.ends_with("Timestamp");
            fields.retain(|key, _| !timed(key) || key == "deletionTimestamp");
            if let Some(Value::Array(conditions)) = fields.get_mut("conditions") {
                conditions.sort_by_key(|c| json::text(c, "/type").to_owned());
            }
            fields.values_mut().for_each(|field| mask(field, names));
            sort(fields);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, names)),
        Value::String(text) => names.mask(text),
        _ => {}
    }
}

fn sort(fields: &mut Map<String, Value>) {
    let sorted: BTreeMap<String, Value> = std::mem::take(fields).into_iter().collect();
    fields.extend(sorted);
}

pub(super) fn differences(wanted: &BTreeMap<String, u32>, got: &BTreeMap<String, u32>) -> Vec<String> {
    let mut out = Vec::new();
    let count = |end: &BTreeMap<String, u32>, object: &String| end.get(object).copied().unwrap_or(0);
    for object in wanted.keys().chain(got.keys().filter(|object| !wanted.contains_key(*object))) {
        let (a, b) = (count(wanted, object), count(got, object));
        if a != b {
            out.push(format!("unperturbed run {a}, this run {b}: {object}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_by_chance_is_not_compared_and_what_matters_is() {
        let pod = |name: &str, node: &str, ready: &str, owner_is_there: bool| {
            let mut names = Names::default();
            names.add(
                "replicasets.apps",
                &json!({"metadata": {"name": "web", "uid": format!("of {name}")}}),
                owner_is_there,
            );
            comparable(
                "pods",
                &json!({"metadata": {"name": name, "generateName": "web-", "uid": name, "ownerReferences":
                    [{"kind": "ReplicaSet", "name": "web", "uid": format!("of {name}"), "controller": true}]},
                    "spec": {"nodeName": node},
                    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}}),
                &names,
            )
        };
        assert_eq!(pod("web-a", "node-1", "True", true), pod("web-b", "node-2", "True", true));
        assert_ne!(pod("web-a", "node-1", "True", true), pod("web-a", "node-1", "False", true));
        assert_ne!(pod("web-a", "node-1", "True", true), pod("web-a", "node-1", "True", false));
    }

    #[test]
    fn a_generated_name_is_masked_wherever_it_stands() {
        let mut names = Names::default();
        names.add("pods", &json!({"metadata": {"name": "sum-x7k2p", "generateName": "sum-", "uid": "u"}}), true);
        let job = json!({"status": {"conditions": [{"message": "pod default/sum-x7k2p failed"}], "uncounted": ["u"]}});
        assert_eq!(
            comparable("jobs.batch", &job, &names).to_string(),
            r#"{"status":{"conditions":[{"message":"pod default/sum-* failed"}],"uncounted":["uid of pods sum-"]}}"#
        );
    }

    #[test]
    fn differences_name_both_sides() {
        let end = |objects: &[(&str, u32)]| objects.iter().map(|(o, n)| ((*o).to_owned(), *n)).collect();
        let lines = differences(&end(&[("a", 2), ("b", 1)]), &end(&[("a", 1), ("c", 1)]));
        assert_eq!(
            lines,
            [
                "unperturbed run 2, this run 1: a",
                "unperturbed run 1, this run 0: b",
                "unperturbed run 0, this run 1: c"
            ]
        );
    }
}
