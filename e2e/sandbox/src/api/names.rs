//! What names, labels and the rest of the metadata must look like, in the words of the real server.

use jiff::Timestamp;
use serde_json::Value;

pub(crate) use crate::value::errors::quoted;
use crate::{
    api::{kinds::selectors, logic::NameRule, resource::Resource},
    value::{
        errors::{Bad, Errors, FieldError, Path},
        json,
        object::{at, finalizers, is_deleting, meta},
        syntax,
    },
};

pub(crate) fn check_name(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::Subdomain => syntax::subdomain(name),
        NameRule::Label => syntax::label(name),
        NameRule::PathSegment => match name {
            "." | ".." => vec![format!("may not be '{name}'")],
            _ => ["/", "%"].iter().filter(|c| name.contains(**c)).map(|c| format!("may not contain '{c}'")).collect(),
        },
    }
}

/// A value as field errors show it.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => json::text(value),
        Value::String(s) => quoted(s),
        other => other.to_string(),
    }
}

fn only(found: impl FnOnce(&mut Errors)) -> FieldError {
    let mut errors = Errors::new();
    found(&mut errors);
    errors.into_list().remove(0)
}

pub(crate) fn invalid(field: &str, value: &str, why: &str) -> FieldError {
    only(|errors| errors.invalid(&field, Bad::raw(value), why))
}

pub(crate) fn required(field: &str, why: &str) -> FieldError {
    only(|errors| errors.required(&field, why))
}

pub(crate) fn forbidden(field: &str, why: &str) -> FieldError {
    only(|errors| errors.forbidden(&field, why))
}

pub(crate) fn unsupported(field: &str, value: &str, supported: &[&str]) -> FieldError {
    only(|errors| errors.not_supported(&field, Bad::raw(value), supported))
}

pub(crate) fn check_create(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let rule = resource.name_rule();
    let (name, generate) = (meta(object, "name"), meta(object, "generateName"));
    if !generate.is_empty() {
        // A prefix may end in a dash, as something is put behind it.
        let stem = generate.strip_suffix('-').map_or_else(|| generate.to_owned(), |stem| format!("{stem}a"));
        errors.syntax(&"metadata.generateName", generate, check_name(rule, &stem));
    }
    if name.is_empty() {
        errors.required(&"metadata.name", "name or generateName is required");
    } else {
        errors.syntax(&"metadata.name", name, check_name(rule, name));
    }
    let namespace = meta(object, "namespace");
    match (resource.namespaced, namespace.is_empty()) {
        (true, true) => errors.required(&"metadata.namespace", ""),
        (true, false) => errors.syntax(&"metadata.namespace", namespace, syntax::label(namespace)),
        (false, true) => {}
        (false, false) => errors.forbidden(&"metadata.namespace", "not allowed on this type"),
    }
    errors.non_negative(&"metadata.generation", at(object, &["metadata", "generation"]).as_i64());
    check_common(&mut errors, object);
    check_finalizers(&mut errors, object);
    errors.into_list()
}

pub(crate) fn check_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    if is_deleting(old) {
        let before = finalizers(old);
        let mut added: Vec<String> = finalizers(new).into_iter().filter(|f| !before.contains(f)).collect();
        if !added.is_empty() {
            added.sort();
            let list: Vec<String> = added.iter().map(|f| quoted(f)).collect();
            let why = "no new finalizers can be added if the object is being deleted, found new finalizers";
            errors.forbidden(&"metadata.finalizers", &format!("{why} []string{{{}}}", list.join(", ")));
        }
    }
    if meta(new, "resourceVersion").is_empty() {
        errors.invalid(&"metadata.resourceVersion", "", "must be specified for an update");
    }
    let generation = |o: &Value| at(o, &["metadata", "generation"]).as_i64().unwrap_or(0);
    if generation(new) < generation(old) {
        errors.invalid(&"metadata.generation", generation(new), "must not be decremented");
    }
    for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (new, old) = (at(new, &["metadata", field]), at(old, &["metadata", field]));
        errors.immutable(&format!("metadata.{field}"), new, old);
    }
    check_common(&mut errors, new);
    errors.into_list()
}

fn check_common(errors: &mut Errors, object: &Value) {
    let metadata = Path::new("metadata");
    selectors::validate_labels(errors, at(object, &["metadata", "labels"]), &metadata.child("labels"));
    selectors::validate_annotations(errors, at(object, &["metadata", "annotations"]), &metadata.child("annotations"));
    check_owners(errors, object);
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

fn check_owners(errors: &mut Errors, object: &Value) {
    let owners = at(object, &["metadata", "ownerReferences"]).as_array();
    let owners: &[Value] = owners.map_or(&[], Vec::as_slice);
    let mut controller: Option<String> = None;
    for owner in owners {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(field).is_empty() {
                let why = if field == "apiVersion" { "version must not be empty" } else { "must not be empty" };
                errors.invalid(&format!("metadata.ownerReferences.{field}"), "", why);
            }
        }
        let at = "metadata.ownerReferences";
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.invalid(&at, Bad::raw(shown_owner(owner)), why);
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{}/{}", text("kind"), text("name"));
            if let Some(first) = &controller {
                let list: Vec<String> = owners.iter().map(shown_owner).collect();
                let why = "Only one reference can have Controller set to true. Found \"true\" in references for";
                errors.invalid(&at, Bad::raw(format!("[{}]", list.join(","))), &format!("{why} {first} and {this}"));
            } else {
                controller = Some(this);
            }
        }
    }
}

fn check_finalizers(errors: &mut Errors, object: &Value) {
    let finalizers = finalizers(object);
    for (i, finalizer) in finalizers.iter().enumerate() {
        errors.syntax(&"metadata.finalizers", finalizer, syntax::qualified_name(finalizer));
        let standard = matches!(&**finalizer, "kubernetes" | "orphan" | "foregroundDeletion");
        if !finalizer.contains('/') && !standard {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(&format!("metadata.finalizers[{i}]"), finalizer.as_str(), why);
        }
    }
    let has = |name: &str| finalizers.iter().any(|f| f == name);
    if has("orphan") && has("foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(&"metadata.finalizers", &Value::from(finalizers.clone()), why);
    }
}

/// A time as objects carry it: whole seconds, UTC.
pub(crate) fn time(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}
