//! A serde deserializer that presents an encoded message as the JSON of the same object.

use std::{
    cell::Cell,
    fmt::{self, Display, Write as _},
};

use jiff::Timestamp;
use serde::de::{
    DeserializeSeed, Deserializer, IntoDeserializer as _, MapAccess, SeqAccess, Visitor, value::BorrowedStrDeserializer,
};

use super::{
    Error,
    fields::{RemainingFields, WireValue, last_field_value},
    raw::{RAW_MESSAGE, UNDECLARED, WITH_UNDECLARED, keep_fields},
    schema::{Cardinality, FieldSchema, MessageSchema, ValueType, ZeroMeaning},
    serializer::append_bytes,
};

/// Name of the entry with the fields of a message that its schema does not have. Its value are their bytes in hexadecimal.
pub(super) const UNKNOWN_FIELDS: &str = "$nonet::UnknownFields";

/// Whether fields that a schema does not have are presented to serde.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownFields {
    Skipped,
    /// They are the last entry of their message, with the name [`UNKNOWN_FIELDS`].
    Collected,
}

/// An encoded value with its type.
#[derive(Clone, Copy)]
pub(super) struct EncodedValue<'de> {
    datum: WireValue<'de>,
    shape: ValueType,
    /// Name of the field, for errors.
    name: &'static str,
    unknown_fields: UnknownFields,
}

impl<'de> EncodedValue<'de> {
    /// Creates the value for a whole message, from which a projection is decoded.
    pub(super) fn from_message(
        message: &'static MessageSchema,
        bytes: &'de [u8],
        unknown_fields: UnknownFields,
    ) -> Self {
        Self { datum: WireValue::Bytes(bytes), shape: ValueType::Object(message), name: message.name, unknown_fields }
    }

    fn entries(
        self,
        message: &'static MessageSchema,
        wanted: Option<&'static [&'static str]>,
    ) -> Result<Entries<'de>, Error> {
        let wanted = DeclaredFields::of_projection(message, wanted);
        Ok(Entries {
            rest: RemainingFields(self.datum.bytes()?),
            message,
            wanted,
            unknown_fields: self.unknown_fields,
            parent: None,
            seen: 0,
            unknown: Vec::new(),
            next: NextEntry::End,
        })
    }

    /// Returns the JSON text in a field of bytes; `null` if the field is empty.
    fn json(self) -> Result<&'de [u8], Error> {
        let raw = last_field_value(self.datum.bytes()?, 1)?.map_or(Ok(&b""[..]), WireValue::bytes)?;
        Ok(if raw.is_empty() { b"null" } else { raw })
    }

    /// Whether the value is `null` in JSON.
    fn is_null(self) -> bool {
        match self.shape {
            ValueType::Time | ValueType::MicroTime => matches!(self.datum, WireValue::Bytes([])),
            ValueType::Json => self.json().is_ok_and(|json| json == b"null"),
            _ => false,
        }
    }

    /// Whether the value is the zero value of its type, which JSON often omits.
    fn is_zero(self) -> bool {
        match self.shape {
            ValueType::Bool | ValueType::Int => matches!(self.datum, WireValue::Varint(0)),
            _ => matches!(self.datum, WireValue::Bytes([])),
        }
    }

    fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.shape {
            ValueType::Text => visitor.visit_borrowed_str(self.datum.text()?),
            ValueType::Bool => visitor.visit_bool(self.datum.number()? != 0),
            ValueType::Int => visitor.visit_i64(self.datum.number()?.cast_signed()),
            ValueType::Time | ValueType::MicroTime if self.is_null() => visitor.visit_unit(),
            ValueType::Time => visitor.visit_str(TimeText::new(&time(self.datum.bytes()?, 1_000_000_000)?)?.as_str()),
            ValueType::MicroTime => visitor.visit_str(TimeText::new(&time(self.datum.bytes()?, 1000)?)?.as_str()),
            ValueType::Quantity => {
                visitor.visit_borrowed_str(last_field_value(self.datum.bytes()?, 1)?.map_or(Ok(""), WireValue::text)?)
            }
            ValueType::IntOrString => {
                let message = self.datum.bytes()?;
                match last_field_value(message, 1)?.map_or(Ok(0), WireValue::number)? {
                    0 => {
                        visitor.visit_i64(last_field_value(message, 2)?.map_or(Ok(0), WireValue::number)?.cast_signed())
                    }
                    1 => visitor.visit_borrowed_str(last_field_value(message, 3)?.map_or(Ok(""), WireValue::text)?),
                    _ => Err(Error::new("the value is neither an integer nor a string")),
                }
            }
            ValueType::Json => {
                let mut json = serde_json::Deserializer::from_slice(self.json()?);
                let value = (&mut json).deserialize_any(visitor)?;
                json.end()?;
                Ok(value)
            }
            ValueType::Object(message) => visitor.visit_map(self.entries(message, None)?),
            ValueType::Opaque => Err(Error::undescribed(self.name)),
        }
    }
}

/// Decodes a time: seconds in field 1, nanoseconds in field 2. The nanoseconds are rounded down to a multiple of `unit`.
fn time(message: &[u8], unit: i32) -> Result<Timestamp, Error> {
    let number = |at| last_field_value(message, at)?.map_or(Ok(0), |datum| datum.number().map(u64::cast_signed));
    let nanoseconds = i32::try_from(number(2)?).map_err(|_| Error::new("nanoseconds are out of range"))?;
    Timestamp::new(number(1)?, nanoseconds - nanoseconds % unit).map_err(|error| Error::new(&error.to_string()))
}

/// A time as text in a buffer of fixed size, so that nothing is allocated.
pub(super) struct TimeText {
    text: [u8; 40],
    length: usize,
}

impl TimeText {
    pub(super) fn new<T: Display + ?Sized>(time: &T) -> Result<Self, Error> {
        let mut written = Self { text: [0; 40], length: 0 };
        write!(written, "{time}").map_err(|_| Error::new("the text of a time is too long"))?;
        Ok(written)
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..self.length]).unwrap_or_default()
    }
}

impl fmt::Write for TimeText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.text.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

impl<'de> Deserializer<'de> for EncodedValue<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.visit(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        match self.shape {
            ValueType::Object(_) | ValueType::Opaque if name == RAW_MESSAGE => {
                visitor.visit_borrowed_bytes(self.datum.bytes()?)
            }
            ValueType::Object(_) if name == WITH_UNDECLARED => visitor.visit_seq(RepeatedReads(self)),
            // Only serde_json can provide JSON as raw text.
            ValueType::Json => {
                let mut json = serde_json::Deserializer::from_slice(self.json()?);
                let value = (&mut json).deserialize_newtype_struct(name, visitor)?;
                json.end()?;
                Ok(value)
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.shape {
            ValueType::Object(message) if name == UNDECLARED => {
                let declared = DeclaredFields::of_projection(message, Some(fields));
                let kept = keep_fields(self.datum.bytes()?, |number| match number {
                    ..64 => !declared.contains_number(number),
                    _ => !message.has_field_of(number, fields),
                })?;
                visitor.visit_bytes(&kept)
            }
            ValueType::Object(message) => visitor.visit_map(self.entries(message, Some(fields))?),
            _ => self.visit(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.datum.text()?.into_deserializer())
    }

    /// Deserializes a struct with a flattened map, which gets all fields, also those that the schema does not have.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        Self { unknown_fields: UnknownFields::Collected, ..self }.visit(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct identifier
    }
}

/// Reads the same value again and again.
struct RepeatedReads<'de>(EncodedValue<'de>);

impl<'de> SeqAccess<'de> for RepeatedReads<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        seed.deserialize(self.0).map(Some)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The fields of a message that the projection declares. All other fields are skipped.
#[derive(Clone, Copy)]
struct DeclaredFields {
    /// Names of the fields; `None` if the projection does not declare its fields.
    names: Option<&'static [&'static str]>,
    /// Set of field numbers with one bit for each number below 64. The few fields with larger numbers are always in the set.
    numbers: u64,
}

/// Cache of sets of field numbers: for each slot, the address of the message, a hash of the names, and the field numbers.
type DeclaredFieldsCache = [(usize, usize, u64); 64];

thread_local! {
    static COMPUTED: Cell<DeclaredFieldsCache> = const { Cell::new([(0, 0, 0); 64]) };
}

impl DeclaredFields {
    fn of_projection(message: &'static MessageSchema, names: Option<&'static [&'static str]>) -> Self {
        let numbers = names.map_or(u64::MAX, |known| Self::numbers(message, known));
        Self { names, numbers }
    }

    /// Returns the numbers of all fields with these names and of all inlined messages. Caches the result for each projection.
    fn numbers(message: &'static MessageSchema, names: &'static [&'static str]) -> u64 {
        // The key contains the length, because slices of different lengths may start at the same address.
        let key = (std::ptr::from_ref(message).addr(), names.as_ptr().addr() ^ names.len().rotate_right(8));
        let slot = ((key.0 >> 5) ^ (key.1 >> 4)) % 64;
        COMPUTED.with(|computed| {
            let slots = Cell::as_array_of_cells(computed);
            let (of_message, of_names, numbers) = slots[slot].get();
            if (of_message, of_names) == key && numbers != 0 {
                return numbers;
            }
            let is_wanted = |field: &&FieldSchema| field.name.is_empty() || names.contains(&field.name);
            let wanted = message.fields.iter().filter(is_wanted).filter(|field| field.number < 64);
            let numbers = wanted.fold(0, |numbers, field| numbers | 1 << field.number);
            slots[slot].set((key.0, key.1, numbers));
            numbers
        })
    }

    fn contains_number(self, number: u32) -> bool {
        number >= 64 || self.numbers & (1 << number) != 0
    }
}

/// The fields of a message that the projection declares, as the entries of a JSON object.
struct Entries<'de> {
    rest: RemainingFields<'de>,
    message: &'static MessageSchema,
    wanted: DeclaredFields,
    unknown_fields: UnknownFields,
    /// Rest of the outer message, while the fields of an inlined message are read.
    parent: Option<OuterMessage<'de>>,
    /// Set of the field numbers below 64 that were returned as an entry.
    seen: u64,
    /// The unknown fields that were skipped, as they are encoded, if they are collected.
    unknown: Vec<u8>,
    next: NextEntry<'de>,
}

/// The rest of a message, while the fields of an inlined message are read.
struct OuterMessage<'de> {
    rest: RemainingFields<'de>,
    message: &'static MessageSchema,
    /// Number of the field with the inlined message.
    number: u32,
}

/// The value of the entry with the name that was read last.
#[derive(Clone, Copy)]
enum NextEntry<'de> {
    Field(&'static FieldSchema, WireValue<'de>),
    /// A field that is not set, and that JSON contains as `null`.
    Null,
    /// The fields that the schema does not have.
    UnknownFields,
    End,
}

impl<'de> Entries<'de> {
    /// Returns the next field that the projection declares. Enters and leaves inlined messages.
    fn next_declared_field(&mut self) -> Result<Option<(&'static FieldSchema, WireValue<'de>)>, Error> {
        loop {
            let before = self.rest.0;
            let Some((number, datum)) = self.rest.next()? else {
                let Some(OuterMessage { rest, message, .. }) = self.parent.take() else { return Ok(None) };
                (self.rest, self.message) = (rest, message);
                self.wanted = DeclaredFields::of_projection(message, self.wanted.names);
                continue;
            };
            if !self.wanted.contains_number(number) {
                continue;
            }
            let Some(field) = self.message.field(number) else {
                if self.unknown_fields == UnknownFields::Collected {
                    let field = &before[..before.len() - self.rest.0.len()];
                    match &self.parent {
                        Some(outer) => append_bytes(&mut self.unknown, outer.number, field),
                        None => self.unknown.extend_from_slice(field),
                    }
                }
                continue;
            };
            match field.value_type {
                ValueType::Object(inlined) if field.name.is_empty() && self.parent.is_none() => {
                    self.parent = Some(OuterMessage { rest: self.rest, message: self.message, number });
                    (self.rest, self.message) = (RemainingFields(datum.bytes()?), inlined);
                    self.wanted = DeclaredFields::of_projection(inlined, self.wanted.names);
                    continue;
                }
                _ => {}
            }
            let is_absent = field.zero_meaning == ZeroMeaning::OmittedInJson && self.value(field, datum).is_zero();
            if !is_absent {
                return Ok(Some((field, datum)));
            }
        }
    }

    fn value(&self, field: &'static FieldSchema, wire_value: WireValue<'de>) -> EncodedValue<'de> {
        EncodedValue {
            datum: wire_value,
            shape: field.value_type,
            name: field.name,
            unknown_fields: self.unknown_fields,
        }
    }

    /// Returns the next entry after the fields of the message, with its name.
    fn next_trailing_entry(&mut self) -> (NextEntry<'de>, &'static str) {
        // Projections do not distinguish null from absence.
        let nulls: &[_] = if self.wanted.names.is_none() { self.message.fields } else { &[] };
        let is_null =
            |field: &&FieldSchema| field.zero_meaning == ZeroMeaning::NullInJson && self.seen & 1 << field.number == 0;
        if let Some(field) = nulls.iter().find(is_null) {
            self.seen |= 1 << field.number;
            (NextEntry::Null, field.name)
        } else if self.unknown.is_empty() {
            (NextEntry::End, "")
        } else {
            (NextEntry::UnknownFields, UNKNOWN_FIELDS)
        }
    }

    /// Returns the next value of the repeated field `field`; `None` if another field follows.
    fn next_repeated_value(&mut self, field: &'static FieldSchema) -> Result<Option<WireValue<'de>>, Error> {
        let before = self.rest;
        match self.rest.next()? {
            Some((number, datum)) if number == field.number => Ok(Some(datum)),
            _ => {
                self.rest = before;
                Ok(None)
            }
        }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let name = if let Some((field, datum)) = self.next_declared_field()? {
            self.seen |= 1u64.checked_shl(field.number).unwrap_or(0);
            self.next = NextEntry::Field(field, datum);
            field.name
        } else {
            let (next, name) = self.next_trailing_entry();
            self.next = next;
            name
        };
        match self.next {
            NextEntry::End => Ok(None),
            _ => seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (field, datum) = match std::mem::replace(&mut self.next, NextEntry::End) {
            NextEntry::Field(field, datum) => (field, datum),
            NextEntry::Null => return seed.deserialize(().into_deserializer()),
            NextEntry::UnknownFields => {
                return seed.deserialize(hexadecimal(&std::mem::take(&mut self.unknown)).into_deserializer());
            }
            NextEntry::End => return Err(Error::new("a value is read before its name")),
        };
        match field.cardinality {
            Cardinality::One => seed.deserialize(self.value(field, datum)),
            Cardinality::Many | Cardinality::Keyed => {
                let mut items = Items { entries: self, field, first: Some(datum) };
                let value = seed.deserialize(&mut items)?;
                // Skip items that the visitor did not read.
                while items.next()?.is_some() {}
                Ok(value)
            }
        }
    }
}

/// The values of a repeated field: a list or a map.
struct Items<'a, 'de> {
    entries: &'a mut Entries<'de>,
    field: &'static FieldSchema,
    first: Option<WireValue<'de>>,
}

impl<'de> Items<'_, 'de> {
    fn next(&mut self) -> Result<Option<WireValue<'de>>, Error> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.entries.next_repeated_value(self.field),
        }
    }

    fn value(&self, wire_value: WireValue<'de>) -> EncodedValue<'de> {
        self.entries.value(self.field, wire_value)
    }
}

impl<'de> Deserializer<'de> for &mut Items<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.field.cardinality == Cardinality::Many {
            visitor.visit_seq(self)
        } else {
            visitor.visit_map(Pairs { items: self, value: None })
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier
    }
}

impl<'de> SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        match self.next()? {
            Some(datum) => seed.deserialize(self.value(datum)).map(Some),
            None => Ok(None),
        }
    }
}

/// The entries of a map. Each entry is a message with a key and a value.
struct Pairs<'a, 'b, 'de> {
    items: &'a mut Items<'b, 'de>,
    value: Option<WireValue<'de>>,
}

impl<'de> MapAccess<'de> for Pairs<'_, '_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(datum) = self.items.next()? else { return Ok(None) };
        let pair = datum.bytes()?;
        self.value = Some(last_field_value(pair, 2)?.unwrap_or(WireValue::Bytes(b"")));
        let key = last_field_value(pair, 1)?.map_or(Ok(""), WireValue::text)?;
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some(datum) = self.value.take() else { return Err(Error::new("a value is read before its key")) };
        seed.deserialize(self.items.value(datum))
    }
}
