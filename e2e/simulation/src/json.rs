//! Fields of objects, read without asking whether they are there.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The value at a JSON pointer. Keys with a `/` or `~` in them cannot be named: invariants ask so often that escapes would
/// be most of their time.
pub(crate) fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(object, |value, key| match value {
        Value::Object(fields) => fields.get(key),
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        _ => None,
    })
}

/// The text at a JSON pointer; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a JSON pointer; 0 if there is none.
pub(crate) fn number(object: &Value, pointer: &str) -> i64 {
    at(object, pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// The items of the list at a JSON pointer; none if there is no list.
pub(crate) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// An annotation; empty if there is none.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    at(object, "/metadata/annotations").and_then(|a| a.get(key)).and_then(Value::as_str).unwrap_or_default()
}

/// A label; empty if there is none.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    at(object, "/metadata/labels").and_then(|labels| labels.get(key)).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    items(object, "/metadata/ownerReferences").iter()
}

pub(crate) fn controller(object: &Value) -> Option<&Value> {
    owners(object).find(|reference| reference["controller"] == json!(true))
}

/// The uid of an object's controller; empty if it has none.
pub(crate) fn controller_uid(object: &Value) -> &str {
    controller(object).map_or("", |reference| text(reference, "/uid"))
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// Whether the `matchLabels` at a pointer (or the equality map there) select an object.
pub(crate) fn selects(owner: &Value, pointer: &str, object: &Value) -> bool {
    let Some(selector) = at(owner, pointer) else { return false };
    let wanted = selector.get("matchLabels").unwrap_or(selector).as_object();
    let labels = at(object, "/metadata/labels");
    wanted.is_some_and(|wanted| wanted.iter().all(|(key, value)| labels.and_then(|l| l.get(key)) == Some(value)))
}

/// A condition's field; empty without that condition.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str, field: &str) -> &'a str {
    let found = items(object, "/status/conditions").iter().find(|condition| condition["type"] == kind);
    found.and_then(|c| c.get(field)).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind, "status") == "True"
}

pub(crate) fn is_ready(object: &Value) -> bool {
    is_true(object, "Ready")
}

/// Whether a Pod has succeeded or failed.
pub(crate) fn has_finished(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

pub(crate) fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    items(object, "/metadata/finalizers").iter().any(|each| each == finalizer)
}

/// Whether a node has a `NoExecute` taint.
pub(crate) fn evicts(node: &Value) -> bool {
    items(node, "/spec/taints").iter().any(|taint| taint["effect"] == "NoExecute")
}

pub(crate) fn labels(object: &Value) -> BTreeMap<&str, &str> {
    let labels = at(object, "/metadata/labels").and_then(Value::as_object);
    labels.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}
