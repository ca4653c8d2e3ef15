//! Custom resources: what a `CustomResourceDefinition` says about its objects.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    kinds::{Env, FieldError, table::since},
    logic::{Logic, ScalePaths, TableColumn},
    names::{invalid, quoted, required, shown, unsupported},
    object::{as_map, at, child, meta, set_meta, text},
    resource::{LogicOf, Resource, Sub, qualify},
};

/// One version of a custom resource.
pub(super) struct Custom {
    /// `apiVersion` that objects are stored with.
    stored_as: String,
    /// `apiVersion` that objects are served with.
    served_as: String,
    /// Whether there are other versions than the stored one, so that objects change on their way.
    converts: bool,
    schema: Value,
    status: bool,
    scale: Option<ScalePaths>,
    printed: Vec<Printed>,
    selectable: Vec<String>,
}

struct Printed {
    column: TableColumn,
    path: Vec<String>,
}

fn steps(path: &str) -> Vec<String> {
    path.trim_start_matches('.').split('.').map(str::to_owned).collect()
}

/// Follows dotted keys.
pub(super) fn follow<'a>(object: &'a Value, path: &[String]) -> &'a Value {
    path.iter().try_fold(object, |value, key| value.get(key)).unwrap_or(&Value::Null)
}

const MAIN_VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The resources that a definition has served, one per served version.
pub(super) fn served(definition: &Value) -> Vec<Resource> {
    let spec = at(definition, &["spec"]);
    let names = at(spec, &["names"]);
    let list = |field: &str| -> Vec<String> {
        names
            .get(field)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|v| v.as_str().map(str::to_owned))
            .collect()
    };
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
        let selectable = version.get("selectableFields").and_then(Value::as_array);
        let custom = Custom {
            stored_as: stored_as.clone(),
            served_as: format!("{group}/{}", text(version, &["name"])),
            converts,
            schema: at(version, &["schema", "openAPIV3Schema"]).clone(),
            status: has_status,
            scale: scale.is_object().then(|| ScalePaths {
                spec_replicas: steps(text(scale, &["specReplicasPath"])),
                status_replicas: steps(text(scale, &["statusReplicasPath"])),
                selector: Some(text(scale, &["labelSelectorPath"])).filter(|p| !p.is_empty()).map(steps),
            }),
            printed: printed.collect(),
            selectable: selectable
                .into_iter()
                .flatten()
                .map(|f| text(f, &["jsonPath"]).trim_start_matches('.').to_owned())
                .collect(),
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
            logic: LogicOf::Custom(Box::new(custom)),
        });
    }
    resources
}

impl Logic for Custom {
    fn default(&self, object: &mut Value) {
        fill(object, &self.schema);
    }

    fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        if self.schema.is_object() {
            prune(object, &self.schema, "", &mut unknown);
        }
        unknown
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

    fn validate_update(&self, new: &Value, _: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        validate(new, &self.schema, "", &mut errors);
        errors
    }

    fn field(&self, object: &Value, field: &str) -> Option<String> {
        if !self.selectable.iter().any(|f| f == field) {
            return None;
        }
        let value = follow(object, &steps(field));
        Some(
            value
                .as_str()
                .map_or_else(|| if value.is_null() { String::new() } else { value.to_string() }, str::to_owned),
        )
    }

    fn columns(&self) -> Vec<TableColumn> {
        let mut columns = vec![TableColumn {
            name: "Name".into(),
            kind: "string".into(),
            format: "name".into(),
            description: super::table::NAME_DESCRIPTION.into(),
            priority: 0,
        }];
        if self.printed.is_empty() {
            columns.push(TableColumn {
                name: "Age".into(),
                kind: "date".into(),
                format: String::new(),
                description: super::table::AGE_DESCRIPTION.into(),
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

fn preserves(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(true)
}

/// Fills in the defaults that a schema names.
fn fill(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => {
            for (name, property) in at(schema, &["properties"]).as_object().into_iter().flatten() {
                if let (None, Some(default)) = (map.get(name).filter(|v| !v.is_null()), property.get("default")) {
                    map.insert(name.clone(), default.clone());
                }
                if let Some(inner) = map.get_mut(name) {
                    fill(inner, property);
                }
            }
            if let Some(items) = schema.get("additionalProperties").filter(|s| s.is_object()) {
                for inner in map.values_mut() {
                    fill(inner, items);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for inner in list {
                    fill(inner, items);
                }
            }
        }
        _ => {}
    }
}

fn prune(value: &mut Value, schema: &Value, path: &str, unknown: &mut Vec<String>) {
    let dot = if path.is_empty() { "" } else { "." };
    match value {
        Value::Object(map) => {
            let properties = at(schema, &["properties"]);
            let others = schema.get("additionalProperties").filter(|s| !matches!(s, Value::Bool(false)));
            let keep = preserves(schema);
            let top = path.is_empty();
            map.retain(|name, inner| {
                let here = format!("{path}{dot}{name}");
                if top && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    return true;
                }
                match (properties.get(name), others) {
                    (Some(property), _) => prune(inner, property, &here, unknown),
                    (None, Some(other)) => prune(inner, other, &here, unknown),
                    (None, None) if keep => {}
                    (None, None) => {
                        unknown.push(here);
                        return false;
                    }
                }
                true
            });
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for (i, inner) in list.iter_mut().enumerate() {
                    prune(inner, items, &format!("{path}[{i}]"), unknown);
                }
            }
        }
        _ => {}
    }
}

/// An opaque value that changes with what a kind is stored as.
fn storage_hash(group: &str, version: &str, kind: &str) -> String {
    use std::hash::BuildHasher as _;

    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let hash = foldhash::fast::FixedState::default().hash_one((group, version, kind));
    STANDARD.encode(hash.to_be_bytes())
}

fn validate(value: &Value, schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let dot = if path.is_empty() { "" } else { "." };
    let shown_path = || if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() };
    if value.is_null() && schema.get("nullable").and_then(Value::as_bool) == Some(true) {
        return;
    }
    let int_or_string = schema.get("x-kubernetes-int-or-string").and_then(Value::as_bool) == Some(true);
    if let Some(wanted) = schema.get("type").and_then(Value::as_str) {
        let is = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(n) if n.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        if is != wanted && !(wanted == "number" && is == "integer") && !int_or_string {
            let why = format!("{} in body must be of type {wanted}: {}", shown_path(), quoted(is));
            errors.push(FieldError {
                reason: "FieldValueTypeInvalid",
                field: shown_path(),
                message: format!("Invalid value: {}: {why}", quoted(is)),
                allowed_by: None,
            });
            return;
        }
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let names: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        errors.push(unsupported(&shown_path(), &shown(value), &names));
    }
    if let Some(n) = value.as_f64() {
        for (bound, wrong, words) in [
            (
                "minimum",
                schema.get("minimum").and_then(Value::as_f64).is_some_and(|m| n < m),
                "greater than or equal to",
            ),
            ("maximum", schema.get("maximum").and_then(Value::as_f64).is_some_and(|m| n > m), "less than or equal to"),
        ] {
            if wrong {
                let limit = at(schema, &[bound]);
                let why = format!("{} in body should be {words} {limit}", shown_path());
                errors.push(invalid(&shown_path(), &shown(value), &why));
            }
        }
    }
    match value {
        Value::Object(map) => {
            for name in at(schema, &["required"]).as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !map.contains_key(name) {
                    errors.push(required(&format!("{path}{dot}{name}"), ""));
                }
            }
            for (name, inner) in map {
                if let Some(property) = at(schema, &["properties"]).get(name) {
                    validate(inner, property, &format!("{path}{dot}{name}"), errors);
                } else if let Some(other) = schema.get("additionalProperties").filter(|s| s.is_object()) {
                    validate(inner, other, &format!("{path}{dot}{name}"), errors);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for (i, inner) in list.iter().enumerate() {
                    validate(inner, items, &format!("{path}[{i}]"), errors);
                }
            }
        }
        _ => {}
    }
}

/// Sets what the server says about a definition once it serves it.
pub(super) fn establish(definition: &mut Value, now: &str) {
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

    fn widget(schema: &Value) -> Value {
        json!({"spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                 "subresources": {"status": {}}},
                {"name": "v0", "served": false}
            ]
        }})
    }

    fn resource() -> Resource {
        served(&widget(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "required": ["size"], "properties": {
                "size": {"type": "integer", "minimum": 1}, "color": {"type": "string", "default": "red", "enum": ["red", "blue"]}
            }},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
        }})))
        .remove(0)
    }

    #[test]
    fn only_served_versions_are_served() {
        assert_eq!(served(&widget(&json!({}))).len(), 1);
        assert_eq!(resource().list_kind, "WidgetList");
        assert!(resource().sub("status").is_some());
    }

    #[test]
    fn schemas_default_prune_and_validate() {
        let resource = resource();
        let mut object = json!({"metadata": {"name": "w"}, "spec": {"size": 0, "odd": 1}, "status": {"any": 1}});
        assert_eq!(resource.prune(&mut object), ["spec.odd"]);
        resource.default(&mut object);
        assert_eq!(object["spec"], json!({"size": 0, "color": "red"}));
        assert_eq!(object["status"], json!({"any": 1}));
        let errors = resource.validate_create(&object);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].message, "Invalid value: 0: spec.size in body should be greater than or equal to 1");
    }

    #[test]
    fn with_a_status_subresource_the_generation_counts_changes_of_the_rest() {
        let resource = resource();
        let old = json!({"metadata": {"name": "w", "generation": 3}, "spec": {"size": 1}, "status": {"a": 1}});
        let mut new = json!({"metadata": {"name": "w", "generation": 3}, "spec": {"size": 1}, "status": {"a": 2}});
        let env = super::super::kinds::Env { now: Timestamp::UNIX_EPOCH, gate: &|_| false };
        resource.prepare_update(&mut new, &old, &env);
        assert_eq!(new, old);
        new["spec"]["size"] = json!(2);
        resource.prepare_update(&mut new, &old, &env);
        assert_eq!(new["metadata"]["generation"], 4);
    }
}
