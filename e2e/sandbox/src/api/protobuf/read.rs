//! Reading messages into JSON.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    DEEPEST, MAGIC, NEWER,
    schema::{INLINE, Many, Message, SCHEMA, Special, Type},
};

enum Wire<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(&'a [u8]),
}

/// Reads the fields of a message one after the other.
struct Reader<'a> {
    rest: &'a [u8],
}

const TRUNCATED: &str = "unexpected EOF";

impl<'a> Reader<'a> {
    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(TRUNCATED)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("proto: integer overflow".into())
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| TRUNCATED.to_owned())
    }

    /// The next field's number and value; nothing at the end.
    fn field(&mut self) -> Result<Option<(u64, Wire<'a>)>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(self.array()?),
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| TRUNCATED)?;
                Wire::Bytes(self.take(len)?)
            }
            5 => Wire::Fixed32(self.array()?),
            other => return Err(format!("proto: illegal wireType {other}")),
        };
        Ok(Some((tag >> 3, value)))
    }
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "proto: invalid UTF-8 string".to_owned())
}

type Fields<'a> = BTreeMap<u64, Wire<'a>>;

/// The fields of a small message whose values are all that matters.
fn fields(bytes: &[u8]) -> Result<Fields<'_>, String> {
    let mut reader = Reader { rest: bytes };
    let mut all = BTreeMap::new();
    while let Some((number, value)) = reader.field()? {
        all.insert(number, value);
    }
    Ok(all)
}

fn int(fields: &Fields<'_>, number: u64) -> i64 {
    match fields.get(&number) {
        Some(Wire::Varint(value)) => value.cast_signed(),
        _ => 0,
    }
}

fn bytes_of<'a>(fields: &Fields<'a>, number: u64) -> &'a [u8] {
    match fields.get(&number) {
        Some(Wire::Bytes(bytes)) => bytes,
        _ => &[],
    }
}

/// All values of a field of a small message that are bytes.
fn all_bytes(bytes: &[u8], number: u64) -> Result<Vec<&[u8]>, String> {
    let mut reader = Reader { rest: bytes };
    let mut all = Vec::new();
    while let Some((found, value)) = reader.field()? {
        if let Wire::Bytes(value) = value
            && found == number
        {
            all.push(value);
        }
    }
    Ok(all)
}

fn schema_of(bytes: &[u8], depth: usize) -> Result<Value, String> {
    message(SCHEMA.of_kind("apiextensions/v1", "JSONSchemaProps")?, bytes, depth + 1)
}

/// Reads a message that is not an object in JSON.
fn special(special: Special, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let fields = fields(bytes)?;
    let all = |number| -> Result<Vec<&[u8]>, String> { all_bytes(bytes, number) };
    Ok(match special {
        Special::Quantity => text(bytes_of(&fields, 1))?.into(),
        Special::IntOrString if int(&fields, 1) == 0 => int(&fields, 2).into(),
        Special::IntOrString => text(bytes_of(&fields, 3))?.into(),
        Special::Time | Special::MicroTime if fields.is_empty() => Value::Null,
        Special::Time => Timestamp::new(int(&fields, 1), 0).map_err(|error| error.to_string())?.to_string().into(),
        Special::MicroTime => {
            let nanos = i32::try_from(int(&fields, 2)).unwrap_or(0);
            let at = Timestamp::new(int(&fields, 1), nanos).map_err(|error| error.to_string())?;
            format!("{at:.6}").into()
        }
        Special::Json => match bytes_of(&fields, 1) {
            [] => Value::Null,
            raw => crate::value::json::parse(raw, &mut Vec::new())?,
        },
        Special::Strings => strings(&all(1)?)?,
        Special::SchemaOrBool => match fields.get(&2) {
            Some(Wire::Bytes(schema)) => schema_of(schema, depth)?,
            _ => (int(&fields, 1) != 0).into(),
        },
        Special::SchemaOrSchemas | Special::SchemaOrNames if fields.contains_key(&1) => {
            schema_of(bytes_of(&fields, 1), depth)?
        }
        Special::SchemaOrSchemas => {
            all(2)?.into_iter().map(|schema| schema_of(schema, depth)).collect::<Result<Value, _>>()?
        }
        Special::SchemaOrNames => strings(&all(2)?)?,
    })
}

fn strings(all: &[&[u8]]) -> Result<Value, String> {
    all.iter().map(|item| text(item)).collect::<Result<Vec<_>, _>>().map(Value::from)
}

fn value(kind: Type, wire: &Wire<'_>, depth: usize) -> Result<Value, String> {
    Ok(match (kind, wire) {
        (Type::Bool, Wire::Varint(v)) => (*v != 0).into(),
        (Type::Int, Wire::Varint(v)) => v.cast_signed().into(),
        (Type::Double, Wire::Fixed64(bytes)) => f64::from_le_bytes(*bytes).into(),
        (Type::Double, Wire::Fixed32(bytes)) => f64::from(f32::from_le_bytes(*bytes)).into(),
        (Type::String, Wire::Bytes(bytes)) => text(bytes)?.into(),
        (Type::Bytes, Wire::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Type::Message(id), Wire::Bytes(bytes)) => message(id, bytes, depth + 1)?,
        _ => return Err("proto: wrong wireType".into()),
    })
}

fn message(id: usize, bytes: &[u8], depth: usize) -> Result<Value, String> {
    if depth > DEEPEST {
        return Err("proto: nested too deeply".into());
    }
    let known = match SCHEMA.message(id) {
        Message::Special(kind) => return special(*kind, bytes, depth),
        Message::Fields(fields) => fields,
    };
    let mut object = Map::new();
    let mut reader = Reader { rest: bytes };
    while let Some((number, wire)) = reader.field()? {
        if let (NEWER, Wire::Bytes(newer)) = (number, &wire) {
            let newer = fields(newer)?;
            let value = crate::value::json::parse(bytes_of(&newer, 2), &mut Vec::new())?;
            object.insert(text(bytes_of(&newer, 1))?, value);
            continue;
        }
        let Some(field) = known.iter().find(|field| field.number == number) else { continue };
        let read = |wire: &Wire<'_>| value(field.kind, wire, depth);
        match field.many {
            Many::One | Many::Optional if field.name == INLINE => {
                if let Value::Object(inner) = read(&wire)? {
                    object.extend(inner);
                }
            }
            Many::One | Many::Optional => {
                object.insert(field.name.into(), read(&wire)?);
            }
            Many::List => {
                let list = object.entry(field.name).or_insert_with(|| json!([]));
                if let Value::Array(list) = list {
                    list.push(read(&wire)?);
                }
            }
            Many::Map => {
                let Wire::Bytes(entry) = wire else { return Err("proto: wrong wireType".into()) };
                let entry = fields(entry)?;
                let key = text(bytes_of(&entry, 1))?;
                // An absent value is the empty one.
                let item = read(entry.get(&2).unwrap_or(&Wire::Bytes(&[])))?;
                let map = object.entry(field.name).or_insert_with(|| json!({}));
                if let Value::Object(map) = map {
                    map.insert(key, item);
                }
            }
        }
    }
    Ok(Value::Object(object))
}

/// Reads a list: its metadata, and items of that kind.
fn list(api_version: &str, kind: &str, bytes: &[u8]) -> Result<Value, String> {
    let item = SCHEMA.of_kind(api_version, kind)?;
    let metadata = message(SCHEMA.of_kind("meta/v1", "ListMeta")?, bytes_of(&fields(bytes)?, 1), 1)?;
    let items = all_bytes(bytes, 2)?.into_iter().map(|bytes| message(item, bytes, 1));
    Ok(json!({"metadata": metadata, "items": items.collect::<Result<Vec<_>, _>>()?}))
}

/// Reads an object or a list in its envelope. It has its `apiVersion` and `kind`; the items of a list have none.
///
/// Fields that are no pointers in Go are there even if they have their zero value. The error is a decoder's message.
pub fn parse(body: &[u8]) -> Result<Value, String> {
    let envelope = body.strip_prefix(MAGIC).ok_or("provided data does not appear to be a protobuf message")?;
    let envelope = fields(envelope)?;
    let kind_of = fields(bytes_of(&envelope, 1))?;
    let (api_version, kind) = (text(bytes_of(&kind_of, 1))?, text(bytes_of(&kind_of, 2))?);
    let raw = bytes_of(&envelope, 2);
    let mut object = match (SCHEMA.of_kind(&api_version, &kind), kind.strip_suffix("List")) {
        (Err(_), Some(item)) => list(&api_version, item, raw)?,
        (id, _) => message(id?, raw, 0)?,
    };
    if let Value::Object(map) = &mut object {
        map.insert("apiVersion".into(), api_version.into());
        map.insert("kind".into(), kind.into());
    }
    Ok(object)
}

/// Reads a watch event, which is a frame without its length, into an object with `type` and `object`.
pub fn parse_event(frame: &[u8]) -> Result<Value, String> {
    let event = fields(frame)?;
    let extension = fields(bytes_of(&event, 2))?;
    Ok(json!({"type": text(bytes_of(&event, 1))?, "object": parse(bytes_of(&extension, 1))?}))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend_from_slice(bytes);
        out
    }

    fn number(field: u8, value: u8) -> Vec<u8> {
        vec![field << 3, value]
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC, &field(1, &type_meta), &field(2, raw)].concat()
    }

    fn named(name: &str, bytes: &[u8]) -> Result<Value, String> {
        message(SCHEMA.find(name).unwrap(), bytes, 0)
    }

    #[test]
    fn reads_scalars_lists_maps_and_inlined_messages() {
        let label = field(11, &[field(1, b"app"), field(2, b"web")].concat());
        let meta = [field(1, b"p"), label].concat();
        let secret = field(6, &field(1, b"s"));
        let volume = [field(1, b"v"), field(2, &secret)].concat();
        let spec = [field(1, &volume), number(4, 30)].concat();
        let pod = [field(1, &meta), field(2, &spec)].concat();
        let want = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "web"}},
            "spec": {"volumes": [{"name": "v", "secret": {"secretName": "s"}}], "terminationGracePeriodSeconds": 30}
        });
        assert_eq!(parse(&body("v1", "Pod", &pod)).unwrap(), want);
    }

    #[test]
    fn times_quantities_and_ports_are_what_they_are_in_json() {
        let time = [number(1, 60), number(2, 5)].concat();
        assert_eq!(named("meta/v1.Time", &time).unwrap(), "1970-01-01T00:01:00Z");
        assert_eq!(named("meta/v1.Time", &[]).unwrap(), Value::Null);
        assert_eq!(named("resource.Quantity", &field(1, b"1Gi")).unwrap(), "1Gi");
        assert_eq!(named("intstr.IntOrString", &number(2, 80)).unwrap(), 80);
        let percent = [number(1, 1), field(3, b"25%")].concat();
        assert_eq!(named("intstr.IntOrString", &percent).unwrap(), "25%");
    }

    #[test]
    fn options_are_the_same_in_every_group() {
        let options = parse(&body("apps/v1", "DeleteOptions", &field(4, b"Orphan"))).unwrap();
        assert_eq!(options["propagationPolicy"], "Orphan");
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused_in_words(raw in any::<Vec<u8>>()) {
            if let Err(words) = parse(&body("v1", "Pod", &raw[..raw.len().min(100)])) {
                prop_assert!(!words.is_empty());
            }
        }
    }
}
