//! Short ways to read and write JSON values. Absent, null and wrongly typed all read as nothing: types are checked
//! before these functions see an object.

use serde_json::{Map, Value};

pub(super) use crate::value::object::{as_map as object, child};
pub(super) use common::json::{for_each_object_in_list, insert_default, with_object_in_field};

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

pub(super) fn yes(value: &Value) -> bool {
    value.as_bool().unwrap_or_default()
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

pub(super) fn size(value: &Value) -> usize {
    value.as_object().map_or(0, Map::len)
}

/// Takes the value of `key` from `old`: sets it where it is there, removes it where it is not.
pub(super) fn take(new: &mut Value, old: &Value, key: &str) {
    let map = object(new);
    match old.get(key) {
        Some(value) => map.insert(key.to_owned(), value.clone()),
        None => map.remove(key),
    };
}
