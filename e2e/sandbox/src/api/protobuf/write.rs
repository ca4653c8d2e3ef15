//! Writing messages as Go's generated code does.
//!
//! Fields come in the order of their numbers and the entries of a map in the order of their keys. A field that is no
//! pointer in Go is written even if it has its zero value; a message in it has all of its own such fields.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    DEEPEST, NEWER,
    schema::{Field, INLINE, Many, Message, SCHEMA, Special, Type},
};
use crate::value::json;

/// Wire types, the lower three bits of a tag.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const DELIMITED: u64 = 2;

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn integer(out: &mut Vec<u8>, number: u64, value: i64) {
    varint(out, number << 3 | VARINT);
    varint(out, value.cast_unsigned());
}

/// Writes the tag and the length of a field; its content follows.
pub(super) fn head(out: &mut Vec<u8>, number: u64, length: usize) {
    varint(out, number << 3 | DELIMITED);
    varint(out, length as u64);
}

/// Writes a field that consists of the parts, one after the other.
pub(super) fn delimited(out: &mut Vec<u8>, number: u64, parts: &[&[u8]]) {
    head(out, number, parts.iter().map(|part| part.len()).sum());
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Writes a field whose content the function appends.
fn nested(
    out: &mut Vec<u8>,
    number: u64,
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), String>,
) -> Result<(), String> {
    varint(out, number << 3 | DELIMITED);
    // Most messages are short: one byte is kept for the length, and the content of a longer message moves.
    let at = out.len();
    out.push(0);
    content(out)?;
    let length = out.len() - at - 1;
    if length < 0x80 {
        out[at] = length as u8;
    } else {
        let mut bytes = Vec::with_capacity(4);
        varint(&mut bytes, length as u64);
        out.splice(at..=at, bytes);
    }
    Ok(())
}

fn wrong(what: &str) -> String {
    format!("proto: field {what} is of another type")
}

fn text<'a>(value: &'a Value, what: &str) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| wrong(what))
}

fn time(out: &mut Vec<u8>, value: &Value, what: &str, nanos: impl Fn(Timestamp) -> i32) -> Result<(), String> {
    let at: Timestamp = text(value, what)?.parse().map_err(|error| format!("proto: field {what}: {error}"))?;
    integer(out, 1, at.as_second());
    integer(out, 2, nanos(at).into());
    Ok(())
}

/// Writes a message that is not an object in JSON; without a value, the zero value.
fn special(out: &mut Vec<u8>, special: Special, value: Option<&Value>, what: &str, depth: usize) -> Result<(), String> {
    match (special, value) {
        (Special::Quantity, None) => delimited(out, 1, &[b"0"]),
        (Special::Quantity, Some(value)) => delimited(out, 1, &[text(value, what)?.as_bytes()]),
        (Special::IntOrString, value) => {
            let number = value.is_none_or(Value::is_i64);
            integer(out, 1, i64::from(!number));
            integer(out, 2, value.and_then(Value::as_i64).unwrap_or_default());
            let string = value.filter(|_| !number).map(|value| text(value, what)).transpose()?;
            delimited(out, 3, &[string.unwrap_or_default().as_bytes()]);
        }
        // Go drops the fractions of a Time, and what is below a microsecond of a MicroTime.
        (Special::Time, Some(value)) => time(out, value, what, |_| 0)?,
        (Special::MicroTime, Some(value)) => time(out, value, what, |at| at.subsec_nanosecond() / 1000 * 1000)?,
        (Special::Json, Some(value)) => delimited(out, 1, &[json::text(value).as_bytes()]),
        (Special::Strings, Some(value)) => strings(out, 1, value, what)?,
        (Special::SchemaOrBool, value) => {
            let schema = value.filter(|value| !value.is_boolean());
            integer(out, 1, i64::from(schema.is_some() || value == Some(&Value::Bool(true))));
            if let Some(schema) = schema {
                nested(out, 2, |out| schema_message(out, schema, what, depth))?;
            }
        }
        (Special::SchemaOrSchemas, Some(Value::Array(schemas))) => {
            for schema in schemas {
                nested(out, 2, |out| schema_message(out, schema, what, depth))?;
            }
        }
        (Special::SchemaOrNames, Some(names @ Value::Array(_))) => strings(out, 2, names, what)?,
        (Special::SchemaOrSchemas | Special::SchemaOrNames, Some(schema)) => {
            nested(out, 1, |out| schema_message(out, schema, what, depth))?;
        }
        (_, None) => {}
    }
    Ok(())
}

fn strings(out: &mut Vec<u8>, number: u64, list: &Value, what: &str) -> Result<(), String> {
    for item in list.as_array().ok_or_else(|| wrong(what))? {
        delimited(out, number, &[text(item, what)?.as_bytes()]);
    }
    Ok(())
}

fn schema_message(out: &mut Vec<u8>, schema: &Value, what: &str, depth: usize) -> Result<(), String> {
    let id = SCHEMA.of_kind("apiextensions/v1", "JSONSchemaProps")?;
    message(out, id, Some(schema), None, what, depth + 1)
}

/// A field of the object that is written from its text, and that text.
pub(crate) type Kept<'a> = Option<(&'a str, &'a str)>;

/// Writes a message; without a value, the zero value.
fn message(
    out: &mut Vec<u8>,
    id: usize,
    value: Option<&Value>,
    kept: Kept<'_>,
    what: &str,
    depth: usize,
) -> Result<(), String> {
    if depth > DEEPEST {
        return Err("proto: nested too deeply".into());
    }
    let fields = match SCHEMA.message(id) {
        Message::Special(kind) => return special(out, *kind, value, what, depth),
        Message::Fields(fields) => fields,
    };
    let object = match value {
        None => None,
        Some(Value::Object(object)) => Some(object),
        Some(_) => return Err(wrong(what)),
    };
    known_members(out, fields, object, kept, depth)?;
    newer_members(out, fields, object);
    Ok(())
}

/// Writes the members of an object that these fields have, also those of inlined messages.
fn known_members(
    out: &mut Vec<u8>,
    fields: &[Field],
    object: Option<&Map<String, Value>>,
    kept: Kept<'_>,
    depth: usize,
) -> Result<(), String> {
    for field in fields {
        if let Some((_, text)) = kept.filter(|(name, _)| *name == field.name) {
            nested(out, field.number, |out| {
                delimited(out, 1, &[text.as_bytes()]);
                Ok(())
            })?;
        } else if let (INLINE, Type::Message(id)) = (field.name, field.kind) {
            let Message::Fields(inlined) = SCHEMA.message(id) else { return Err(wrong(field.name)) };
            nested(out, field.number, |out| known_members(out, inlined, object, None, depth + 1))?;
        } else {
            member(out, field, object, depth)?;
        }
    }
    Ok(())
}

/// Writes the members of an object that no field has, as a newer server would.
fn newer_members(out: &mut Vec<u8>, fields: &[Field], object: Option<&Map<String, Value>>) {
    fn has(fields: &[Field], name: &str) -> bool {
        fields.iter().any(|field| match (field.name, field.kind) {
            (INLINE, Type::Message(id)) => matches!(SCHEMA.message(id), Message::Fields(fields) if has(fields, name)),
            (known, _) => known == name,
        })
    }
    let members = object.into_iter().flatten().filter(|(_, value)| !value.is_null());
    for (name, value) in members.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind")) {
        if !has(fields, name) {
            let mut content = Vec::new();
            delimited(&mut content, 1, &[name.as_bytes()]);
            delimited(&mut content, 2, &[json::text(value).as_bytes()]);
            delimited(out, NEWER, &[&content]);
        }
    }
}

/// Writes a field of an object.
fn member(out: &mut Vec<u8>, field: &Field, object: Option<&Map<String, Value>>, depth: usize) -> Result<(), String> {
    let value = object.and_then(|object| object.get(field.name)).filter(|value| !value.is_null());
    match (field.many, value) {
        (Many::One, value) => one(out, field.number, field, value, depth)?,
        (_, None) => {}
        (Many::Optional, value) => one(out, field.number, field, value, depth)?,
        (Many::List, Some(value)) => {
            for item in value.as_array().ok_or_else(|| wrong(field.name))? {
                one(out, field.number, field, Some(item).filter(|item| !item.is_null()), depth)?;
            }
        }
        (Many::Map, Some(value)) => {
            let entries = value.as_object().ok_or_else(|| wrong(field.name))?;
            // A map of serde_json is sorted by its keys.
            for (key, item) in entries {
                nested(out, field.number, |out| {
                    delimited(out, 1, &[key.as_bytes()]);
                    one(out, 2, field, Some(item).filter(|item| !item.is_null()), depth)
                })?;
            }
        }
    }
    Ok(())
}

/// Writes one value of a field's type; without a value, the zero value.
fn one(out: &mut Vec<u8>, number: u64, field: &Field, value: Option<&Value>, depth: usize) -> Result<(), String> {
    let mismatch = || wrong(field.name);
    match field.kind {
        Type::Bool => {
            let value = value.map_or(Some(false), Value::as_bool).ok_or_else(mismatch)?;
            integer(out, number, i64::from(value));
        }
        Type::Int => integer(out, number, value.map_or(Some(0), Value::as_i64).ok_or_else(mismatch)?),
        Type::Double => {
            let value = value.map_or(Some(0.0), Value::as_f64).ok_or_else(mismatch)?;
            varint(out, number << 3 | FIXED64);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Type::String => {
            let value = value.map_or(Some(""), Value::as_str).ok_or_else(mismatch)?;
            delimited(out, number, &[value.as_bytes()]);
        }
        Type::Bytes => {
            let value = value.map_or(Some(""), Value::as_str).ok_or_else(mismatch)?;
            delimited(out, number, &[&STANDARD.decode(value).map_err(|_| mismatch())?]);
        }
        Type::Message(id) => nested(out, number, |out| message(out, id, value, None, field.name, depth + 1))?,
    }
    Ok(())
}

/// The message of an object of that kind, without an envelope.
pub(super) fn object(api_version: &str, kind: &str, object: &Value, kept: Kept<'_>) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(1024);
    message(&mut out, SCHEMA.of_kind(api_version, kind)?, Some(object), kept, kind, 0)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::{
        super::{
            envelope::{write, write_list},
            read::parse,
        },
        *,
    };

    /// Objects as JSON, and what the Go types of Kubernetes 1.36 make of them.
    #[test]
    fn objects_are_encoded_byte_for_byte_as_go_encodes_them() {
        let mut kinds = BTreeSet::new();
        for line in include_str!("data/protobuf-encoded.jsonl").lines() {
            let encoded: Value = serde_json::from_str(line).unwrap();
            let wanted = STANDARD.decode(encoded["protobuf"].as_str().unwrap()).unwrap();
            let object = &encoded["object"];
            let written = write(object, None).unwrap().bytes;
            assert_eq!(parse(&written), parse(&wanted), "{object}");
            assert_eq!(written, wanted, "{object}");
            kinds.insert(object["kind"].as_str().unwrap().to_owned());
        }
        assert!(kinds.len() > 20 && kinds.contains("Pod") && kinds.contains("Status"), "{kinds:?}");
    }

    fn is_zero(value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(false) => true,
            Value::Object(fields) => fields.values().all(is_zero),
            Value::Array(items) => items.is_empty(),
            Value::String(text) => text.is_empty() || text == "0",
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::Bool(true) => false,
        }
    }

    /// Checks that `read` is `written`, apart from zero values that JSON leaves out and from nulls.
    fn check_same(path: &str, read: &Value, written: &Value) {
        match (read, written) {
            (Value::Object(read), Value::Object(written)) => {
                for (name, field) in written {
                    let path = format!("{path}.{name}");
                    match read.get(name) {
                        Some(read) => check_same(&path, read, field),
                        // Protobuf has neither nulls nor empty lists and maps.
                        None => assert!(!field.is_number() && !field.is_boolean() && is_zero(field), "{path}: {field}"),
                    }
                }
                for (name, field) in read.iter().filter(|(name, _)| !written.contains_key(*name)) {
                    assert!(is_zero(field), "{path}.{name}: {field}");
                }
            }
            (Value::Array(read), Value::Array(written)) => {
                assert_eq!(read.len(), written.len(), "{path}");
                for (read, written) in read.iter().zip(written) {
                    check_same(path, read, written);
                }
            }
            (Value::Null, written) => assert!(is_zero(written), "{path}: {written}"),
            (read, Value::Null) => assert!(is_zero(read), "{path}: {read}"),
            (read, written) => assert_eq!(read, written, "{path}"),
        }
    }

    #[test]
    fn recorded_objects_read_as_they_were_written() {
        let mut kinds = BTreeSet::new();
        for line in include_str!("../../../../goldens/kinds.jsonl").lines() {
            let recorded: Value = serde_json::from_str(line).unwrap();
            let mut object = recorded["response"]["body"].clone();
            let (Some(api_version), Some(kind)) = (object["apiVersion"].as_str(), object["kind"].as_str()) else {
                continue;
            };
            if !object["metadata"].is_object() || SCHEMA.of_kind(api_version, kind).is_err() {
                continue;
            }
            kinds.insert(kind.to_owned());
            // Protobuf has no type for the objects in an object.
            let templates = object.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
            for template in templates.into_iter().flatten().filter_map(Value::as_object_mut) {
                template.retain(|field, _| !matches!(field.as_str(), "apiVersion" | "kind"));
            }
            let written = write(&object, None).unwrap_or_else(|error| panic!("{}: {error}", recorded["case"]));
            check_same(&recorded["case"].to_string(), &parse(&written.bytes).unwrap(), &object);
        }
        assert!(kinds.len() > 20 && kinds.contains("ControllerRevision") && kinds.contains("Pod"), "{kinds:?}");
    }

    #[test]
    fn pointers_are_written_only_if_they_are_set() {
        let bytes = |spec: Value| {
            let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {}, "spec": spec});
            parse(&write(&set, None).unwrap().bytes).unwrap()["spec"].clone()
        };
        assert_eq!(bytes(json!({}))["minReadySeconds"], 0);
        assert!(bytes(json!({})).get("replicas").is_none());
        assert_eq!(bytes(json!({"replicas": 0}))["replicas"], 0);
    }

    #[test]
    fn schemas_of_custom_resources_read_as_they_were_written() {
        let schema = json!({
            "type": "object", "$schema": "s", "additionalProperties": true,
            "properties": {
                "a": {"type": "array", "items": {"type": "string", "enum": ["x", 1, null]}, "default": ["x"]},
                "b": {"type": "object", "additionalProperties": {"type": "integer", "maximum": 2.5}},
                "c": {"x-kubernetes-preserve-unknown-fields": true, "dependencies": {"d": ["e"]}}
            }
        });
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "crates.example.com"},
            "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}
        });
        let read = parse(&write(&definition, None).unwrap().bytes).unwrap();
        check_same("", &read, &definition);
    }

    #[test]
    fn lists_read_as_they_were_written() {
        let pods = ["a", "b"].map(|name| json!({"metadata": {"name": name}, "spec": {"nodeName": name}}));
        let items = pods.each_ref().map(|pod| object("v1", "Pod", pod, None).unwrap());
        let metadata = json!({"resourceVersion": "7", "remainingItemCount": 0}).as_object().unwrap().clone();
        let list = write_list("v1", "PodList", metadata, items.iter().map(|item| &**item)).unwrap();
        let read = parse(&list).unwrap();
        assert_eq!((&read["kind"], &read["metadata"]["remainingItemCount"]), (&json!("PodList"), &json!(0)));
        check_same("", &read["items"], &json!(pods));
    }

    #[test]
    fn a_kept_text_is_written_as_it_is() {
        let revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r"},
            "data": {"a": "<"}, "revision": 1});
        let text = "{ \"a\": \"\\u003c\" }";
        let written = write(&revision, Some(("data", text))).unwrap().bytes;
        assert!(written.windows(text.len()).any(|bytes| bytes == text.as_bytes()));
        check_same("", &parse(&written).unwrap(), &revision);
    }

    #[test]
    fn what_does_not_fit_is_refused_in_words() {
        let error = |object: &Value| write(object, None).err().unwrap();
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 7}});
        assert_eq!(error(&pod), "proto: field name is of another type");
        let custom = json!({"apiVersion": "example.com/v1", "kind": "Crate"});
        assert_eq!(error(&custom), "proto: unknown message example/v1.Crate");
    }
}
