//! Strategic merge patch: merging that knows which lists are maps by a key.

use serde_json::{Map, Value};

use crate::api::logic::MergeList;

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// Why a patch cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MergeError {
    /// It is not a strategic merge patch.
    Malformed(String),
    /// An element of a list lacks the key by which it is merged.
    NoKey(String),
}

/// Which lists are merged, by their dotted path.
type Lists<'a> = &'a dyn Fn(&str) -> Option<MergeList>;

pub(crate) fn merge(current: &Value, patch: &Value, lists: Lists<'_>) -> Result<Value, MergeError> {
    let (Value::Object(current), Value::Object(patch)) = (current, patch) else {
        return Err(MergeError::Malformed("a strategic merge patch is an object".into()));
    };
    merge_map(current.clone(), patch, "", lists).map(Value::Object)
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn directive(patch: &Map<String, Value>) -> Option<&str> {
    patch.get(DIRECTIVE).and_then(Value::as_str)
}

fn merge_map(
    mut target: Map<String, Value>,
    patch: &Map<String, Value>,
    path: &str,
    lists: Lists<'_>,
) -> Result<Map<String, Value>, MergeError> {
    match directive(patch) {
        None | Some("merge") => {}
        Some("delete") => return Ok(Map::new()),
        Some("replace") => {
            let mut new = patch.clone();
            new.remove(DIRECTIVE);
            return Ok(new);
        }
        Some(other) => return Err(MergeError::Malformed(format!("Unknown patch type found: {other}"))),
    }
    if let Some(retain) = patch.get(RETAIN) {
        let Value::Array(retain) = retain else {
            return Err(MergeError::Malformed("the retainKeys directive is a list of keys".into()));
        };
        let kept = |key: &String| retain.iter().any(|r| r.as_str() == Some(key));
        if patch.iter().any(|(k, v)| !k.starts_with('$') && !v.is_null() && !kept(k)) {
            return Err(MergeError::Malformed("patches must not set keys that they do not retain".into()));
        }
        target.retain(|key, _| kept(key));
    }
    for (key, value) in patch {
        if key == DIRECTIVE || key == RETAIN {
            continue;
        }
        if let Some(field) = key.strip_prefix(DELETE_PRIMITIVES) {
            let Value::Array(gone) = value else {
                return Err(MergeError::Malformed(format!("{key} is a list of values")));
            };
            if let Some(Value::Array(list)) = target.get_mut(field) {
                list.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if let Some(field) = key.strip_prefix(ORDER) {
            // Together with the list itself if the patch has one.
            if !patch.contains_key(field)
                && let Some(Value::Array(list)) = target.get(field)
            {
                let here = below(path, field);
                let sorted = order(list.clone(), list, value, lists(&here))?;
                target.insert(field.to_owned(), sorted.into());
            }
            continue;
        }
        if value.is_null() {
            target.remove(key);
            continue;
        }
        let here = below(path, key);
        if let (None, Value::Object(patch)) = (target.get(key), value)
            && directive(patch).is_some()
        {
            // As upstream, `removeDirectives`: a map with a directive has no effect without a map that it could concern.
            continue;
        }
        let new = match (target.remove(key), value) {
            (Some(Value::Object(old)), Value::Object(patch)) => Value::Object(merge_map(old, patch, &here, lists)?),
            (None, Value::Object(patch)) => Value::Object(merge_map(Map::new(), patch, &here, lists)?),
            (old @ (None | Some(Value::Array(_))), Value::Array(patch_list)) => {
                let old = match old {
                    Some(Value::Array(old)) => old,
                    _ => Vec::new(),
                };
                let merged = merge_list(&old, patch_list, &here, lists)?;
                match patch.get(&format!("{ORDER}{key}")) {
                    Some(wanted) => order(merged, &old, wanted, lists(&here))?.into(),
                    None => merged.into(),
                }
            }
            (_, other) => strip(other),
        };
        target.insert(key.clone(), new);
    }
    Ok(target)
}

/// A value of a patch without directives.
fn strip(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(k, v)| !k.starts_with('$') && !v.is_null())
                .map(|(k, v)| (k.clone(), strip(v)))
                .collect(),
        ),
        Value::Array(list) => list.iter().map(strip).collect(),
        other => other.clone(),
    }
}

fn merge_list(old: &[Value], patch: &[Value], path: &str, lists: Lists<'_>) -> Result<Vec<Value>, MergeError> {
    let item_directive = |item: &Value| item.as_object().and_then(directive).map(str::to_owned);
    if patch.iter().any(|item| item_directive(item).as_deref() == Some("replace")) {
        return Ok(patch.iter().filter(|item| item_directive(item).is_none()).map(strip).collect());
    }
    let Some(MergeList { key }) = lists(path) else { return Ok(patch.iter().map(strip).collect()) };
    if key.is_empty() {
        let mut merged = old.to_vec();
        merged.extend(patch.iter().filter(|item| !old.contains(item)).cloned());
        return Ok(arrange(merged, patch, old, key));
    }
    let mut merged = old.to_vec();
    let mut wanted: Vec<Value> = Vec::new();
    for item in patch {
        let Value::Object(fields) = item else {
            return Err(MergeError::Malformed(format!("elements of {path} are objects")));
        };
        let Some(id) = fields.get(key) else {
            return Err(MergeError::NoKey(format!(
                "map: {} does not contain declared merge key: {key}",
                super::go_map(item)
            )));
        };
        match directive(fields) {
            Some("delete") => merged.retain(|m| m.get(key) != Some(id)),
            Some("merge") | None => {
                let found = merged.iter().position(|m| m.get(key) == Some(id));
                let before = found.and_then(|i| merged[i].as_object().cloned()).unwrap_or_default();
                let new = Value::Object(merge_map(before, fields, path, lists)?);
                match found {
                    Some(i) => merged[i] = new,
                    None => merged.push(new),
                }
                wanted.push(item.clone());
            }
            Some(other) => return Err(MergeError::Malformed(format!("Unknown patch type found: {other}"))),
        }
    }
    Ok(arrange(merged, &wanted, old, key))
}

/// Brings a list into the order that a patch asks for.
fn order(merged: Vec<Value>, old: &[Value], wanted: &Value, list: Option<MergeList>) -> Result<Vec<Value>, MergeError> {
    let Value::Array(wanted) = wanted else {
        return Err(MergeError::Malformed("an element order is a list".into()));
    };
    Ok(match list {
        Some(MergeList { key }) => arrange(merged, wanted, old, key),
        None => merged,
    })
}

/// Where an element stands in a list, by its key (or itself, where there is no key).
fn place(list: &[Value], item: &Value, key: &str) -> Option<usize> {
    list.iter().position(|other| if key.is_empty() { other == item } else { other.get(key) == item.get(key) })
}

/// Orders a merged list: elements the patch names in the patch's order, the others as they were, woven together so that
/// an element of the patch comes before another one unless the old list had it behind.
fn arrange(merged: Vec<Value>, wanted: &[Value], old: &[Value], key: &str) -> Vec<Value> {
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(wanted, item, key).is_some());
    named.sort_by_key(|item| place(wanted, item, key));
    others.sort_by_key(|item| place(old, item, key));
    let mut all = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (None, None) => return all,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(name)) => {
                matches!((place(old, other, key), place(old, name, key)), (Some(o), Some(n)) if o < n)
            }
        };
        all.extend(if other_first { others.next() } else { named.next() });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lists(path: &str) -> Option<MergeList> {
        match path {
            "containers" | "containers.ports" => Some(MergeList { key: "name" }),
            "conditions" => Some(MergeList { key: "type" }),
            "finalizers" => Some(MergeList { key: "" }),
            _ => None,
        }
    }

    fn run(current: &Value, patch: &Value) -> Value {
        merge(current, patch, &lists).unwrap()
    }

    #[test]
    fn lists_with_a_key_are_merged_and_others_replaced() {
        let current = json!({"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}], "l": [1]});
        let patch = json!({"containers": [{"name": "a", "image": "2", "args": ["y"]}], "l": [2]});
        let want = json!({"containers": [{"name": "a", "image": "2", "args": ["y"]}, {"name": "b"}], "l": [2]});
        assert_eq!(run(&current, &patch), want);
    }

    #[test]
    fn new_elements_come_before_those_the_patch_does_not_name() {
        let got = run(&json!({"conditions": [{"type": "old"}]}), &json!({"conditions": [{"type": "new"}]}));
        assert_eq!(got, json!({"conditions": [{"type": "new"}, {"type": "old"}]}));
    }

    #[test]
    fn an_element_order_is_followed() {
        let current = json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]});
        let patch = json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]});
        let names = |v: Value| -> Vec<String> {
            v["containers"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(run(&current, &patch)), ["b", "c", "a"]);
    }

    #[test]
    fn directives_delete_replace_and_retain() {
        let current =
            json!({"containers": [{"name": "a"}, {"name": "b"}], "m": {"x": 1, "y": 2}, "finalizers": ["f", "g"]});
        assert_eq!(
            run(&current, &json!({"containers": [{"name": "a", "$patch": "delete"}]}))["containers"],
            json!([{"name": "b"}])
        );
        assert_eq!(
            run(&current, &json!({"containers": [{"$patch": "replace"}, {"name": "z"}]}))["containers"],
            json!([{"name": "z"}])
        );
        assert_eq!(run(&current, &json!({"m": {"$patch": "replace", "z": 1}}))["m"], json!({"z": 1}));
        assert_eq!(run(&current, &json!({"new": {"$patch": "replace", "z": 1}})), current);
        assert_eq!(run(&current, &json!({"m": {"$retainKeys": ["x"], "x": 5}}))["m"], json!({"x": 5}));
        assert_eq!(run(&current, &json!({"$deleteFromPrimitiveList/finalizers": ["f"]}))["finalizers"], json!(["g"]));
    }

    #[test]
    fn nulls_remove_and_never_arrive() {
        let got = run(&json!({"a": 1, "b": {"c": 1}}), &json!({"a": null, "b": {"c": null}, "n": {"x": null, "y": 1}}));
        assert_eq!(got, json!({"b": {}, "n": {"y": 1}}));
    }

    #[test]
    fn an_element_without_its_key_is_refused() {
        let error = merge(&json!({}), &json!({"containers": [{"image": "x"}]}), &lists).unwrap_err();
        assert_eq!(error, MergeError::NoKey("map: map[image:x] does not contain declared merge key: name".into()));
    }
}
