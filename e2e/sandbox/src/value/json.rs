//! JSON as the API server reads and writes it: duplicate keys noticed, the usual syntax errors in Go's words, output escaped
//! like Go's encoder does.

use std::{
    fmt,
    io::{self, Write},
};

use bytes::Bytes;
use serde::{
    Serialize,
    de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{
    Map, Number, Serializer, Value,
    ser::{CompactFormatter, Formatter},
};

use crate::value::path::Path;

/// Parses a document; paths of keys given twice are added to `duplicates`. The error is Go's message.
pub(crate) fn parse(text: &[u8], duplicates: &mut Vec<String>) -> Result<Value, String> {
    let mut de = serde_json::Deserializer::from_slice(text);
    let seed = Seed { at: None, duplicates };
    let value = seed.deserialize(&mut de).map_err(|error| describe(text, &error))?;
    de.end().map_err(|error| describe(text, &error))?;
    Ok(value)
}

struct Seed<'a, 'p> {
    at: Option<&'p Path<'p>>,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, de: D) -> Result<Value, D::Error> {
        de.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }
    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }
    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let here = Path::element(self.at, list.len());
            match seq.next_element_seed(Seed { at: Some(&here), duplicates: self.duplicates })? {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let here = Path::field(self.at, &key);
            let value = map.next_value_seed(Seed { at: Some(&here), duplicates: self.duplicates })?;
            if object.contains_key(&key) {
                let path = here.to_string();
                if self.duplicates.len() < 32 {
                    self.duplicates.push(path);
                } else if self.duplicates.len() > 1 << 16 {
                    return Err(A::Error::custom("too many duplicate fields"));
                }
                // A repeated object is decoded over the first one, as Go's decoder does.
                if let (Some(Value::Object(first)), Value::Object(_)) = (object.get_mut(&key), &value) {
                    if let Value::Object(second) = value {
                        first.extend(second);
                    }
                    continue;
                }
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// An error in the words of Go's decoder, as far as it has the same error.
fn describe(text: &[u8], error: &serde_json::Error) -> String {
    const CONTEXTS: [(&str, &str); 2] = [
        ("key must be a string", "looking for beginning of object key string"),
        ("expected value", "looking for beginning of value"),
    ];
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let words = error.to_string();
    let context = CONTEXTS.iter().find(|(ours, _)| words.starts_with(ours)).map(|(_, context)| context);
    let line = text.split(|c| *c == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    match (context, line.get(error.column().saturating_sub(1))) {
        (Some(context), Some(&c)) => format!("invalid character {:?} {context}", char::from(c)),
        _ => words,
    }
}

/// The kind of a value, as Go's decoder names it.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The text of a value, keys sorted, compact, with `<`, `>` and `&` escaped as Go's encoder does.
pub(crate) fn text(value: &Value) -> String {
    String::from_utf8(bytes(value)).unwrap_or_default()
}

/// Like [`text`], as bytes to send.
pub(crate) fn body(value: &Value) -> Bytes {
    Bytes::from(bytes(value))
}

fn bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write(&mut out, value);
    out
}

/// Appends the text of a value.
pub(crate) fn write(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let written = value.serialize(&mut Serializer::with_formatter(out, GoFormatter));
    debug_assert!(written.is_ok(), "writing to memory");
}

/// Appends `"key":value` pairs separated by commas, without the braces.
pub(crate) fn write_fields<'a>(out: &mut Vec<u8>, fields: impl Iterator<Item = (&'a String, &'a Value)>) {
    for (i, (key, value)) in fields.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(out, key);
        out.push(b':');
        write(out, value);
    }
}

/// Escapes what Go's encoder escapes beyond the rules of JSON, and writes whole floats without a fraction.
struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_f64<W: Write + ?Sized>(&mut self, out: &mut W, number: f64) -> io::Result<()> {
        if number.fract() == 0.0 && number.abs() < 1e21 {
            write!(out, "{number:.0}")
        } else {
            CompactFormatter.write_f64(out, number)
        }
    }

    fn write_string_fragment<W: Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, escaped) = rest.split_at(at);
            out.write_all(plain.as_bytes())?;
            let mut following = escaped.chars();
            if let Some(c) = following.next() {
                write!(out, "\\u{:04x}", u32::from(c))?;
            }
            rest = following.as_str();
        }
        out.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn syntax_errors_are_go_s() {
        for (text, want) in [
            ("{not json}", "invalid character 'n' looking for beginning of object key string"),
            ("{\"a\":", "unexpected end of JSON input"),
            ("", "unexpected end of JSON input"),
            ("\u{c7}", "invalid character 'Ã' looking for beginning of value"),
        ] {
            assert_eq!(parse(text.as_bytes(), &mut Vec::new()).unwrap_err(), want, "{text}");
        }
    }

    #[test]
    fn duplicate_keys_are_named_with_their_path_and_the_last_one_wins() {
        let mut twice = Vec::new();
        let value = parse(br#"{"a":{"b":[{"c":1,"c":2}]},"a":{"d":1}}"#, &mut twice).unwrap();
        assert_eq!(twice, ["a.b[0].c", "a"]);
        assert_eq!(value, serde_json::json!({"a":{"b":[{"c":2}],"d":1}}));
    }

    #[test]
    fn output_is_escaped_like_go_s() {
        let value = serde_json::json!({"k": "<&>\u{2028}\n\u{1}\"é"});
        assert_eq!(text(&value), "{\"k\":\"\\u003c\\u0026\\u003e\\u2028\\n\\u0001\\\"é\"}");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|m| Value::Object(m.into_iter().collect()))
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in any_json()) {
            let mut twice = Vec::new();
            prop_assert_eq!(parse(text(&value).as_bytes(), &mut twice), Ok(value));
            prop_assert!(twice.is_empty());
        }

        #[test]
        fn anything_is_parsed_or_refused_in_words(text in any::<Vec<u8>>()) {
            if let Err(words) = parse(&text, &mut Vec::new()) {
                prop_assert!(!words.is_empty());
            }
        }
    }
}
