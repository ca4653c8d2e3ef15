//! Reading and writing the common parts of objects that are JSON values.

use serde_json::{Map, Value};

pub(crate) fn at<'a>(object: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().try_fold(object, |value, key| value.get(key)).unwrap_or(&Value::Null)
}

pub(crate) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).as_str().unwrap_or_default()
}

pub(crate) fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    text(object, &["metadata", field])
}

pub(crate) fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    child(object, "metadata")
}

pub(crate) fn child<'a>(object: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    let slot = as_map(object).entry(key).or_insert_with(|| Value::Object(Map::new()));
    as_map(slot)
}

pub(crate) fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(map) = value else { unreachable!("made an object above") };
    map
}

pub(crate) fn set_meta(object: &mut Value, field: &str, value: impl Into<Value>) {
    meta_mut(object).insert(field.into(), value.into());
}

/// The strings in a list.
pub(crate) fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    strings(at(object, &["metadata", "finalizers"]))
}

pub(crate) fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    if finalizers.is_empty() {
        meta_mut(object).remove("finalizers");
    } else {
        set_meta(object, "finalizers", finalizers.to_vec());
    }
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_string()
}

/// Removes what a typed decoder would not have kept: nulls, and metadata fields that are empty.
pub(crate) fn tidy_meta(object: &mut Value) {
    if let Some(Value::Object(meta)) = object.get_mut("metadata") {
        meta.retain(|field, v| match v {
            Value::Null => false,
            Value::String(s) => !s.is_empty(),
            Value::Array(a) => !a.is_empty(),
            Value::Object(o) => !o.is_empty(),
            Value::Number(n) => field != "generation" || n.as_i64() != Some(0),
            Value::Bool(_) => true,
        });
    }
}

/// The metadata alone, as `PartialObjectMetadata`.
pub(crate) fn partial(object: &Value) -> Value {
    serde_json::json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": at(object, &["metadata"])
    })
}
