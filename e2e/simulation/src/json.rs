//! Fields of objects, read without asking whether they are there.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The value at a JSON pointer. Keys with a `/` or `~` in them cannot be named: invariants ask so often that escapes would
/// be most of their time.
pub fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(object, |value, key| match value {
        Value::Object(fields) => fields.get(key),
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        _ => None,
    })
}

/// The text at a JSON pointer; empty if there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a JSON pointer; 0 if there is none.
pub fn number(object: &Value, pointer: &str) -> i64 {
    at(object, pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// An object's uid.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// An object's name.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// An annotation; empty if there is none.
pub fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    at(object, "/metadata/annotations").and_then(|a| a.get(key)).and_then(Value::as_str).unwrap_or_default()
}

/// The references to an object's owners.
pub fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    at(object, "/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten()
}

/// The reference to an object's controller.
pub fn controller(object: &Value) -> Option<&Value> {
    owners(object).find(|reference| reference["controller"] == json!(true))
}

/// The uid of an object's controller; empty if it has none.
pub fn controller_uid(object: &Value) -> &str {
    controller(object).map_or("", |reference| text(reference, "/uid"))
}

/// Whether an object is being deleted.
pub fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// Whether the `matchLabels` at a pointer (or the equality map there) select an object.
pub fn selects(owner: &Value, pointer: &str, object: &Value) -> bool {
    let Some(selector) = at(owner, pointer) else { return false };
    let wanted = selector.get("matchLabels").unwrap_or(selector).as_object();
    let labels = at(object, "/metadata/labels");
    wanted.is_some_and(|wanted| wanted.iter().all(|(key, value)| labels.and_then(|l| l.get(key)) == Some(value)))
}

/// A condition's field; empty without that condition.
pub fn condition<'a>(object: &'a Value, kind: &str, field: &str) -> &'a str {
    let conditions = at(object, "/status/conditions").and_then(Value::as_array);
    let found = conditions.and_then(|all| all.iter().find(|c| c["type"] == kind));
    found.and_then(|c| c.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a node has a `NoExecute` taint.
pub fn evicts(node: &Value) -> bool {
    let taints = at(node, "/spec/taints").and_then(Value::as_array);
    taints.into_iter().flatten().any(|taint| taint["effect"] == "NoExecute")
}

/// Labels as a map.
pub fn labels(object: &Value) -> BTreeMap<&str, &str> {
    let labels = at(object, "/metadata/labels").and_then(Value::as_object);
    labels.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}
