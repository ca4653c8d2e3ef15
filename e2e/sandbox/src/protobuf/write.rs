//! Writing the Kubernetes protobuf encoding, for clients that accept nothing else.
//!
//! It is the only representation that shows the bytes of a ControllerRevision as they are stored: JSON is encoded again.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::Value;

use super::{DEEPEST, Field, MAGIC, MESSAGES, Many, Type, message_of};

/// The media type of the encoding.
pub(in super::super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn integer(out: &mut Vec<u8>, number: u64, value: i64) {
    varint(out, number << 3);
    varint(out, value.cast_unsigned());
}

fn delimited(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    varint(out, number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Messages that are something else in JSON.
fn special(name: &str, value: &Value) -> Option<Result<Vec<u8>, String>> {
    let mut out = Vec::new();
    let text = || value.as_str().ok_or_else(|| format!("proto: {name} is no text"));
    let done = match name {
        "resource.Quantity" => text().map(|text| delimited(&mut out, 1, text.as_bytes())),
        "intstr.IntOrString" => match value.as_i64() {
            Some(number) => {
                integer(&mut out, 2, number);
                Ok(())
            }
            None => text().map(|text| {
                integer(&mut out, 1, 1);
                delimited(&mut out, 3, text.as_bytes());
            }),
        },
        "meta/v1.Time" | "meta/v1.MicroTime" => {
            text().and_then(|text| text.parse::<Timestamp>().map_err(|error| error.to_string())).map(|at| {
                integer(&mut out, 1, at.as_second());
                integer(&mut out, 2, i64::from(at.subsec_nanosecond()));
            })
        }
        "runtime.RawExtension" | "meta/v1.FieldsV1" => {
            delimited(&mut out, 1, super::super::json::text(value).as_bytes());
            Ok(())
        }
        // A list of its own type.
        name if name.ends_with(".ExtraValue") => {
            for item in value.as_array().into_iter().flatten().filter_map(Value::as_str) {
                delimited(&mut out, 1, item.as_bytes());
            }
            Ok(())
        }
        // JSON has it in a notation of Go's.
        "meta/v1.Duration" => Err("proto: durations are not written".to_owned()),
        _ => return None,
    };
    Some(done.map(|()| out))
}

/// The kept text of a field of the object itself.
type Kept<'a> = Option<(&'a str, &'a str)>;

fn message(name: &str, value: &Value, kept: Kept<'_>, depth: usize) -> Result<Vec<u8>, String> {
    if let Some(done) = special(name, value) {
        return done;
    }
    if depth > DEEPEST {
        return Err("proto: nested too deeply".into());
    }
    let Some(fields) = MESSAGES.get(name) else { return Err(format!("proto: unknown message {name}")) };
    let package = name.rsplit_once('.').map_or(name, |(package, _)| package);
    let mut out = Vec::new();
    for (number, field) in fields {
        if let Some((_, text)) = kept.filter(|(of, _)| *of == field.name) {
            let mut raw = Vec::new();
            delimited(&mut raw, 1, text.as_bytes());
            delimited(&mut out, *number, &raw);
            continue;
        }
        let one = |out: &mut Vec<u8>, number, value: &Value| scalar(out, number, field, package, value, depth);
        let member = value.get(field.name).filter(|member| !member.is_null());
        match (field.many, member) {
            // The fields of an inlined message are the object's own.
            (Many::One, _) if field.name == "+" => one(&mut out, *number, value)?,
            (_, None) => {}
            (Many::One, Some(member)) => one(&mut out, *number, member)?,
            (Many::List, Some(member)) => {
                for item in member.as_array().into_iter().flatten() {
                    one(&mut out, *number, item)?;
                }
            }
            (Many::Map, Some(member)) => {
                for (key, item) in member.as_object().into_iter().flatten() {
                    let mut entry = Vec::new();
                    delimited(&mut entry, 1, key.as_bytes());
                    one(&mut entry, 2, item)?;
                    delimited(&mut out, *number, &entry);
                }
            }
        }
    }
    Ok(out)
}

fn scalar(
    out: &mut Vec<u8>,
    number: u64,
    field: &Field,
    package: &str,
    value: &Value,
    depth: usize,
) -> Result<(), String> {
    let wrong = || format!("proto: field {} is of another type", field.name);
    match field.kind {
        Type::Bool => integer(out, number, i64::from(value.as_bool().ok_or_else(wrong)?)),
        Type::Int => integer(out, number, value.as_i64().ok_or_else(wrong)?),
        Type::Double => {
            varint(out, number << 3 | 1);
            out.extend_from_slice(&value.as_f64().ok_or_else(wrong)?.to_le_bytes());
        }
        Type::String => delimited(out, number, value.as_str().ok_or_else(wrong)?.as_bytes()),
        Type::Bytes => {
            let bytes = STANDARD.decode(value.as_str().ok_or_else(wrong)?).map_err(|_| wrong())?;
            delimited(out, number, &bytes);
        }
        Type::Message(name) if field.local => {
            delimited(out, number, &message(&format!("{package}.{name}"), value, None, depth + 1)?);
        }
        Type::Message(name) => delimited(out, number, &message(name, value, None, depth + 1)?),
    }
    Ok(())
}

/// Writes an object of the API. `kept` is a field of it whose text was kept, and that text.
pub(in super::super) fn write(object: &Value, kept: Kept<'_>) -> Result<Vec<u8>, String> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let mut kind_of = Vec::new();
    delimited(&mut kind_of, 1, api_version.as_bytes());
    delimited(&mut kind_of, 2, kind.as_bytes());
    let mut out = MAGIC.to_vec();
    delimited(&mut out, 1, &kind_of);
    delimited(&mut out, 2, &message(&message_of(api_version, kind), object, kept, 0)?);
    delimited(&mut out, 3, b"");
    delimited(&mut out, 4, b"");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::parse, *};

    /// Without nulls and empty containers, which protobuf does not have.
    fn pruned(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let kept = fields.iter().map(|(name, field)| (name.clone(), pruned(field)));
                Value::Object(kept.filter(|(_, field)| !is_empty(field)).collect())
            }
            Value::Array(items) => items.iter().map(pruned).collect(),
            other => other.clone(),
        }
    }

    fn is_empty(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Object(fields) => fields.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => false,
        }
    }

    #[test]
    fn recorded_objects_read_as_they_were_written() {
        let mut kinds = std::collections::BTreeSet::new();
        for line in include_str!("../kinds/data/recorded.jsonl").lines() {
            let recorded: Value = serde_json::from_str(line).unwrap();
            let object = &recorded["response"]["body"];
            let (Some(api_version), Some(kind)) = (object["apiVersion"].as_str(), object["kind"].as_str()) else {
                continue;
            };
            if !object["metadata"].is_object() || !MESSAGES.contains_key(&*message_of(api_version, kind)) {
                continue;
            }
            let mut object = object.clone();
            // Protobuf has no type for the objects in an object.
            let templates = object.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
            for template in templates.into_iter().flatten().filter_map(Value::as_object_mut) {
                template.retain(|field, _| !matches!(field.as_str(), "apiVersion" | "kind"));
            }
            let written = write(&object, None).unwrap_or_else(|error| panic!("{}: {error}", recorded["case"]));
            assert_eq!(pruned(&parse(&written).unwrap()), pruned(&object), "{}", recorded["case"]);
            kinds.insert(object["kind"].to_string());
        }
        assert!(kinds.len() > 20 && kinds.contains("\"ControllerRevision\"") && kinds.contains("\"Pod\""), "{kinds:?}");
    }

    #[test]
    fn a_kept_text_is_written_as_it_is() {
        let revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r"},
            "data": {"a": "<"}, "revision": 1});
        let text = "{ \"a\": \"\\u003c\" }";
        let written = write(&revision, Some(("data", text))).unwrap();
        assert!(written.windows(text.len()).any(|bytes| bytes == text.as_bytes()));
        assert_eq!(pruned(&parse(&written).unwrap()), revision);
    }

    #[test]
    fn what_does_not_fit_is_refused_in_words() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 7}});
        assert_eq!(write(&pod, None).unwrap_err(), "proto: field name is of another type");
        let custom = json!({"apiVersion": "example.com/v1", "kind": "Crate"});
        assert_eq!(write(&custom, None).unwrap_err(), "proto: unknown message example/v1.Crate");
    }
}
