//! Custom resources: what a `CustomResourceDefinition` says about its objects.
//!
//! Its schemas are stored and not applied: objects are not pruned, defaulted or validated.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    api::{
        kinds::{decode::metadata_type_error, table::since},
        logic::{Env, Logic, ScalePaths, TableColumn},
        resource::{Resource, Sub, qualify},
    },
    value::object::{as_map, at, child, meta, set_meta, strings, text},
};

/// One version of a custom resource.
pub(crate) struct Custom {
    /// `apiVersion` that objects are stored with.
    stored_as: String,
    /// `apiVersion` that objects are served with.
    served_as: String,
    /// Whether there are other versions than the stored one, so that objects change on their way.
    converts: bool,
    status: bool,
    scale: Option<ScalePaths>,
    printed: Vec<Printed>,
}

struct Printed {
    column: TableColumn,
    path: Vec<String>,
}

fn steps(path: &str) -> Vec<String> {
    path.trim_start_matches('.').split('.').map(str::to_owned).collect()
}

/// Follows dotted keys.
pub(crate) fn follow<'a>(object: &'a Value, path: &[String]) -> &'a Value {
    path.iter().try_fold(object, |value, key| value.get(key)).unwrap_or(&Value::Null)
}

const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

const MAIN_VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The resources that a definition has served, one per served version.
pub(crate) fn served(definition: &Value) -> Vec<Resource> {
    let spec = at(definition, &["spec"]);
    let names = at(spec, &["names"]);
    let list = |field: &str| strings(at(names, &[field]));
    let (group, plural, kind) = (text(spec, &["group"]), text(names, &["plural"]), text(names, &["kind"]));
    let or_else = |field: &str, fallback: String| match text(names, &[field]) {
        "" => fallback,
        name => name.to_owned(),
    };
    let versions = spec.get("versions").and_then(Value::as_array);
    let all = || versions.into_iter().flatten();
    let is_stored = |version: &&Value| version.get("storage").and_then(Value::as_bool) == Some(true);
    let stored_as = format!("{group}/{}", all().find(is_stored).map_or("", |version| text(version, &["name"])));
    let converts = all().count() > 1;
    let mut resources = Vec::new();
    for version in versions.into_iter().flatten() {
        if version.get("served").and_then(Value::as_bool) != Some(true) {
            continue;
        }
        let subs = at(version, &["subresources"]);
        let (has_status, scale) = (subs.get("status").is_some_and(Value::is_object), at(subs, &["scale"]));
        let sub = |name: &str, kind: &str, group_version: Option<(String, String)>| Sub {
            name: name.into(),
            kind: kind.into(),
            group_version,
            verbs: ["get", "patch", "update"].map(str::to_owned).into(),
        };
        let mut subresources = Vec::new();
        if has_status {
            subresources.push(sub("status", kind, None));
        }
        if scale.is_object() {
            subresources.push(sub("scale", "Scale", Some(("autoscaling".into(), "v1".into()))));
        }
        let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
        let printed = columns.into_iter().flatten().map(|c| Printed {
            column: TableColumn {
                name: text(c, &["name"]).into(),
                kind: text(c, &["type"]).into(),
                format: text(c, &["format"]).into(),
                description: match text(c, &["description"]) {
                    "" => format!("Custom resource definition column (in JSONPath format): {}", text(c, &["jsonPath"])),
                    given => given.into(),
                },
                priority: c.get("priority").and_then(Value::as_i64).unwrap_or(0),
            },
            path: steps(text(c, &["jsonPath"])),
        });
        let custom = Custom {
            stored_as: stored_as.clone(),
            served_as: format!("{group}/{}", text(version, &["name"])),
            converts,
            status: has_status,
            scale: scale.is_object().then(|| ScalePaths {
                spec_replicas: steps(text(scale, &["specReplicasPath"])),
                status_replicas: steps(text(scale, &["statusReplicasPath"])),
                selector: Some(text(scale, &["labelSelectorPath"])).filter(|p| !p.is_empty()).map(steps),
            }),
            printed: printed.collect(),
        };
        resources.push(Resource {
            group: group.into(),
            version: text(version, &["name"]).into(),
            kind: kind.into(),
            list_kind: or_else("listKind", format!("{kind}List")),
            plural: plural.into(),
            singular: or_else("singular", kind.to_lowercase()),
            short_names: list("shortNames"),
            categories: list("categories"),
            namespaced: text(spec, &["scope"]) == "Namespaced",
            verbs: MAIN_VERBS.map(str::to_owned).into(),
            subresources,
            storage_hash: storage_hash(group, text(version, &["name"]), kind),
            table: qualify(plural, group).into(),
            logic: Box::new(custom),
        });
    }
    resources
}

impl Logic for Custom {
    fn type_error(&self, object: &Value) -> Option<String> {
        metadata_type_error(object)
    }

    fn prepare_create(&self, object: &mut Value, _: &Env<'_>) {
        set_meta(object, "generation", 1);
        if self.status {
            as_map(object).remove("status");
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _: &Env<'_>) {
        if self.status {
            match old.get("status") {
                Some(status) => as_map(new).insert("status".into(), status.clone()),
                None => as_map(new).remove("status"),
            };
        }
        let same = |a: &Value, b: &Value| {
            let keys = |v: &Value| -> Map<String, Value> {
                let fields = v.as_object().cloned().unwrap_or_default();
                fields.into_iter().filter(|(k, _)| k != "metadata" && !(self.status && k == "status")).collect()
            };
            keys(a) == keys(b)
        };
        if !same(new, old) {
            let generation = at(old, &["metadata", "generation"]).as_i64().unwrap_or(0);
            set_meta(new, "generation", generation + 1);
        }
    }

    fn prepare_status(&self, new: &mut Value, old: &Value, _: &Env<'_>) {
        let status = new.get("status").cloned();
        let (version, managed) =
            (at(new, &["metadata", "resourceVersion"]).clone(), at(new, &["metadata", "managedFields"]).clone());
        *new = old.clone();
        set_meta(new, "resourceVersion", version);
        if managed.is_array() {
            set_meta(new, "managedFields", managed);
        }
        match status {
            Some(status) => as_map(new).insert("status".into(), status),
            None => as_map(new).remove("status"),
        };
    }

    fn columns(&self) -> Vec<TableColumn> {
        let mut columns = vec![TableColumn {
            name: "Name".into(),
            kind: "string".into(),
            format: "name".into(),
            description: NAME_DESCRIPTION.into(),
            priority: 0,
        }];
        if self.printed.is_empty() {
            columns.push(TableColumn {
                name: "Age".into(),
                kind: "date".into(),
                format: String::new(),
                description: AGE_DESCRIPTION.into(),
                priority: 0,
            });
        }
        columns.extend(self.printed.iter().map(|p| p.column.clone()));
        columns
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let mut cells = vec![json!(meta(object, "name"))];
        if self.printed.is_empty() {
            cells.push(since(at(object, &["metadata", "creationTimestamp"]), now).into());
        }
        cells.extend(self.printed.iter().map(|p| {
            let value = follow(object, &p.path);
            match (&*p.column.kind, value) {
                (_, Value::Null) => Value::Null,
                ("date", Value::String(_)) => since(value, now).into(),
                ("string", Value::String(s)) => json!(s),
                ("string", other) => json!(other.to_string()),
                _ => value.clone(),
            }
        }));
        cells
    }

    fn converts(&self) -> bool {
        self.converts
    }

    fn to_stored(&self, object: &mut Value) {
        if self.converts {
            object["apiVersion"] = (*self.stored_as).into();
        }
    }

    fn to_served(&self, object: &mut Value) {
        if self.converts {
            object["apiVersion"] = (*self.served_as).into();
        }
    }

    fn scale_paths(&self) -> Option<&ScalePaths> {
        self.scale.as_ref()
    }
}

/// An opaque value that changes with what a kind is stored as.
fn storage_hash(group: &str, version: &str, kind: &str) -> String {
    use std::hash::BuildHasher as _;

    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let hash = foldhash::fast::FixedState::default().hash_one((group, version, kind));
    STANDARD.encode(hash.to_be_bytes())
}

/// Sets what the server says about a definition once it serves it.
pub(crate) fn establish(definition: &mut Value, now: &str) {
    let names = at(definition, &["spec", "names"]).clone();
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message});
    let status = child(definition, "status");
    status.insert("acceptedNames".into(), names);
    status.insert(
        "conditions".into(),
        json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted")
        ]),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources() -> Vec<Resource> {
        served(&json!({"spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}},
                {"name": "v0", "served": false}
            ]
        }}))
    }

    #[test]
    fn only_served_versions_are_served() {
        let resources = resources();
        assert_eq!((resources.len(), &*resources[0].list_kind), (1, "WidgetList"));
        assert!(resources[0].sub("status").is_some());
    }

    #[test]
    fn with_a_status_subresource_the_generation_counts_changes_of_the_rest() {
        let resource = resources().remove(0);
        let old = json!({"metadata": {"name": "w", "generation": 3}, "spec": {"size": 1}, "status": {"a": 1}});
        let mut new = json!({"metadata": {"name": "w", "generation": 3}, "spec": {"size": 1}, "status": {"a": 2}});
        let env = Env { now: Timestamp::UNIX_EPOCH, gate: &|_| false };
        resource.prepare_update(&mut new, &old, &env);
        assert_eq!(new, old);
        new["spec"]["size"] = json!(2);
        resource.prepare_update(&mut new, &old, &env);
        assert_eq!(new["metadata"]["generation"], 4);
    }
}
