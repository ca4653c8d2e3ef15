//! The Kubernetes protobuf encoding: typed Go clients, kubectl's generators among them, send it.
//!
//! Answers are JSON, which those clients accept as well. A client that accepts nothing but protobuf reads single objects in it
//! ([`write()`]). The field numbers are in `data/protobuf-1.36.txt`, one message after the other:
//!
//! ```text
//! core/v1.EnvVar               a message
//!  1 name s                    field number, JSON name (`+`: its fields are the parent's), type
//!  3 valueFrom @EnvVarSource   s string, b boolean, i integer, d double, y bytes, or a message (`@`: same package);
//!                              before it `*` for a list, `%` for a map from strings
//! ```

mod write;

use std::{collections::BTreeMap, sync::LazyLock};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub(super) use write::{MEDIA_TYPE, write};

/// What every body starts with.
const MAGIC: &[u8] = b"k8s\0";
/// Messages do not nest deeper in any kind.
const DEEPEST: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Many {
    One,
    List,
    Map,
}

#[derive(Clone, Copy, Debug)]
enum Type {
    String,
    Bool,
    Int,
    Double,
    Bytes,
    Message(&'static str),
}

#[derive(Debug)]
struct Field {
    name: &'static str,
    many: Many,
    kind: Type,
    /// Package of the message type, where that is the parent's.
    local: bool,
}

type Message = BTreeMap<u64, Field>;

static MESSAGES: LazyLock<BTreeMap<&'static str, Message>> =
    LazyLock::new(|| parse_messages(include_str!("data/protobuf-1.36.txt")));

fn parse_messages(text: &'static str) -> BTreeMap<&'static str, Message> {
    let mut messages: BTreeMap<&str, Message> = BTreeMap::new();
    let mut current = "";
    for line in text.lines() {
        let Some(field) = line.strip_prefix(' ') else {
            current = line;
            messages.entry(current).or_default();
            continue;
        };
        let mut words = field.split(' ');
        let (Some(number), Some(name), Some(kind)) = (words.next(), words.next(), words.next()) else { continue };
        let (many, kind) = match (kind.strip_prefix('*'), kind.strip_prefix('%')) {
            (Some(kind), _) => (Many::List, kind),
            (_, Some(kind)) => (Many::Map, kind),
            _ => (Many::One, kind),
        };
        let (kind, local) = match (kind, kind.strip_prefix('@')) {
            ("s", _) => (Type::String, false),
            ("b", _) => (Type::Bool, false),
            ("i", _) => (Type::Int, false),
            ("d", _) => (Type::Double, false),
            ("y", _) => (Type::Bytes, false),
            (_, Some(name)) => (Type::Message(name), true),
            (name, None) => (Type::Message(name), false),
        };
        if let Ok(number) = number.parse() {
            messages.entry(current).or_default().insert(number, Field { name, many, kind, local });
        }
    }
    messages
}

/// A value on the wire.
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

/// Messages that are something else in JSON.
fn special(name: &str, bytes: &[u8]) -> Option<Result<Value, String>> {
    let of = |make: &dyn Fn(&Fields<'_>) -> Result<Value, String>| Some(fields(bytes).and_then(|f| make(&f)));
    match name {
        "resource.Quantity" => of(&|f| Ok(text(bytes_of(f, 1))?.into())),
        "intstr.IntOrString" => {
            of(&|f| if int(f, 1) == 0 { Ok(int(f, 2).into()) } else { Ok(text(bytes_of(f, 3))?.into()) })
        }
        "meta/v1.Time" | "meta/v1.MicroTime" => of(&|f| {
            if f.is_empty() {
                return Ok(Value::Null);
            }
            let nanos = i32::try_from(int(f, 2)).unwrap_or(0);
            let micro = name.ends_with("MicroTime");
            let at = Timestamp::new(int(f, 1), if micro { nanos } else { 0 }).map_err(|e| e.to_string())?;
            Ok(if micro { format!("{at:.6}") } else { at.to_string() }.into())
        }),
        "meta/v1.Duration" => of(&|f| Ok(format!("{}ns", int(f, 1)).into())),
        "runtime.RawExtension" | "meta/v1.FieldsV1" => of(&|f| {
            let raw = bytes_of(f, 1);
            if raw.is_empty() { Ok(Value::Null) } else { super::json::parse(raw, &mut Vec::new()) }
        }),
        // A list of its own type.
        name if name.ends_with(".ExtraValue") => Some((|| {
            let mut reader = Reader { rest: bytes };
            let mut list = Vec::new();
            while let Some((_, value)) = reader.field()? {
                if let Wire::Bytes(item) = value {
                    list.push(Value::from(text(item)?));
                }
            }
            Ok(list.into())
        })()),
        _ => None,
    }
}

fn value(kind: Type, package: &str, local: bool, wire: &Wire<'_>, depth: usize) -> Result<Value, String> {
    Ok(match (kind, wire) {
        (Type::Bool, Wire::Varint(v)) => (*v != 0).into(),
        (Type::Int, Wire::Varint(v)) => v.cast_signed().into(),
        (Type::Double, Wire::Fixed64(bytes)) => f64::from_le_bytes(*bytes).into(),
        (Type::Double, Wire::Fixed32(bytes)) => f64::from(f32::from_le_bytes(*bytes)).into(),
        (Type::String, Wire::Bytes(bytes)) => text(bytes)?.into(),
        (Type::Bytes, Wire::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Type::Message(name), Wire::Bytes(bytes)) if local => message(&format!("{package}.{name}"), bytes, depth + 1)?,
        (Type::Message(name), Wire::Bytes(bytes)) => message(name, bytes, depth + 1)?,
        _ => return Err("proto: wrong wireType".into()),
    })
}

/// Reads a message.
fn message(name: &str, bytes: &[u8], depth: usize) -> Result<Value, String> {
    if let Some(done) = special(name, bytes) {
        return done;
    }
    if depth > DEEPEST {
        return Err("proto: nested too deeply".into());
    }
    let Some(known) = MESSAGES.get(name) else { return Err(format!("proto: unknown message {name}")) };
    let package = name.rsplit_once('.').map_or(name, |(package, _)| package);
    let mut object = Map::new();
    let mut reader = Reader { rest: bytes };
    while let Some((number, wire)) = reader.field()? {
        let Some(field) = known.get(&number) else { continue };
        let read = |wire: &Wire<'_>| value(field.kind, package, field.local, wire, depth);
        match field.many {
            Many::One if field.name == "+" => {
                if let Value::Object(inner) = read(&wire)? {
                    object.extend(inner);
                }
            }
            Many::One => {
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

/// The package of a group version's messages.
fn package(api_version: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let group = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) };
    format!("{group}/{version}")
}

/// The name of the message of a kind.
fn message_of(api_version: &str, kind: &str) -> String {
    let own = format!("{}.{kind}", package(api_version));
    let shared = format!("meta/v1.{kind}");
    if MESSAGES.contains_key(&*own) || !MESSAGES.contains_key(&*shared) { own } else { shared }
}

/// Reads a body; the object has its `apiVersion` and `kind`.
pub(super) fn parse(body: &[u8]) -> Result<Value, String> {
    let envelope = body.strip_prefix(MAGIC).ok_or("provided data does not appear to be a protobuf message")?;
    let envelope = fields(envelope)?;
    let kind_of = fields(bytes_of(&envelope, 1))?;
    let (api_version, kind) = (text(bytes_of(&kind_of, 1))?, text(bytes_of(&kind_of, 2))?);
    let mut object = message(&message_of(&api_version, &kind), bytes_of(&envelope, 2), 0)?;
    if let Value::Object(map) = &mut object {
        map.insert("apiVersion".into(), api_version.into());
        map.insert("kind".into(), kind.into());
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A field with bytes.
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
        assert_eq!(message("meta/v1.Time", &time, 0).unwrap(), "1970-01-01T00:01:00Z");
        assert_eq!(message("meta/v1.Time", &[], 0).unwrap(), Value::Null);
        assert_eq!(message("resource.Quantity", &field(1, b"1Gi"), 0).unwrap(), "1Gi");
        assert_eq!(message("intstr.IntOrString", &number(2, 80), 0).unwrap(), 80);
        let percent = [number(1, 1), field(3, b"25%")].concat();
        assert_eq!(message("intstr.IntOrString", &percent, 0).unwrap(), "25%");
    }

    #[test]
    fn options_are_the_same_in_every_group() {
        let options = parse(&body("apps/v1", "DeleteOptions", &field(4, b"Orphan"))).unwrap();
        assert_eq!(options["propagationPolicy"], "Orphan");
    }

    #[test]
    fn every_message_that_is_named_is_there() {
        for (name, fields) in &*MESSAGES {
            let package = name.rsplit_once('.').unwrap().0;
            for field in fields.values() {
                if let Type::Message(inner) = field.kind {
                    let inner = if field.local { format!("{package}.{inner}") } else { inner.to_owned() };
                    assert!(special(&inner, &[]).is_some() || MESSAGES.contains_key(&*inner), "{name}: {inner}");
                }
            }
        }
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
