//! Short ways to read and write JSON values. Absent, null and wrongly typed all read as nothing: types are checked
//! before these functions see an object.

use serde_json::{Map, Value};

pub(super) use common::json::{for_each_object_in_list, insert_default, with_object_in_field};

/// The string; empty for nothing.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The number; 0 for nothing.
pub(super) fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// Whether it is `true`.
pub(super) fn yes(value: &Value) -> bool {
    value.as_bool().unwrap_or_default()
}

/// The elements; none for nothing.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The entries in the order of their keys; none for nothing.
pub(super) fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// How many entries there are.
pub(super) fn size(value: &Value) -> usize {
    value.as_object().map_or(0, Map::len)
}

/// The object to change; replaces whatever else is there.
pub(super) fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("was made an object"),
    }
}

/// The object below `key` to change; made when not there.
pub(super) fn child<'a>(value: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    object(object(value).entry(key).or_insert_with(|| Value::Object(Map::new())))
}

/// Takes the value of `key` from `old`: sets it where it is there, removes it where it is not.
pub(super) fn take(new: &mut Value, old: &Value, key: &str) {
    let map = object(new);
    match old.get(key) {
        Some(value) => map.insert(key.to_owned(), value.clone()),
        None => map.remove(key),
    };
}
