//! What happens to an object before it is stored, as most kinds have it.
//!
//! On create the status is emptied; on update it stays as it is, and the generation moves with everything but metadata
//! and status; on update of `/status` everything but metadata and status stays as it is.

use serde_json::Value;

use super::{
    schema::{Type, schema},
    value::{child, int, object, take},
};

/// The status of a kind with nothing in it; `None` for kinds without a status.
fn empty_status(id: &str) -> Option<Value> {
    let field = schema().find(id)?.field("status")?;
    match &field.kind {
        Type::Struct(at) => schema().structs.get(*at).map(|status| Value::Object(status.zero())),
        _ => None,
    }
}

pub(super) fn create(id: &str, new: &mut Value, counted: bool) {
    if let Some(status) = empty_status(id) {
        object(new).insert("status".to_owned(), status);
    }
    if counted {
        set_generation(new, 1);
    }
}

pub(super) fn update(id: &str, new: &mut Value, old: &Value, counted: bool) {
    if schema().find(id).is_some_and(|structure| structure.field("status").is_some()) {
        take(new, old, "status");
    }
    if counted {
        let changed = content_differs(new, old);
        bump_generation(new, old, changed);
    }
}

pub(super) fn status(id: &str, new: &mut Value, old: &Value) {
    let Some(structure) = schema().find(id) else { return };
    for field in &structure.fields {
        if !matches!(field.name, "metadata" | "status" | "kind" | "apiVersion") {
            take(new, old, field.name);
        }
    }
}

/// Whether anything but metadata and status differs.
fn content_differs(new: &Value, old: &Value) -> bool {
    let content = |value: &Value, other: &Value| {
        value.as_object().into_iter().flatten().any(|(name, held)| {
            !matches!(name.as_str(), "metadata" | "status" | "kind" | "apiVersion") && other.get(name) != Some(held)
        })
    };
    content(new, old) || content(old, new)
}

pub(super) fn set_generation(new: &mut Value, generation: i64) {
    child(new, "metadata").insert("generation".to_owned(), generation.into());
}

/// Takes `metadata.generation` from `old`, one more if something `changed`.
pub(super) fn bump_generation(new: &mut Value, old: &Value, changed: bool) {
    let before = int(&old["metadata"]["generation"]);
    if changed {
        set_generation(new, before + 1);
    } else if before > 0 {
        set_generation(new, before);
    } else {
        child(new, "metadata").remove("generation");
    }
}

/// Adds a finalizer that is not there yet, as admission does for some kinds.
pub(super) fn add_finalizer(new: &mut Value, finalizer: &str) {
    let finalizers = child(new, "metadata").entry("finalizers").or_insert_with(|| Value::Array(vec![]));
    if let Value::Array(list) = finalizers
        && !list.iter().any(|held| held == finalizer)
    {
        list.push(finalizer.into());
    }
}

/// Takes one metadata field from `old`.
pub(super) fn keep_meta(new: &mut Value, old: &Value, field: &str) {
    if let Some(meta) = object(new).get_mut("metadata") {
        take(meta, &old["metadata"], field);
    }
}
