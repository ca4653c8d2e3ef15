//! What an object looks like after the API server has decoded and encoded it: no nulls and empty values where an
//! encoder omits them, all fields that are always written, quantities and times in their one form.

use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Map, Value};

use super::{
    quantity::Quantity,
    schema::{Field, Struct, Type, schema},
};

/// Brings an object of the structure `id` into its canonical form and sets the defaults that the schema names. Unknown
/// fields stay as they are.
pub(super) fn canonicalize(id: &str, value: &mut Value) {
    if let (Some(structure), Value::Object(map)) = (schema().find(id), value) {
        structure_in(structure, map);
    }
}

fn structure_in(structure: &Struct, map: &mut Map<String, Value>) {
    map.retain(|name, value| structure.field(name).is_none_or(|field| keep(structure, field, value)));
    structure.complete(map);
    if structure.defaulted {
        default_fields(structure, map);
    }
}

/// Sets defaults of fields, and those within structures that are there only because they are always written.
fn default_fields(structure: &Struct, map: &mut Map<String, Value>) {
    for field in &structure.fields {
        let held = map.get(field.name);
        if let Some(default) = &field.rules.default
            && held.is_none_or(|held| held.is_null() || is_zero(&field.kind, held))
            && field.rules.default_if.is_none_or(|(name, word)| map.get(name).is_some_and(|held| held == word))
        {
            map.insert(field.name.to_owned(), default.clone());
        } else if held.is_none() || !matches!(field.kind, Type::Struct(_)) {
            continue;
        }
        if schema().structure_of(&field.kind).is_some_and(|inner| inner.defaulted)
            && let Some(value) = map.get_mut(field.name)
        {
            value_in(&field.kind, value);
        }
    }
}

/// Canonicalizes a field's value and says whether an encoder would write it.
fn keep(structure: &Struct, field: &Field, value: &mut Value) -> bool {
    if value.is_null() {
        return false;
    }
    value_in(&field.kind, value);
    !(is_zero(&field.kind, value) && (field.omit || loses_empty(structure, field)))
}

/// Whether an empty value reads as none after it was stored: protobuf does not tell them apart, JSON does.
fn loses_empty(structure: &Struct, field: &Field) -> bool {
    matches!(field.kind, Type::List(_) | Type::Map(_)) && !structure.id.starts_with("apiextensions.")
}

fn is_zero(kind: &Type, value: &Value) -> bool {
    match (kind, value) {
        (Type::String(_) | Type::Bytes, Value::String(text)) => text.is_empty(),
        (Type::Bool, Value::Bool(set)) => !set,
        (Type::Int(_) | Type::Float, Value::Number(number)) => number.as_f64() == Some(0.0),
        (Type::List(_), Value::Array(list)) => list.is_empty(),
        (Type::Map(_), Value::Object(map)) => map.is_empty(),
        _ => false,
    }
}

fn value_in(kind: &Type, value: &mut Value) {
    match kind {
        Type::Optional(inner) => value_in(inner, value),
        Type::List(inner) => {
            if let Value::Array(list) = value {
                for element in list {
                    element_in(inner, element);
                }
            }
        }
        Type::Map(inner) => {
            if let Value::Object(map) = value {
                for element in map.values_mut() {
                    element_in(inner, element);
                }
            }
        }
        Type::Struct(at) => {
            if let (Some(structure), Value::Object(map)) = (schema().structs.get(*at), value) {
                structure_in(structure, map);
            }
        }
        Type::Quantity => {
            let text = match value {
                Value::String(text) if text.bytes().all(|b| b.is_ascii_digit()) && !ends_in_thousands(text) => None,
                Value::String(text) => Quantity::canonical(text),
                Value::Number(number) => Quantity::canonical(&number.to_string()),
                _ => None,
            };
            if let Some(text) = text {
                *value = Value::String(text);
            }
        }
        Type::Time => {
            if let Value::String(text) = value
                && !is_plain_time(text)
                && let Some(time) = parse_time(text)
            {
                *text = format_time(time);
            }
        }
        Type::Micro => {
            if let Value::String(text) = value
                && let Some(time) = parse_time(text)
            {
                *text = format_micro(time);
            }
        }
        Type::String(_) | Type::Bool | Type::Int(_) | Type::Float | Type::Bytes | Type::IntOrString | Type::Any(_) => {}
    }
}

fn element_in(kind: &Type, element: &mut Value) {
    if element.is_null() && !matches!(kind, Type::Optional(_) | Type::Any(_)) {
        *element = schema().zero_element(kind);
    } else {
        value_in(kind, element);
    }
}

/// `5000` is canonically `5k`, and `007` is `7`.
fn ends_in_thousands(text: &str) -> bool {
    text.is_empty() || text.ends_with("000") || (text.starts_with('0') && text.len() > 1)
}

/// `2026-01-01T00:00:00Z`: nothing to do.
fn is_plain_time(text: &str) -> bool {
    text.len() == 20 && text.ends_with('Z') && !text.contains('.')
}

pub(super) fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

pub(super) fn format_time(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub(super) fn format_micro(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn canonical(id: &str, mut value: Value) -> Value {
        canonicalize(id, &mut value);
        let again = {
            let mut again = value.clone();
            canonicalize(id, &mut again);
            again
        };
        assert_eq!(value, again, "canonicalizing twice changes nothing");
        value
    }

    #[test]
    fn drops_what_an_encoder_omits_and_adds_what_it_always_writes() {
        let container = json!({"name": "c", "env": [], "stdin": false, "command": null, "tty": true});
        assert_eq!(canonical("core/v1.Container", container), json!({"name": "c", "tty": true, "resources": {}}));
        let status = json!({"conditions": [{"type": "Ready", "status": "True"}], "phase": ""});
        assert_eq!(
            canonical("core/v1.PodStatus", status),
            json!({"conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null}]})
        );
    }

    #[test]
    fn keeps_optional_zeros_and_unknown_fields() {
        let spec = json!({"replicas": 0, "paused": false, "future": null, "selector": {}});
        let spec = canonical("apps/v1.DeploymentSpec", spec);
        assert_eq!(spec["replicas"], 0);
        assert!(spec.get("paused").is_none());
        assert!(spec.as_object().unwrap().contains_key("future"));
        assert_eq!(spec["selector"], json!({}));
    }

    #[test]
    fn rewrites_quantities_and_times() {
        let resources = json!({"requests": {"cpu": "0.5", "memory": 1024, "n": "2000"}});
        assert_eq!(
            canonical("core/v1.ResourceRequirements", resources),
            json!({"requests": {"cpu": "500m", "memory": "1024", "n": "2k"}})
        );
        let meta = json!({"creationTimestamp": "2026-01-01T01:00:00.5+01:00", "deletionTimestamp": null, "labels": {}});
        assert_eq!(canonical("meta/v1.ObjectMeta", meta), json!({"creationTimestamp": "2026-01-01T00:00:00Z"}));
        let lease = json!({"renewTime": "2026-01-01T00:00:00.1Z"});
        assert_eq!(canonical("coordination/v1.LeaseSpec", lease), json!({"renewTime": "2026-01-01T00:00:00.100000Z"}));
    }
}
