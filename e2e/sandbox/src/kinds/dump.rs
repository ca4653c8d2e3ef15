//! Values as the real server shows them in messages: as JSON with the fields in declared order, or as JSON of the
//! structures it works with internally, which have Go's field names and show everything that is not set.
//!
//! The internal structures are in `data/internal-1.36.txt`: a structure's name, then per field the name shown, the JSON
//! name it comes from (`^name`: from the object around this one; `+`: its fields are shown in its place), and its type,
//! written as in the schema. `@#` names an internal structure.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Map, Value};

use super::schema::{Struct, Type, schema};
use crate::json;

/// A value of the wire structure `id` as compact JSON, fields in declared order.
pub(super) fn wire(id: &str, value: &Value) -> String {
    let mut out = Vec::new();
    match (schema().find(id), value) {
        (Some(structure), Value::Object(map)) => write_structure(&mut out, structure, map),
        _ => json::write(&mut out, value),
    }
    String::from_utf8(out).unwrap_or_default()
}

fn write_structure(out: &mut Vec<u8>, structure: &Struct, map: &Map<String, Value>) {
    out.push(b'{');
    let mut first = true;
    write_fields(out, structure, map, &mut first);
    out.push(b'}');
}

fn write_fields(out: &mut Vec<u8>, structure: &Struct, map: &Map<String, Value>, first: &mut bool) {
    for field in &structure.fields {
        if let Some(value) = map.get(field.name) {
            write_key(out, field.name, first);
            write_value(out, &field.kind, value);
        }
    }
}

fn write_key(out: &mut Vec<u8>, name: &str, first: &mut bool) {
    if !std::mem::take(first) {
        out.push(b',');
    }
    json::write_str(out, name);
    out.push(b':');
}

fn write_value(out: &mut Vec<u8>, kind: &Type, value: &Value) {
    match (kind, value) {
        (Type::Optional(inner), _) => write_value(out, inner, value),
        (Type::List(inner), Value::Array(list)) => {
            write_list(out, list, |out, element| write_value(out, inner, element));
        }
        (Type::Map(inner), Value::Object(map)) => {
            write_map(out, map, |out, element| write_value(out, inner, element));
        }
        (Type::Struct(at), Value::Object(map)) => match schema().structs.get(*at) {
            Some(structure) => write_structure(out, structure, map),
            None => json::write(out, value),
        },
        _ => json::write(out, value),
    }
}

fn write_list(out: &mut Vec<u8>, list: &[Value], mut each: impl FnMut(&mut Vec<u8>, &Value)) {
    out.push(b'[');
    for (i, element) in list.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        each(out, element);
    }
    out.push(b']');
}

fn write_map(out: &mut Vec<u8>, map: &Map<String, Value>, mut each: impl FnMut(&mut Vec<u8>, &Value)) {
    out.push(b'{');
    let mut first = true;
    let sorted: BTreeMap<&String, &Value> = map.iter().collect();
    for (name, element) in sorted {
        write_key(out, name, &mut first);
        each(out, element);
    }
    out.push(b'}');
}

/// A value as JSON of the internal structure `name` (without the `#`).
pub(super) fn internal(name: &str, value: &Value) -> String {
    let mut out = Vec::new();
    match INTERNAL.get(name) {
        Some(fields) => write_internal(&mut out, fields, value, &Value::Null),
        None => json::write(&mut out, value),
    }
    String::from_utf8(out).unwrap_or_default()
}

struct InternalField {
    shown: &'static str,
    from: &'static str,
    kind: &'static str,
}

static INTERNAL: LazyLock<BTreeMap<&'static str, Vec<InternalField>>> = LazyLock::new(|| {
    let mut structures: BTreeMap<&'static str, Vec<InternalField>> = BTreeMap::new();
    let mut current = "";
    for line in include_str!("data/internal-1.36.txt").lines() {
        if let Some(name) = line.strip_prefix('#') {
            current = name;
            structures.entry(current).or_default();
        } else if let Some((shown, (from, kind))) =
            line.trim_start().split_once(' ').and_then(|(shown, rest)| Some((shown, rest.split_once(' ')?)))
        {
            structures.entry(current).or_default().push(InternalField { shown, from, kind });
        }
    }
    structures
});

fn write_internal(out: &mut Vec<u8>, fields: &[InternalField], value: &Value, around: &Value) {
    out.push(b'{');
    let mut first = true;
    for field in fields {
        if field.shown == "+" {
            let id = field.kind.trim_start_matches('@');
            if let (Some(structure), Some(map)) = (schema().find(id), value["metadata"].as_object()) {
                write_fields(out, structure, map, &mut first);
            }
            continue;
        }
        write_key(out, field.shown, &mut first);
        let held = match field.from.strip_prefix('^') {
            Some(name) => &around[name],
            None => &value[field.from],
        };
        write_kind(out, field.kind, held, value);
    }
    out.push(b'}');
}

fn write_kind(out: &mut Vec<u8>, kind: &str, held: &Value, around: &Value) {
    if let Some(inner) = kind.strip_prefix('*') {
        if held.is_null() {
            out.extend_from_slice(b"null");
        } else {
            write_kind(out, inner, held, around);
        }
    } else if let Some(inner) = kind.strip_prefix('[') {
        match held {
            Value::Array(list) => write_list(out, list, |out, element| write_kind(out, inner, element, held)),
            _ => out.extend_from_slice(b"null"),
        }
    } else if let Some(inner) = kind.strip_prefix('{') {
        match held {
            Value::Object(map) => write_map(out, map, |out, element| write_kind(out, inner, element, held)),
            _ => out.extend_from_slice(b"null"),
        }
    } else if let Some(name) = kind.strip_prefix("@#") {
        if let Some(fields) = INTERNAL.get(name) {
            write_internal(out, fields, held, around);
        }
    } else if let Some(id) = kind.strip_prefix('@') {
        match (schema().find(id), held) {
            (Some(structure), Value::Object(map)) => write_structure(out, structure, map),
            (Some(structure), _) => write_structure(out, structure, &structure.zero()),
            (None, _) => json::write(out, held),
        }
    } else if !held.is_null() {
        json::write(out, held);
    } else {
        out.extend_from_slice(match kind {
            "string" => b"\"\"",
            "bool" => b"false",
            "quantity" => b"\"0\"",
            "time" | "micro" | "any" | "bytes" => b"null",
            _ => b"0",
        });
    }
}

/// Compact JSON spread over lines, one space per level.
pub(super) fn indented(compact: &str) -> String {
    let mut out = String::with_capacity(compact.len() * 2);
    let mut depth = 0;
    let mut in_string = false;
    let mut escaped = false;
    let mut chars = compact.chars().peekable();
    let new_line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth));
    };
    while let Some(c) = chars.next() {
        if in_string {
            out.push(c);
            in_string = c != '"' || escaped;
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '"' => {
                in_string = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                if let Some(close) = chars.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shows_wire_structures_in_declared_order() {
        let selector = json!({"matchExpressions": [{"values": ["<"], "operator": "In", "key": "k"}], "matchLabels": {"b": "1", "a": "2"}});
        assert_eq!(
            wire("meta.LabelSelector", &selector),
            r#"{"matchLabels":{"a":"2","b":"1"},"matchExpressions":[{"key":"k","operator":"In","values":["\u003c"]}]}"#
        );
    }

    #[test]
    fn shows_internal_structures_with_everything_unset() {
        let pods = json!({"succeeded": ["u1"]});
        assert_eq!(internal("UncountedTerminatedPods", &pods), r#"{"Succeeded":["u1"],"Failed":null}"#);
        let strategy = json!({"type": "X"});
        assert_eq!(internal("DeploymentStrategy", &strategy), r#"{"Type":"X","RollingUpdate":null}"#);
        let template =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"hostNetwork": true, "securityContext": {}}});
        let shown = internal("PodTemplateSpec", &template);
        assert!(shown.starts_with(r#"{"labels":{"a":"b"},"Spec":{"Volumes":null,"#), "{shown}");
        assert!(shown.contains(r#""SecurityContext":{"HostNetwork":true,"HostPID":false"#), "{shown}");
        assert!(!INTERNAL.values().flatten().any(|field| field.from == "?"));
    }

    #[test]
    fn indents_like_go() {
        assert_eq!(indented(r#"{"a":[],"b":{"c":"x{,"}}"#), "{\n \"a\": [],\n \"b\": {\n  \"c\": \"x{,\"\n }\n}");
    }
}
