//! From the accepted writes of the simulated server to the steps of the controllers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use jiff::Timestamp;
use sandbox::{Change, Write};
use serde::Serialize;
use serde_json::Value;

use super::live::is_read;

/// Kind, namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ObjectName {
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name. A part that the server generates at random is shown as `?????`.
    pub name: String,
}

impl ObjectName {
    /// Reads the name of an object.
    pub fn of(object: &Value) -> Self {
        let [kind, namespace, name] =
            ["/kind", "/metadata/namespace", "/metadata/name"].map(|path| text(object, path).to_owned());
        Self { kind, namespace, name }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name } = self;
        if namespace.is_empty() { write!(f, "{kind} {name}") } else { write!(f, "{kind} {namespace}/{name}") }
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Time since the start, in whole seconds.
    pub seconds: u64,
    /// The object that takes the step, or that a user or its controller changes.
    pub object: ObjectName,
    /// What happens.
    #[serde(flatten)]
    pub action: Action,
}

/// What happens in a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "camelCase")]
pub enum Action {
    /// The user creates the object.
    Apply,
    /// The user changes these fields of the object.
    ApplyChange {
        /// Each field with its value before and after.
        fields: Vec<String>,
    },
    /// The controller creates a child of the object.
    Create {
        /// The new object.
        child: ObjectName,
        /// `spec.replicas` of the child and of the object, if the child has a size.
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<(i64, i64)>,
    },
    /// The controller changes the size of the object.
    Scale {
        /// `spec.replicas` before.
        from: i64,
        /// `spec.replicas` after.
        to: i64,
    },
    /// The controller changes these other fields of the object.
    Change {
        /// Each field with its value before and after.
        fields: Vec<String>,
    },
    /// The controller deletes a child of the object.
    Delete {
        /// The deleted object.
        child: ObjectName,
    },
    /// The status of the object reports something new.
    Report {
        /// What it reports.
        text: String,
    },
}

/// Collects the steps of the given objects and of the objects that belong to them.
#[derive(Debug)]
pub(crate) struct Record {
    start: Timestamp,
    names: BTreeMap<String, ObjectName>,
    sizes: BTreeMap<String, i64>,
    /// UIDs of the given objects and of their dependents.
    related: BTreeSet<String>,
    /// Names that the simulated server has generated, each with the form that is shown.
    generated: BTreeMap<String, String>,
    steps: Vec<Step>,
    other_steps: usize,
}

impl Record {
    /// Begins with the live objects and those that the user has applied to them.
    pub(crate) fn new(start: Timestamp, live: &[Value], applied: &[Value]) -> Self {
        let uid = |object: &Value| text(object, "/metadata/uid").to_owned();
        let all = || live.iter().chain(applied);
        let mut record = Self {
            start,
            names: all().map(|object| (uid(object), ObjectName::of(object))).collect(),
            sizes: all().filter_map(|object| Some((uid(object), replicas(object)?))).collect(),
            related: applied.iter().map(uid).collect(),
            generated: BTreeMap::new(),
            steps: Vec::new(),
            other_steps: 0,
        };
        for after in applied.iter().filter(|object| is_read(object)) {
            let fields =
                live.iter().find(|before| uid(before) == uid(after)).map(|before| changed_fields(before, after));
            let action = match fields {
                None => Action::Apply,
                Some(fields) if fields.is_empty() => continue,
                Some(fields) => Action::ApplyChange { fields },
            };
            record.steps.push(Step { seconds: 0, object: ObjectName::of(after), action });
        }
        // An owner may follow its dependents in the list.
        loop {
            let before = record.related.len();
            for object in live {
                record.relate(object);
            }
            if record.related.len() == before {
                return record;
            }
        }
    }

    fn relate(&mut self, object: &Value) {
        if controller_of(object).is_some_and(|uid| self.related.contains(uid)) {
            self.related.insert(text(object, "/metadata/uid").to_owned());
        }
    }

    /// Adds the steps of one write.
    pub(crate) fn add(&mut self, write: &Write) {
        let (before, after) = (write.before(), write.after());
        let Some(object) = after.as_deref().or(before.as_deref()) else { return };
        if matches!(write.resource.as_str(), "events" | "leases") {
            return;
        }
        let uid = text(object, "/metadata/uid").to_owned();
        if write.change == Change::Added {
            let name = self.shown_name(object);
            self.names.insert(uid.clone(), name);
            self.relate(object);
        }
        if let Some(size) = replicas(object) {
            self.sizes.insert(uid.clone(), size);
        }
        let own = self.names.get(&uid).cloned().unwrap_or_else(|| ObjectName::of(object));
        let (owner_uid, owner) = match controller_of(object) {
            Some(owner) => (Some(owner.to_owned()), self.names.get(owner).cloned()),
            None => self.set_of_claim(&own).unzip(),
        };
        let actor = owner.unwrap_or_else(|| own.clone());
        let is_deleting = |object: &Value| object.pointer("/metadata/deletionTimestamp").is_some();
        let is_new = write.change == Change::Added;
        let is_deletion = match (before.as_deref(), after.as_deref()) {
            (Some(before), after) => !is_deleting(before) && after.is_none_or(is_deleting),
            _ => false,
        };
        let mut steps = Vec::new();
        if is_new {
            let of_owner = owner_uid.as_ref().and_then(|owner| self.sizes.get(owner));
            let size = replicas(object).zip(of_owner.copied());
            steps.push((actor, Action::Create { child: own, size }));
        } else if is_deletion {
            steps.push((actor, Action::Delete { child: own }));
        } else if let (Some(before), Some(after)) = (before.as_deref(), after.as_deref()) {
            // A binding changes the Pod, too.
            if write.subresource.as_deref() == Some("binding") {
                return;
            }
            if let Some((from, to)) = replicas(before).zip(replicas(after)).filter(|(from, to)| from != to) {
                steps.push((own.clone(), Action::Scale { from, to }));
            }
            let fields = changed_spec(before, after);
            if !fields.is_empty() {
                steps.push((own.clone(), Action::Change { fields }));
            }
            let texts = reports(&own.kind, before, after).into_iter();
            steps.extend(texts.map(|text| (own.clone(), Action::Report { text: self.hide_generated_names(&text) })));
        }
        let is_related = self.related.contains(&uid) || owner_uid.is_some_and(|owner| self.related.contains(&owner));
        if !is_related {
            self.other_steps += steps.len();
            return;
        }
        let seconds = u64::try_from(write.at.duration_since(self.start).as_secs()).unwrap_or(0);
        self.steps.extend(steps.into_iter().map(|(object, action)| Step { seconds, object, action }));
    }

    /// Returns the name of a new object, with `?????` in place of a random suffix.
    fn shown_name(&mut self, object: &Value) -> ObjectName {
        let mut shown = ObjectName::of(object);
        let prefix = text(object, "/metadata/generateName");
        if !prefix.is_empty() && shown.name.len() == prefix.len() + 5 && shown.name.starts_with(prefix) {
            let hidden = format!("{prefix}?????");
            self.generated.insert(std::mem::replace(&mut shown.name, hidden.clone()), hidden);
        }
        shown
    }

    /// Returns UID and name of the related StatefulSet that a claim without an owner belongs to: `data-web-0` to `web`.
    fn set_of_claim(&self, claim: &ObjectName) -> Option<(String, ObjectName)> {
        if claim.kind != "PersistentVolumeClaim" {
            return None;
        }
        let (name, _) = claim.name.rsplit_once('-')?;
        let owns = |uid: &&String| {
            let set = self.names.get(*uid);
            set.is_some_and(|set| {
                set.kind == "StatefulSet"
                    && set.namespace == claim.namespace
                    && name.strip_suffix(&set.name).is_some_and(|template| template.ends_with('-'))
            })
        };
        let uid = self.related.iter().find(owns)?;
        Some((uid.clone(), self.names.get(uid)?.clone()))
    }

    /// Replaces the names that the simulated server has generated, also those of objects that it has refused.
    pub(crate) fn hide_generated_names(&self, text: &str) -> String {
        let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        let words: BTreeSet<&str> =
            text.split(|c: char| !is_of_a_name(c)).map(|word| word.trim_end_matches('.')).collect();
        let hidden = words.into_iter().filter_map(|word| Some((word, self.hidden_name(word)?)));
        hidden.fold(text.to_owned(), |text, (word, hidden)| text.replace(word, &hidden))
    }

    fn hidden_name(&self, word: &str) -> Option<String> {
        if let Some(hidden) = self.generated.get(word) {
            return Some(hidden.clone());
        }
        let (owner, suffix) = word.rsplit_once('-').filter(|(_, suffix)| suffix.len() == 5)?;
        let is_owner = |known: &ObjectName| known.name == owner && known.kind != "StatefulSet";
        let is_refused = self.names.values().any(is_owner) && !self.names.values().any(|known| known.name == word);
        is_refused.then(|| format!("{}?????", word.strip_suffix(suffix).unwrap_or(word)))
    }

    /// Returns the steps, and the number of steps of other objects.
    pub(crate) fn into_steps(self) -> (Vec<Step>, usize) {
        (self.steps, self.other_steps)
    }
}

/// Returns the text at a JSON pointer; empty if the object has no such text.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn replicas(object: &Value) -> Option<i64> {
    object.pointer("/spec/replicas").and_then(Value::as_i64)
}

/// Returns the UID of the owner that controls an object.
pub(crate) fn controller_of(object: &Value) -> Option<&str> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().find(|owner| owner["controller"] == true).and_then(|owner| owner["uid"].as_str())
}

/// Returns the fields of an object that an apply has changed, without those that the server sets.
fn changed_fields(before: &Value, after: &Value) -> Vec<String> {
    // The first is kubectl's, the second the server's.
    const NOT_OF_USER: [&str; 2] =
        ["kubectl.kubernetes.io/last-applied-configuration", "deprecated.daemonset.template.generation"];
    let of_user = |object: &Value| {
        let mut object = object.clone();
        let metadata = object["metadata"].take();
        object["status"].take();
        object["metadata"] = serde_json::json!({"labels": metadata["labels"], "annotations": metadata["annotations"]});
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.retain(|key, _| !NOT_OF_USER.contains(&key.as_str()));
        }
        object
    };
    let mut fields = Vec::new();
    compare("", &of_user(before), &of_user(after), &mut fields);
    fields
}

/// Returns the fields that a controller has changed, without the size.
fn changed_spec(before: &Value, after: &Value) -> Vec<String> {
    let mut fields = Vec::new();
    compare("spec", &before["spec"], &after["spec"], &mut fields);
    compare("revision", &before["revision"], &after["revision"], &mut fields);
    fields.retain(|field| !field.starts_with("spec.replicas "));
    fields
}

/// Adds the differences of two values, each as a path and, for short values, the value before and after.
fn compare(path: &str, before: &Value, after: &Value, fields: &mut Vec<String>) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if before == after || (is_empty(before) && is_empty(after)) {
        return;
    }
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&inner, &before[key], &after[key], fields);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                let name = new["name"].as_str().map_or_else(|| index.to_string(), str::to_owned);
                compare(&format!("{path}[{name}]"), old, new, fields);
            }
        }
        _ => match (short(before), short(after)) {
            (Some(before), Some(after)) => fields.push(format!("{path} {before} -> {after}")),
            _ => fields.push(path.to_owned()),
        },
    }
}

/// Returns a value in a few characters; `None` if it is longer.
fn short(value: &Value) -> Option<String> {
    let text = match value {
        Value::Null => "unset".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(_) | Value::Array(_) => return None,
        value => value.to_string(),
    };
    (text.len() <= 80 && !text.contains('\n')).then_some(text)
}

/// Returns what a new status reports: the end of a rollout, and conditions that need attention.
fn reports(kind: &str, before: &Value, after: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    let conditions = |object: &Value| object.pointer("/status/conditions").and_then(Value::as_array).cloned();
    let known = conditions(before).unwrap_or_default();
    for condition in conditions(after).unwrap_or_default() {
        let [of_type, status, message] = ["/type", "/status", "/message"].map(|path| text(&condition, path));
        let is_known = |known: &Value| {
            text(known, "/type") == of_type && text(known, "/status") == status && text(known, "/message") == message
        };
        if known.iter().any(is_known) {
            continue;
        }
        let lead = match (kind, of_type, status) {
            ("Deployment", "Progressing", "False") => "makes no progress",
            ("ReplicaSet" | "ReplicationController", "ReplicaFailure", "True") => "cannot create or delete Pods",
            ("Job", "Complete", "True") => "is complete",
            ("Job", "Failed", "True") => "has failed",
            ("Job", "Suspended", "True") => "is suspended",
            ("Pod", "PodScheduled", "False") => "has no Node",
            _ => continue,
        };
        texts.push(if message.is_empty() { lead.to_owned() } else { format!("{lead}: {message}") });
    }
    if is_rolled_out(kind, after) && !is_rolled_out(kind, before) {
        texts.push("is rolled out".to_owned());
    }
    texts
}

/// Whether a rollout has finished, by the rules of `kubectl rollout status`.
fn is_rolled_out(kind: &str, object: &Value) -> bool {
    let status = |field: &str| number(object, &format!("/status/{field}"));
    let wanted = replicas(object).unwrap_or(1);
    let updates = text(object, "/spec/updateStrategy/type") != "OnDelete";
    let is_current = status("observedGeneration") >= number(object, "/metadata/generation");
    is_current
        && match kind {
            "Deployment" => [status("updatedReplicas"), status("availableReplicas"), status("replicas")] == [wanted; 3],
            "StatefulSet" => {
                let partition = number(object, "/spec/updateStrategy/rollingUpdate/partition");
                status("readyReplicas") == wanted
                    && status("replicas") == wanted
                    && (!updates || status("updatedReplicas") >= wanted - partition)
            }
            "DaemonSet" => {
                let wanted = status("desiredNumberScheduled");
                status("numberAvailable") >= wanted && (!updates || status("updatedNumberScheduled") >= wanted)
            }
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changed_fields_are_named_down_to_the_value() {
        let object = |image: &str, replicas: i64| {
            json!({"metadata": {"resourceVersion": image, "labels": {"a": image}},
                "spec": {"replicas": replicas, "containers": [{"name": "app", "image": image}, {"name": "x"}]},
                "status": {"replicas": replicas}})
        };
        let (old, mut new) = (object("web:1", 3), object("web:2", 5));
        new["spec"]["paused"] = true.into();
        assert_eq!(
            changed_fields(&old, &new),
            [
                "metadata.labels.a web:1 -> web:2",
                "spec.containers[app].image web:1 -> web:2",
                "spec.paused unset -> true",
                "spec.replicas 3 -> 5",
            ]
        );
        new["spec"]["containers"] = json!([]);
        assert_eq!(changed_spec(&old, &new), ["spec.containers", "spec.paused unset -> true"]);
        assert!(changed_fields(&old, &old).is_empty());
    }

    #[test]
    fn a_rollout_ends_when_every_pod_is_updated_and_available() {
        let deployment = |updated: i64, available: i64| {
            json!({"metadata": {"generation": 2}, "spec": {"replicas": 3},
                "status": {"observedGeneration": 2, "replicas": 3, "updatedReplicas": updated, "availableReplicas": available}})
        };
        assert!(is_rolled_out("Deployment", &deployment(3, 3)));
        assert!(!is_rolled_out("Deployment", &deployment(2, 3)));
        assert_eq!(reports("Deployment", &deployment(3, 2), &deployment(3, 3)), ["is rolled out"]);
        assert!(reports("Deployment", &deployment(3, 3), &deployment(3, 3)).is_empty());
        let mut stale = deployment(3, 3);
        stale["metadata"]["generation"] = 3.into();
        assert!(!is_rolled_out("Deployment", &stale));
        let mut set = json!({"metadata": {}, "spec": {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 1}}},
            "status": {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 2}});
        assert!(is_rolled_out("StatefulSet", &set));
        set["spec"]["updateStrategy"] = json!({});
        assert!(!is_rolled_out("StatefulSet", &set));
    }
}
