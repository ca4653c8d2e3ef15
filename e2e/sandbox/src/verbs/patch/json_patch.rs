//! JSON patch (RFC 6902), as the library of the real server applies it.
//!
//! The crate `json-patch` is stricter than that library: it refuses an unknown operation when the patch is read, a `test` of a
//! member that is absent, and an index with a leading zero. The server accepts these, or refuses them later and with another
//! answer.

use serde_json::Value;

/// The real server's limit.
const MOST: usize = 10_000;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operation {
    op: String,
    path: Vec<String>,
    from: Vec<String>,
    value: Option<Value>,
}

fn pointer(text: &str) -> Option<Vec<String>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let steps = text.strip_prefix('/')?.split('/');
    Some(steps.map(|s| s.replace("~1", "/").replace("~0", "~")).collect())
}

/// Reads the operations of a patch; the error is the decoder's.
pub(crate) fn parse(patch: Value) -> Result<Vec<Operation>, String> {
    let Value::Array(list) = patch else { return Err("a JSON patch is a list".into()) };
    if list.len() > MOST {
        return Err(format!("The allowed maximum operations in a JSON patch is {MOST}, got {}", list.len()));
    }
    list.into_iter()
        .map(|mut item| {
            let text = |field: &str| item.get(field).and_then(Value::as_str).map(str::to_owned);
            let (op, path, from) = (text("op").unwrap_or_default(), text("path"), text("from").unwrap_or_default());
            let path = path.as_deref().and_then(pointer);
            let from = pointer(&from).unwrap_or_default();
            let value = item.as_object_mut().and_then(|map| map.remove("value"));
            // What has no path applies nowhere: such an operation fails when it is applied.
            let (op, path) = path.map_or_else(|| (String::new(), Vec::new()), |path| (op, path));
            Ok(Operation { op, path, from, value })
        })
        .collect()
}

/// Applies a patch; nothing if it does not apply.
pub(crate) fn apply(patch: &[Operation], target: &Value) -> Option<Value> {
    let mut target = target.clone();
    for operation in patch {
        let Operation { op, path, from, value } = operation;
        match &**op {
            "add" => add(&mut target, path, value.clone()?)?,
            "remove" => drop(remove(&mut target, path)?),
            "replace" => *find(&mut target, path)? = value.clone()?,
            "move" => {
                if path.starts_with(from) && path.len() > from.len() {
                    return None;
                }
                let moved = remove(&mut target, from)?;
                add(&mut target, path, moved)?;
            }
            "copy" => {
                let copied = find(&mut target, from)?.clone();
                add(&mut target, path, copied)?;
            }
            "test" => {
                let wanted = value.clone().unwrap_or_default();
                let found = find(&mut target, path).map(|v| v.clone());
                // What is not there equals null.
                if found.unwrap_or_default() != wanted {
                    return None;
                }
            }
            _ => return None,
        }
    }
    Some(target)
}

fn find<'a>(target: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(target, |value, step| match value {
        Value::Object(map) => map.get_mut(step),
        Value::Array(list) => list.get_mut(step.parse::<usize>().ok()?),
        _ => None,
    })
}

fn add(target: &mut Value, path: &[String], new: Value) -> Option<()> {
    let Some((last, parent)) = path.split_last() else {
        *target = new;
        return Some(());
    };
    match find(target, parent)? {
        Value::Object(map) => {
            map.insert(last.clone(), new);
        }
        Value::Array(list) if last == "-" => list.push(new),
        Value::Array(list) => {
            let at: usize = last.parse().ok()?;
            if at > list.len() {
                return None;
            }
            list.insert(at, new);
        }
        _ => return None,
    }
    Some(())
}

fn remove(target: &mut Value, path: &[String]) -> Option<Value> {
    let (last, parent) = path.split_last()?;
    match find(target, parent)? {
        Value::Object(map) => map.remove(last),
        Value::Array(list) => {
            let at: usize = last.parse().ok()?;
            (at < list.len()).then(|| list.remove(at))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(target: &Value, patch: Value) -> Option<Value> {
        apply(&parse(patch).unwrap(), target)
    }

    #[test]
    fn operations_apply() {
        for (target, patch, want) in [
            (json!({"a":1}), json!([{"op":"add","path":"/b","value":2}]), json!({"a":1,"b":2})),
            (json!({"a":[1,3]}), json!([{"op":"add","path":"/a/1","value":2}]), json!({"a":[1,2,3]})),
            (json!({"a":[1]}), json!([{"op":"add","path":"/a/-","value":2}]), json!({"a":[1,2]})),
            (json!({"a":1,"b":2}), json!([{"op":"remove","path":"/a"}]), json!({"b":2})),
            (json!({"a":{"b/c":1}}), json!([{"op":"replace","path":"/a/b~1c","value":2}]), json!({"a":{"b/c":2}})),
            (json!({"a":1}), json!([{"op":"move","from":"/a","path":"/b"}]), json!({"b":1})),
            (json!({"a":1}), json!([{"op":"copy","from":"/a","path":"/b"}]), json!({"a":1,"b":1})),
            (json!({"a":1}), json!([{"op":"test","path":"/a","value":1}]), json!({"a":1})),
        ] {
            assert_eq!(run(&target, patch), Some(want));
        }
    }

    #[test]
    fn what_does_not_apply_changes_nothing() {
        for patch in [
            json!([{"op":"remove","path":"/x"}]),
            json!([{"op":"replace","path":"/x","value":1}]),
            json!([{"op":"add","path":"/x/y","value":1}]),
            json!([{"op":"add","path":"/l/5","value":1}]),
            json!([{"op":"test","path":"/a","value":2}]),
            json!([{"op":"foo","path":"/a"}]),
            json!([{"op":"add","path":"/a"}]),
            json!([{"op":"move","from":"/o","path":"/o/p"}]),
        ] {
            assert_eq!(run(&json!({"a":1,"l":[],"o":{}}), patch.clone()), None, "{patch}");
        }
    }
}
