//! What names, labels and the rest of the metadata must look like, in the words of the real server.

use jiff::Timestamp;
use serde_json::Value;

pub(super) use super::kinds::errors::quoted;
use super::{
    json,
    kinds::{FieldError, NameRule, syntax},
    object::{at, meta},
    resource::Resource,
};

const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// What is wrong with a name.
pub(super) fn check_name(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::Subdomain => syntax::subdomain(name),
        NameRule::Label => syntax::label(name),
        NameRule::Rfc1035 => syntax::rfc1035_label(name),
        NameRule::PathSegment => match name {
            "." | ".." => vec![format!("may not be '{name}'")],
            _ => ["/", "%"].iter().filter(|c| name.contains(**c)).map(|c| format!("may not contain '{c}'")).collect(),
        },
    }
}

/// A value as field errors show it.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => json::text(value),
        Value::String(s) => quoted(s),
        other => other.to_string(),
    }
}

pub(super) fn invalid(field: impl Into<String>, value: &str, why: &str) -> FieldError {
    FieldError {
        reason: "FieldValueInvalid",
        field: field.into(),
        message: format!("Invalid value: {value}: {why}"),
        allowed_by: None,
    }
}

pub(super) fn required(field: impl Into<String>, why: &str) -> FieldError {
    let message = if why.is_empty() { "Required value".into() } else { format!("Required value: {why}") };
    FieldError { reason: "FieldValueRequired", field: field.into(), message, allowed_by: None }
}

pub(super) fn forbidden(field: impl Into<String>, why: &str) -> FieldError {
    FieldError {
        reason: "FieldValueForbidden",
        field: field.into(),
        message: format!("Forbidden: {why}"),
        allowed_by: None,
    }
}

pub(super) fn unsupported(field: impl Into<String>, value: &str, supported: &[&str]) -> FieldError {
    let list: Vec<String> = supported.iter().map(|s| quoted(s)).collect();
    FieldError {
        reason: "FieldValueNotSupported",
        field: field.into(),
        message: format!("Unsupported value: {value}: supported values: {}", list.join(", ")),
        allowed_by: None,
    }
}

/// Validates the metadata of an object to be created.
pub(super) fn check_create(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let rule = resource.name_rule();
    let (name, generate) = (meta(object, "name"), meta(object, "generateName"));
    if !generate.is_empty() {
        // A prefix may end in a dash, as something is put behind it.
        let stem = generate.strip_suffix('-').map_or_else(|| generate.to_owned(), |stem| format!("{stem}a"));
        let found = check_name(rule, &stem);
        errors.extend(found.iter().map(|m| invalid("metadata.generateName", &quoted(generate), m)));
    }
    if name.is_empty() {
        errors.push(required("metadata.name", "name or generateName is required"));
    } else {
        errors.extend(check_name(rule, name).iter().map(|m| invalid("metadata.name", &quoted(name), m)));
    }
    let namespace = meta(object, "namespace");
    if resource.namespaced {
        if namespace.is_empty() {
            errors.push(required("metadata.namespace", ""));
        } else {
            errors
                .extend(syntax::label(namespace).iter().map(|m| invalid("metadata.namespace", &quoted(namespace), m)));
        }
    } else if !namespace.is_empty() {
        errors.push(forbidden("metadata.namespace", "not allowed on this type"));
    }
    if let Some(generation) = at(object, &["metadata", "generation"]).as_i64().filter(|g| *g < 0) {
        errors.push(invalid("metadata.generation", &generation.to_string(), "must be greater than or equal to 0"));
    }
    check_labels(object, &mut errors);
    check_annotations(object, &mut errors);
    check_owners(object, &mut errors);
    check_finalizers(object, &mut errors);
    errors
}

/// Validates the metadata of an updated object.
pub(super) fn check_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if super::object::is_deleting(old) {
        let before = super::object::finalizers(old);
        let mut added: Vec<String> =
            super::object::finalizers(new).into_iter().filter(|f| !before.contains(f)).collect();
        if !added.is_empty() {
            added.sort();
            let list: Vec<String> = added.iter().map(|f| quoted(f)).collect();
            errors.push(forbidden(
                "metadata.finalizers",
                &format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    list.join(", ")
                ),
            ));
        }
    }
    if meta(new, "resourceVersion").is_empty() {
        errors.push(invalid("metadata.resourceVersion", "\"\"", "must be specified for an update"));
    }
    let generation = |o: &Value| at(o, &["metadata", "generation"]).as_i64().unwrap_or(0);
    if generation(new) < generation(old) {
        errors.push(invalid("metadata.generation", &generation(new).to_string(), "must not be decremented"));
    }
    for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (new, old) = (at(new, &["metadata", field]), at(old, &["metadata", field]));
        if new != old {
            errors.push(invalid(format!("metadata.{field}"), &shown(new), "field is immutable"));
        }
    }
    check_labels(new, &mut errors);
    check_annotations(new, &mut errors);
    check_owners(new, &mut errors);
    errors
}

fn check_labels(object: &Value, errors: &mut Vec<FieldError>) {
    for (key, value) in at(object, &["metadata", "labels"]).as_object().into_iter().flatten() {
        errors.extend(syntax::qualified_name(key).iter().map(|m| invalid("metadata.labels", &quoted(key), m)));
        let value = value.as_str().unwrap_or_default();
        errors.extend(syntax::label_value(value).iter().map(|m| invalid("metadata.labels", &quoted(value), m)));
    }
}

fn check_annotations(object: &Value, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in at(object, &["metadata", "annotations"]).as_object().into_iter().flatten() {
        let lower = key.to_ascii_lowercase();
        errors.extend(syntax::qualified_name(&lower).iter().map(|m| invalid("metadata.annotations", &quoted(key), m)));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError {
            reason: "FieldValueTooLong",
            field: "metadata.annotations".into(),
            message: format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes"),
            allowed_by: None,
        });
    }
}

/// An owner reference with its fields in the order of the real structure.
fn shown_owner(owner: &Value) -> String {
    let mut fields = Vec::new();
    for key in ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"] {
        match owner.get(key) {
            Some(value) => fields.push(format!("{}:{}", quoted(key), json::text(value))),
            None if !matches!(key, "controller" | "blockOwnerDeletion") => fields.push(format!("{}:\"\"", quoted(key))),
            None => {}
        }
    }
    format!("{{{}}}", fields.join(","))
}

fn check_owners(object: &Value, errors: &mut Vec<FieldError>) {
    let owners = at(object, &["metadata", "ownerReferences"]).as_array();
    let owners: &[Value] = owners.map_or(&[], Vec::as_slice);
    let mut controller: Option<String> = None;
    for owner in owners {
        for (field, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if owner.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
                errors.push(invalid(format!("metadata.ownerReferences.{field}"), "\"\"", why));
            }
        }
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            errors.push(invalid(
                "metadata.ownerReferences",
                &shown_owner(owner),
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{}/{}", text("kind"), text("name"));
            if let Some(first) = &controller {
                let list: Vec<String> = owners.iter().map(shown_owner).collect();
                errors.push(invalid(
                    "metadata.ownerReferences",
                    &format!("[{}]", list.join(",")),
                    &format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    ),
                ));
            } else {
                controller = Some(this);
            }
        }
    }
}

fn check_finalizers(object: &Value, errors: &mut Vec<FieldError>) {
    let finalizers = super::object::finalizers(object);
    for (i, finalizer) in finalizers.iter().enumerate() {
        errors.extend(
            syntax::qualified_name(finalizer).iter().map(|m| invalid("metadata.finalizers", &quoted(finalizer), m)),
        );
        let standard = matches!(&**finalizer, "kubernetes" | "orphan" | "foregroundDeletion");
        if !finalizer.contains('/') && !standard {
            errors.push(invalid(
                format!("metadata.finalizers[{i}]"),
                &quoted(finalizer),
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
    let has = |name: &str| finalizers.iter().any(|f| f == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.push(invalid(
            "metadata.finalizers",
            &json::text(&Value::from(finalizers.clone())),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

/// A time as objects carry it: whole seconds, UTC.
pub(super) fn time(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}
