//! The live objects that a plan starts from.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{is_namespaced, steps::text};

/// A kind whose objects a plan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadKind {
    /// `apiVersion` of the objects.
    pub api_version: &'static str,
    /// Kind of the objects.
    pub kind: &'static str,
    /// Resource in the form that `kubectl auth can-i` takes.
    pub resource: &'static str,
}

const fn reads(api_version: &'static str, kind: &'static str, resource: &'static str) -> ReadKind {
    ReadKind { api_version, kind, resource }
}

/// The kinds that are read in each namespace of the given objects.
pub const IN_NAMESPACES: &[ReadKind] = &[
    reads("apps/v1", "ControllerRevision", "controllerrevisions.apps"),
    reads("apps/v1", "DaemonSet", "daemonsets.apps"),
    reads("apps/v1", "Deployment", "deployments.apps"),
    reads("apps/v1", "ReplicaSet", "replicasets.apps"),
    reads("apps/v1", "StatefulSet", "statefulsets.apps"),
    reads("batch/v1", "CronJob", "cronjobs.batch"),
    reads("batch/v1", "Job", "jobs.batch"),
    reads("discovery.k8s.io/v1", "EndpointSlice", "endpointslices.discovery.k8s.io"),
    reads("v1", "Endpoints", "endpoints"),
    reads("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    reads("v1", "Pod", "pods"),
    reads("v1", "ReplicationController", "replicationcontrollers"),
    reads("v1", "ResourceQuota", "resourcequotas"),
    reads("v1", "Service", "services"),
];
/// Nodes, which are read in the whole cluster.
pub const NODES: ReadKind = reads("v1", "Node", "nodes");

/// Namespaces, each of which is read by its name.
const NAMESPACES: ReadKind = reads("v1", "Namespace", "namespaces");

/// How many nodes are simulated if no node is known.
const SIMULATED_NODES: usize = 3;

/// Returns the kinds without which the loops of `kind` would be predicted wrongly.
pub(crate) fn needed_by(kind: &str) -> &'static [&'static str] {
    match kind {
        "Deployment" => &["Deployment", "ReplicaSet", "Pod"],
        "ReplicaSet" => &["ReplicaSet", "Pod"],
        "ReplicationController" => &["ReplicationController", "Pod"],
        "StatefulSet" => &["StatefulSet", "ControllerRevision", "Pod"],
        "DaemonSet" => &["DaemonSet", "ControllerRevision", "Pod"],
        "Job" => &["Job", "Pod"],
        "CronJob" => &["CronJob", "Job", "Pod"],
        _ => &[],
    }
}

/// A list that could not be read.
#[derive(Clone, Debug)]
pub struct UnreadList {
    /// The kind of the objects.
    pub kind: ReadKind,
    /// Namespace of the list; `None` for the whole cluster.
    pub namespace: Option<String>,
    /// The reason, in one line.
    pub why: String,
}

/// The objects of a cluster that concern a plan.
#[derive(Clone, Debug, Default)]
pub struct LiveState {
    /// The objects as the server returned them, with `apiVersion` and `kind`.
    pub objects: Vec<Value>,
    /// The lists that could not be read.
    pub unread: Vec<UnreadList>,
}

impl LiveState {
    /// Returns a note for Nodes, and one for each namespace, if lists could not be read.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut by_namespace: BTreeMap<Option<&str>, Vec<&UnreadList>> = BTreeMap::new();
        for list in &self.unread {
            by_namespace.entry(list.namespace.as_deref()).or_default().push(list);
        }
        let note = |(namespace, lists): (Option<&str>, Vec<&UnreadList>)| {
            let why = &lists.first()?.why;
            let Some(namespace) = namespace else {
                let count = self.simulated_node_names().len();
                return Some(format!("Nodes cannot be read: {why}. {count} simulated nodes are used instead"));
            };
            let kinds: Vec<String> =
                lists.iter().map(|list| format!("{}s", list.kind.kind.trim_end_matches('s'))).collect();
            let kinds = kinds.join(", ");
            Some(format!(
                "{kinds} in the namespace {namespace} cannot be read: {why}. The plan assumes that there are none"
            ))
        };
        by_namespace.into_iter().filter_map(note).collect()
    }

    /// The nodes that the Pods name; `node-0` and so on if they name none.
    fn simulated_node_names(&self) -> BTreeSet<String> {
        let pods = self.objects.iter().filter(|object| text(object, "/kind") == "Pod");
        let named = pods.map(|pod| text(pod, "/spec/nodeName").to_owned()).filter(|name| !name.is_empty());
        let named: BTreeSet<String> = named.collect();
        if named.is_empty() { (0..SIMULATED_NODES).map(|index| format!("node-{index}")).collect() } else { named }
    }

    /// Returns the objects for the simulation: those that were read, stand-ins for owners that were not, and simulated nodes.
    ///
    /// An object is left out if the list with its owner could not be read, because the garbage collector would delete it.
    pub(crate) fn into_objects(self) -> Vec<Value> {
        let lacks_nodes = self.unread.iter().any(|list| list.kind == NODES);
        let node_names = if lacks_nodes { self.simulated_node_names() } else { BTreeSet::new() };
        let known: BTreeSet<String> =
            self.objects.iter().map(|object| text(object, "/metadata/uid").to_owned()).collect();
        let unread: BTreeSet<&str> = self.unread.iter().map(|list| list.kind.kind).collect();
        let mut stand_ins = BTreeMap::new();
        let mut objects = self.objects;
        objects.retain(|object| {
            for owner in owners(object).filter(|owner| !known.contains(text(owner, "/uid"))) {
                if unread.contains(text(owner, "/kind")) {
                    return false;
                }
                if !is_read(owner) {
                    let stand_in = stand_in(owner, text(object, "/metadata/namespace"));
                    stand_ins.insert(text(owner, "/uid").to_owned(), stand_in);
                }
            }
            true
        });
        objects.extend(stand_ins.into_values().flatten());
        objects.extend(node_names.iter().map(|name| ready_node(name)));
        objects
    }
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten()
}

/// Whether the objects with the kind of an object, or of an owner in a reference, are read.
pub(crate) fn is_read(object: &Value) -> bool {
    let mut all = IN_NAMESPACES.iter().chain([&NODES, &NAMESPACES]);
    all.any(|read| read.kind == text(object, "/kind") && read.api_version == text(object, "/apiVersion"))
}

/// Returns an object that only exists, so that the garbage collector keeps its dependents; `None` for custom resources.
fn stand_in(owner: &Value, namespace: &str) -> Option<Value> {
    let mut object = json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "metadata": {"name": owner["name"], "uid": owner["uid"]},
    });
    if is_namespaced(&object)? {
        object["metadata"]["namespace"] = namespace.into();
    }
    Some(object)
}

fn ready_node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": format!("simulated-{name}"), "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}
