//! Parts of received objects that are kept undecoded, in the format in which they were received, until they are sent again.
//!
//! A controller that replaces an object must send back what it does not know: [`RawMessage`] keeps a whole message, such as the
//! spec of a template, and [`WithUndeclared`] keeps the fields that a projection does not declare. Both serialize into a body
//! of the same format. In a body of the other format, they are an error.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
    forward_to_deserialize_any,
    ser::{Error as _, SerializeMap},
};
use serde_json::value::RawValue;

use super::{
    Error, decode_message, encode_message,
    fields::RemainingFields,
    schema::{Cardinality, MessageSchema, ValueType},
};
use crate::{json::JsonStr, object::EncodedObject};

/// Name of the newtype for which the protobuf deserializer returns the bytes of a message.
pub(super) const RAW_MESSAGE: &str = "$nonet::RawMessage";
/// Name of the newtype for which the protobuf deserializer returns a projection and the bytes of all other fields.
pub(super) const WITH_UNDECLARED: &str = "$nonet::WithUndeclared";
/// Name of the struct for which the protobuf deserializer returns the bytes of the fields that are not those of the struct.
pub(super) const UNDECLARED: &str = "$nonet::Undeclared";
/// Name of the unit struct with which JSON text tells a protobuf serializer that it cannot be a part of the message.
pub(crate) const JSON_TEXT: &str = "$nonet::JsonText";
/// Name of the member with which a protobuf serializer gets encoded fields of the message.
pub(super) const RAW_FIELDS: &str = "$nonet::RawFields";

/// A received message, or some of its fields, undecoded: protobuf bytes or the text of a JSON object. Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RawMessage(Repr);

#[derive(Clone, Default, PartialEq, Eq)]
enum Repr {
    /// No fields, in any format.
    #[default]
    Empty,
    Json(Arc<str>),
    Protobuf(Arc<[u8]>),
}

impl RawMessage {
    fn from_json(text: &str) -> Self {
        if text == "{}" { Self::default() } else { Self(Repr::Json(text.into())) }
    }

    fn from_protobuf(bytes: &[u8]) -> Self {
        if bytes.is_empty() { Self::default() } else { Self(Repr::Protobuf(bytes.into())) }
    }

    /// Reads a message of the schema `message`, and drops the fields with one of these names.
    pub(crate) fn deserialize_without<'de, D: Deserializer<'de>>(
        deserializer: D,
        message: &'static MessageSchema,
        names: &'static [&'static str],
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(RAW_MESSAGE, RawMessageVisitor { without: Some((message, names)) })
    }

    /// Returns the size of the received bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Empty => 0,
            Repr::Json(text) => text.len(),
            Repr::Protobuf(bytes) => bytes.len(),
        }
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0 == Repr::Empty
    }

    /// Decodes a projection of the message, which has the schema `message`.
    ///
    /// # Errors
    /// The message is corrupted, or does not fit `T`.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self, message: &'static MessageSchema) -> Result<T, Error> {
        match &self.0 {
            Repr::Empty => decode_message(message, b""),
            Repr::Json(text) => Ok(serde_json::from_str(text)?),
            Repr::Protobuf(bytes) => decode_message(message, bytes),
        }
    }

    /// Returns the message as it was received.
    pub(crate) fn encoded(&self) -> EncodedObject<'_> {
        match &self.0 {
            Repr::Empty => EncodedObject::Json("{}"),
            Repr::Json(text) => EncodedObject::Json(text),
            Repr::Protobuf(bytes) => EncodedObject::Protobuf(bytes),
        }
    }

    /// Encodes a body as a message of the schema `message`, in the format of this message.
    ///
    /// # Errors
    /// The body does not fit the message, or contains parts of the other format.
    pub fn encode_in_same_format<T: Serialize>(
        &self,
        message: &'static MessageSchema,
        body: &T,
    ) -> Result<Self, Error> {
        match &self.0 {
            Repr::Protobuf(_) => Ok(Self::from_protobuf(&encode_message(message, body)?)),
            Repr::Empty | Repr::Json(_) => Ok(Self::from_json(&serde_json::to_string(body)?)),
        }
    }

    /// Whether the message, or a message in it, has a field that the schema `message` does not have. Such fields are absent
    /// from decoded values. Always false in JSON, in which all fields have names.
    pub fn has_unknown_fields(&self, message: &'static MessageSchema) -> bool {
        matches!(&self.0, Repr::Protobuf(bytes) if has_unknown_fields(message, bytes).unwrap_or(true))
    }

    /// Returns all fields, which serde can flatten into a body.
    pub fn fields(&self) -> RawFields<'_> {
        RawFields { raw: self, without: None }
    }

    /// Returns the fields of a message of the schema `message` that do not have one of these names.
    pub fn fields_without<'a>(&'a self, message: &'static MessageSchema, names: &'a [&'a str]) -> RawFields<'a> {
        RawFields { raw: self, without: Some((message, names)) }
    }
}

fn has_unknown_fields(message: &'static MessageSchema, bytes: &[u8]) -> Result<bool, Error> {
    let mut rest = RemainingFields(bytes);
    while let Some((number, value)) = rest.next()? {
        match message.field(number).map(|field| (field.value_type, field.cardinality)) {
            None => return Ok(true),
            Some((ValueType::Object(inner), Cardinality::One | Cardinality::Many)) => {
                if has_unknown_fields(inner, value.bytes()?)? {
                    return Ok(true);
                }
            }
            Some(_) => {}
        }
    }
    Ok(false)
}

/// Writes neither the bytes nor their format, so that objects that were received in different formats can be compared.
impl fmt::Debug for RawMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawMessage")
    }
}

impl Serialize for RawMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Repr::Empty => serializer.serialize_map(Some(0))?.end(),
            Repr::Json(text) if serializer.is_human_readable() => {
                serde_json::from_str::<&RawValue>(text).map_err(S::Error::custom)?.serialize(serializer)
            }
            Repr::Json(_) => serializer.serialize_unit_struct(JSON_TEXT),
            Repr::Protobuf(bytes) => EncodedBytes(bytes).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RawMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(RAW_MESSAGE, RawMessageVisitor { without: None })
    }
}

struct RawMessageVisitor {
    /// Names of fields that are dropped, with the schema of the message.
    without: Option<(&'static MessageSchema, &'static [&'static str])>,
}

impl<'de> Visitor<'de> for RawMessageVisitor {
    type Value = RawMessage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_bytes<E: serde::de::Error>(self, message: &[u8]) -> Result<RawMessage, E> {
        let Some((schema, names)) = self.without else { return Ok(RawMessage::from_protobuf(message)) };
        let kept = keep_fields(message, |number| !schema.has_field_of(number, names)).map_err(E::custom)?;
        Ok(RawMessage::from_protobuf(&kept))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawMessage, D::Error> {
        let names = self.without.map_or(&[][..], |(_, names)| names);
        keep_members(deserializer, |name| !names.contains(&name))
    }
}

/// Encoded protobuf in a body.
struct EncodedBytes<'a>(&'a [u8]);

impl Serialize for EncodedBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return Err(S::Error::custom("a part that was received in protobuf cannot be sent in JSON"));
        }
        serializer.serialize_bytes(self.0)
    }
}

/// Fields of a [`RawMessage`]. Serializes as a map, for `#[serde(flatten)]` and for [`RawFields::serialize_into`].
#[derive(Clone, Copy, Debug)]
pub struct RawFields<'a> {
    raw: &'a RawMessage,
    without: Option<(&'static MessageSchema, &'a [&'a str])>,
}

impl RawFields<'_> {
    /// Serializes the fields as entries of a map.
    pub fn serialize_into<M: SerializeMap>(self, map: &mut M) -> Result<(), M::Error> {
        match &self.raw.0 {
            Repr::Empty => Ok(()),
            Repr::Json(text) => {
                let names = self.without.map_or(&[][..], |(_, names)| names);
                let is_kept = |name: &str| !names.contains(&name);
                for_each_member(&mut serde_json::Deserializer::from_str(text), is_kept, |name, value| {
                    map.serialize_entry(name, &JsonText(value))
                })
                .map_err(M::Error::custom)?
            }
            Repr::Protobuf(bytes) => match self.without {
                None => map.serialize_entry(RAW_FIELDS, &EncodedBytes(bytes)),
                Some((message, names)) => {
                    let is_kept = |number| !message.has_field_of(number, names);
                    for_each_run(bytes, is_kept, |run| map.serialize_entry(RAW_FIELDS, &EncodedBytes(run)))
                        .map_err(M::Error::custom)?
                }
            },
        }
    }
}

impl Serialize for RawFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.serialize_into(&mut map)?;
        map.end()
    }
}

/// JSON text in a body, which cannot be in a protobuf body.
struct JsonText<'a>(&'a RawValue);

impl Serialize for JsonText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            self.0.serialize(serializer)
        } else {
            serializer.serialize_unit_struct(JSON_TEXT)
        }
    }
}

/// Calls `visit` with the members of a JSON object of which `is_kept` accepts the names, up to the first error of `visit`.
fn for_each_member<'de, D: Deserializer<'de>, E>(
    deserializer: D,
    is_kept: impl Fn(&str) -> bool,
    visit: impl FnMut(&str, &RawValue) -> Result<(), E>,
) -> Result<Result<(), E>, D::Error> {
    struct Members<K, F>(K, F);
    impl<'de, E, K, F> Visitor<'de> for Members<K, F>
    where
        K: Fn(&str) -> bool,
        F: FnMut(&str, &RawValue) -> Result<(), E>,
    {
        type Value = Result<(), E>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut result = Ok(());
            while let Some(name) = map.next_key::<JsonStr<'de>>()? {
                if result.is_ok() && (self.0)(&name) {
                    result = (self.1)(&name, &map.next_value::<Box<RawValue>>()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(result)
        }
    }
    deserializer.deserialize_map(Members(is_kept, visit))
}

/// Calls `visit` with the longest sequences of encoded fields of which `is_kept` accepts the numbers.
fn for_each_run<E>(
    message: &[u8],
    is_kept: impl Fn(u32) -> bool,
    mut visit: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Result<(), E>, Error> {
    let (mut fields, mut start) = (RemainingFields(message), None);
    loop {
        let at = message.len() - fields.0.len();
        let next = fields.next()?;
        if next.is_some_and(|(number, _)| is_kept(number)) {
            start.get_or_insert(at);
        } else if let Some(start) = start.take()
            && let Err(error) = visit(&message[start..at])
        {
            return Ok(Err(error));
        }
        if next.is_none() {
            return Ok(Ok(()));
        }
    }
}

/// Keeps the fields of an encoded message of which `is_kept` accepts the numbers.
pub(super) fn keep_fields(message: &[u8], is_kept: impl Fn(u32) -> bool) -> Result<Vec<u8>, Error> {
    let mut kept = Vec::new();
    for_each_run(message, is_kept, |run| {
        kept.extend_from_slice(run);
        Ok::<_, Error>(())
    })??;
    Ok(kept)
}

/// Keeps the members of a JSON object of which `is_kept` accepts the names.
fn keep_members<'de, D: Deserializer<'de>>(
    deserializer: D,
    is_kept: impl Fn(&str) -> bool,
) -> Result<RawMessage, D::Error> {
    let mut text = String::from("{");
    for_each_member(deserializer, is_kept, |name, value| {
        let separator = if text.len() > 1 { "," } else { "" };
        text.push_str(separator);
        text.push_str(&serde_json::to_string(name)?);
        text.push(':');
        text.push_str(value.get());
        Ok::<_, serde_json::Error>(())
    })?
    .map_err(D::Error::custom)?;
    text.push('}');
    Ok(RawMessage::from_json(&text))
}

/// A projection, and the fields that the projection does not declare. They are usually fields of a newer server.
///
/// `T` must be a struct without flattened fields. Serializes as one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WithUndeclared<T> {
    /// The declared fields.
    #[serde(flatten)]
    pub declared: T,
    /// All other fields. Of a whole object in JSON, they contain `kind` and `apiVersion`.
    #[serde(flatten, serialize_with = "serialize_fields")]
    pub undeclared: RawMessage,
}

fn serialize_fields<S: Serializer>(raw: &RawMessage, serializer: S) -> Result<S::Ok, S::Error> {
    raw.fields().serialize(serializer)
}

impl<T> Deref for WithUndeclared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.declared
    }
}

impl<T> DerefMut for WithUndeclared<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.declared
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for WithUndeclared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = declared_names::<T>().ok_or_else(|| D::Error::custom("the projection declares no fields"))?;
        deserializer.deserialize_newtype_struct(WITH_UNDECLARED, WithUndeclaredVisitor(names, PhantomData))
    }
}

struct WithUndeclaredVisitor<T>(&'static [&'static str], PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for WithUndeclaredVisitor<T> {
    type Value = WithUndeclared<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut reads: A) -> Result<Self::Value, A::Error> {
        let missing = || A::Error::custom("the message can be read only once");
        let declared = reads.next_element()?.ok_or_else(missing)?;
        let undeclared = reads.next_element_seed(UndeclaredSeed(self.0))?.ok_or_else(missing)?;
        Ok(WithUndeclared { declared, undeclared })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let declared = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let members = &mut serde_json::Deserializer::from_str(text.get());
        let undeclared = keep_members(members, |name| !self.0.contains(&name)).map_err(D::Error::custom)?;
        Ok(WithUndeclared { declared, undeclared })
    }
}

/// Reads the fields of a message that do not have one of these names.
struct UndeclaredSeed(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for UndeclaredSeed {
    type Value = RawMessage;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawMessage, D::Error> {
        deserializer.deserialize_struct(UNDECLARED, self.0, RawMessageVisitor { without: None })
    }
}

/// Returns the names of the fields of a struct; `None` if `T` is not a struct, or has flattened fields.
fn declared_names<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    struct Probe<'a>(&'a mut Option<&'static [&'static str]>);
    impl<'de> Deserializer<'de> for Probe<'_> {
        type Error = Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(Error::new(""))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            names: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Error> {
            *self.0 = Some(names);
            Err(Error::new(""))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }
    let mut names = None;
    drop(T::deserialize(Probe(&mut names)));
    names
}
