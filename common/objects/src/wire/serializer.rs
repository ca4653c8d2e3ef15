//! A serde serializer that writes a body, which serde could also write as JSON, as a message of a schema.

use std::fmt::{self, Display, Write as _};

use jiff::Timestamp;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use serde::ser::{Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple, Serializer};

use super::{
    Error,
    deserializer::{TimeText, UNKNOWN_FIELDS},
    raw::{JSON_TEXT, RAW_FIELDS},
    schema::{Cardinality, FieldSchema, MessageSchema, ValueType},
};

/// Names of `apiVersion` and `kind`, which stand in the envelope and not in the message, with their values there.
pub(super) type TypeMeta<'a> = [(&'static str, &'a str); 2];

/// Appends a body as a message of the schema `message`. `type_meta` are members of the body that the envelope has.
pub(super) fn append_message<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    message: &'static MessageSchema,
    type_meta: Option<TypeMeta<'_>>,
    body: &T,
) -> Result<(), Error> {
    let root = ValueSerializer::bare(out, message.name, ValueType::Object(message));
    body.serialize(ValueSerializer { type_meta, ..root })
}

/// Appends a field with bytes or a text.
pub(super) fn append_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn append_number(out: &mut Vec<u8>, number: u32, value: i64) {
    encode_key(number, WireType::Varint, out);
    encode_varint(value.cast_unsigned(), out);
}

/// Appends a field with the bytes that `content` appends.
pub(super) fn append_nested<T>(
    out: &mut Vec<u8>,
    number: u32,
    content: impl FnOnce(&mut Vec<u8>) -> Result<T, Error>,
) -> Result<T, Error> {
    let start = begin_nested(out, number);
    let result = content(out)?;
    end_nested(out, start);
    Ok(result)
}

/// Appends the key of a field and one byte for its length. Returns the position of the content.
fn begin_nested(out: &mut Vec<u8>, number: u32) -> usize {
    encode_key(number, WireType::LengthDelimited, out);
    out.push(0);
    out.len()
}

/// Writes the length of the field with the content from `start` on, which is moved if the length needs more than one byte.
fn end_nested(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start;
    let added = encoded_len_varint(length as u64) - 1;
    if added > 0 {
        out.resize(start + length + added, 0);
        out.copy_within(start..start + length, start + added);
    }
    encode_varint(length as u64, &mut &mut out[start - 1..start + added]);
}

/// Serializes one value of a field.
struct ValueSerializer<'a> {
    out: &'a mut Vec<u8>,
    /// Number of the field; 0 for a value without the key and the length of a field.
    number: u32,
    /// Name of the field, for errors.
    name: &'static str,
    cardinality: Cardinality,
    value_type: ValueType,
    type_meta: Option<TypeMeta<'a>>,
}

impl<'a> ValueSerializer<'a> {
    /// Creates the serializer of a value that is appended without the key and the length of a field.
    fn bare(out: &'a mut Vec<u8>, name: &'static str, value_type: ValueType) -> Self {
        Self { out, number: 0, name, cardinality: Cardinality::One, value_type, type_meta: None }
    }

    fn field(out: &'a mut Vec<u8>, field: &FieldSchema) -> Self {
        let FieldSchema { number, name, cardinality, value_type, .. } = *field;
        Self { out, number, name, cardinality, value_type, type_meta: None }
    }

    /// Serializes a value. JSON in a field of bytes is written by `serde_json`.
    fn write<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        let (ValueType::Json, Cardinality::One) = (self.value_type, self.cardinality) else {
            return value.serialize(self);
        };
        let (before, out) = (self.out.len(), self.out);
        let start = begin_nested(out, self.number);
        let text = begin_nested(out, 1);
        serde_json::to_writer(&mut *out, value)?;
        if out[text..] == *b"null" {
            out.truncate(before);
            return Ok(());
        }
        end_nested(out, text);
        end_nested(out, start);
        Ok(())
    }

    fn append_bytes(self, bytes: &[u8]) {
        match self.number {
            0 => self.out.extend_from_slice(bytes),
            number => append_bytes(self.out, number, bytes),
        }
    }

    /// Returns the error for a value of a wrong type.
    fn wrong(&self, what: &str) -> Error {
        match self.value_type {
            ValueType::Opaque => Error::undescribed(self.name),
            _ => Error::new(&format!("the field {} cannot have {what} as its value", self.name)),
        }
    }

    fn single_type(&self) -> Option<ValueType> {
        (self.cardinality == Cardinality::One).then_some(self.value_type)
    }

    fn number(self, value: i64) -> Result<(), Error> {
        match self.single_type() {
            Some(ValueType::Int) => append_number(self.out, self.number, value),
            Some(ValueType::IntOrString) => append_nested(self.out, self.number, |out| {
                append_number(out, 1, 0);
                append_number(out, 2, value);
                Ok(())
            })?,
            _ => return Err(self.wrong("a number")),
        }
        Ok(())
    }

    fn time(self, text: &str, unit: i32) -> Result<(), Error> {
        let time: Timestamp = text.parse().map_err(|error| Error::new(&format!("{}: {error}", self.name)))?;
        append_nested(self.out, self.number, |out| {
            // The nanoseconds of protobuf count upwards from the second, also before 1970.
            let nanoseconds = time.as_nanosecond();
            append_number(out, 1, nanoseconds.div_euclid(1_000_000_000) as i64);
            append_number(out, 2, (nanoseconds.rem_euclid(1_000_000_000) as i64) / i64::from(unit) * i64::from(unit));
            Ok(())
        })
    }

    fn object(self) -> Result<ObjectWriter<'a>, Error> {
        let Self { number, cardinality, value_type, .. } = self;
        let (shape, start) = match (cardinality, value_type) {
            (Cardinality::One, ValueType::Object(message)) => {
                let start = (number > 0).then(|| begin_nested(self.out, number));
                (Shape::Message(message), start)
            }
            (Cardinality::Keyed, _) => (Shape::Map { number, name: self.name, value_type }, None),
            _ => return Err(self.wrong("an object")),
        };
        Ok(ObjectWriter { out: self.out, shape, start, type_meta: self.type_meta, entry: Entry::None })
    }

    fn list(self) -> Result<ListWriter<'a>, Error> {
        let is_list = self.cardinality == Cardinality::Many;
        if is_list { Ok(ListWriter(self)) } else { Err(self.wrong("a list")) }
    }
}

impl<'a> Serializer for ValueSerializer<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = ListWriter<'a>;
    type SerializeTuple = ListWriter<'a>;
    type SerializeTupleStruct = Impossible<(), Error>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = ObjectWriter<'a>;
    type SerializeStruct = ObjectWriter<'a>;
    type SerializeStructVariant = Impossible<(), Error>;

    /// False, so that raw parts know the format.
    fn is_human_readable(&self) -> bool {
        false
    }

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        let Some(ValueType::Bool) = self.single_type() else { return Err(self.wrong("a boolean")) };
        append_number(self.out, self.number, value.into());
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), Error> {
        self.number(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Error> {
        self.number(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Error> {
        self.number(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        self.number(value)
    }

    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.number(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.number(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.number(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        match i64::try_from(value) {
            Ok(value) => self.number(value),
            Err(_) => Err(self.wrong("so large a number")),
        }
    }

    fn serialize_f32(self, _: f32) -> Result<(), Error> {
        Err(self.wrong("a fraction"))
    }

    fn serialize_f64(self, _: f64) -> Result<(), Error> {
        Err(self.wrong("a fraction"))
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Result<(), Error> {
        match self.single_type() {
            Some(ValueType::Text) => self.append_bytes(text.as_bytes()),
            Some(ValueType::Time) => self.time(text, 1_000_000_000)?,
            Some(ValueType::MicroTime) => self.time(text, 1000)?,
            Some(ValueType::Quantity) => append_nested(self.out, self.number, |out| {
                append_bytes(out, 1, text.as_bytes());
                Ok(())
            })?,
            Some(ValueType::IntOrString) => append_nested(self.out, self.number, |out| {
                append_number(out, 1, 1);
                append_bytes(out, 3, text.as_bytes());
                Ok(())
            })?,
            _ => return Err(self.wrong("a text")),
        }
        Ok(())
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        let out = match self.single_type() {
            Some(ValueType::Text) => self.out,
            Some(ValueType::Time | ValueType::MicroTime) => return self.serialize_str(TimeText::new(value)?.as_str()),
            _ => return self.serialize_str(&value.to_string()),
        };
        let append =
            |out: &mut Vec<u8>| write!(TextAppender(out), "{value}").map_err(|_| Error::new("a value has no text"));
        if self.number == 0 { append(out) } else { append_nested(out, self.number, append) }
    }

    /// Appends an encoded message, which must be the value of a message's field.
    fn serialize_bytes(self, message: &[u8]) -> Result<(), Error> {
        match self.single_type() {
            Some(ValueType::Object(_) | ValueType::Opaque) => self.append_bytes(message),
            _ => return Err(self.wrong("an encoded message")),
        }
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<(), Error> {
        if name == JSON_TEXT { Err(Error::JsonText) } else { Ok(()) }
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let mut object = self.object()?;
        object.write_entry(variant, value)?;
        object.finish();
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<ListWriter<'a>, Error> {
        self.list()
    }

    fn serialize_tuple(self, _: usize) -> Result<ListWriter<'a>, Error> {
        self.list()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, Error> {
        Err(self.wrong("a tuple"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        Err(self.wrong("a variant"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<ObjectWriter<'a>, Error> {
        self.object()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<ObjectWriter<'a>, Error> {
        self.object()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        Err(self.wrong("a variant"))
    }
}

struct TextAppender<'a>(&'a mut Vec<u8>);

impl fmt::Write for TextAppender<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Writes the values of a repeated field.
struct ListWriter<'a>(ValueSerializer<'a>);

impl ListWriter<'_> {
    fn write_item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let ValueSerializer { out, number, name, value_type, .. } = &mut self.0;
        let before = out.len();
        let item = ValueSerializer { number: *number, ..ValueSerializer::bare(out, name, *value_type) };
        item.write(value)?;
        if out.len() == before {
            return Err(Error::new(&format!("the list {name} contains null")));
        }
        Ok(())
    }
}

impl SerializeSeq for ListWriter<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.write_item(value)
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

impl SerializeTuple for ListWriter<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.write_item(value)
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

/// What a JSON object is in protobuf.
#[derive(Clone, Copy)]
enum Shape {
    Message(&'static MessageSchema),
    /// A repeated field of pairs of key and value.
    Map {
        number: u32,
        name: &'static str,
        value_type: ValueType,
    },
}

/// The entry of which the key was written, and the value was not.
#[derive(Clone, Copy)]
enum Entry {
    None,
    /// `apiVersion` or `kind`, by its index in [`TypeMeta`].
    TypeMeta(usize),
    /// Encoded fields of the message.
    RawFields,
    /// Encoded fields of the message, in hexadecimal.
    UnknownFields,
    /// A field, and the inlined message that contains it.
    Field(&'static FieldSchema, Option<&'static FieldSchema>),
    /// A pair in a map. The content of the pair begins at this position of the output.
    Pair(usize),
}

/// Writes the entries of a JSON object.
struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    shape: Shape,
    /// Position of the content of a nested message.
    start: Option<usize>,
    type_meta: Option<TypeMeta<'a>>,
    entry: Entry,
}

impl ObjectWriter<'_> {
    /// Returns the member `name` of a message.
    fn entry_of(&self, message: &'static MessageSchema, name: &str) -> Result<Entry, Error> {
        if let Some((field, inlined)) = message.field_by_name(name) {
            return Ok(Entry::Field(field, inlined));
        }
        match name {
            RAW_FIELDS => return Ok(Entry::RawFields),
            UNKNOWN_FIELDS => return Ok(Entry::UnknownFields),
            _ => {}
        }
        let type_meta = self.type_meta.iter().flatten();
        let of_envelope = type_meta.clone().position(|(member, _)| *member == name).map(Entry::TypeMeta);
        of_envelope.ok_or_else(|| Error::new(&format!("{} has no field {name}", message.name)))
    }

    fn write_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.entry = match self.shape {
            Shape::Map { number, name, .. } => {
                let start = begin_nested(self.out, number);
                let key_field = ValueSerializer::bare(self.out, name, ValueType::Text);
                key.serialize(ValueSerializer { number: 1, ..key_field })?;
                Entry::Pair(start)
            }
            Shape::Message(message) => {
                let start = self.out.len();
                key.serialize(ValueSerializer::bare(self.out, message.name, ValueType::Text))?;
                let name = std::str::from_utf8(&self.out[start..]).unwrap_or_default();
                let entry = self.entry_of(message, name)?;
                self.out.truncate(start);
                entry
            }
        };
        Ok(())
    }

    fn write_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        match (std::mem::replace(&mut self.entry, Entry::None), self.shape) {
            (Entry::Field(field, None), _) => ValueSerializer::field(self.out, field).write(value),
            (Entry::Field(field, Some(inlined)), _) => {
                append_nested(self.out, inlined.number, |out| ValueSerializer::field(out, field).write(value))
            }
            (Entry::RawFields, _) => value.serialize(ValueSerializer::bare(self.out, RAW_FIELDS, ValueType::Opaque)),
            (Entry::UnknownFields, _) => {
                let start = self.out.len();
                value.serialize(ValueSerializer::bare(self.out, UNKNOWN_FIELDS, ValueType::Text))?;
                let text = self.out.split_off(start);
                for digits in text.chunks(2) {
                    let byte = std::str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok());
                    self.out.push(byte.ok_or_else(|| Error::new("unknown fields are not hexadecimal"))?);
                }
                Ok(())
            }
            (Entry::TypeMeta(at), _) => {
                let (start, (name, expected)) = (self.out.len(), self.type_meta.unwrap_or_default()[at]);
                value.serialize(ValueSerializer::bare(self.out, name, ValueType::Text))?;
                let is_expected = self.out[start..] == *expected.as_bytes();
                self.out.truncate(start);
                if is_expected { Ok(()) } else { Err(Error::new(&format!("{name} must be {expected}"))) }
            }
            (Entry::Pair(start), Shape::Map { name, value_type, .. }) => {
                let pair_value = ValueSerializer::bare(self.out, name, value_type);
                ValueSerializer { number: 2, ..pair_value }.write(value)?;
                end_nested(self.out, start);
                Ok(())
            }
            _ => Err(Error::new("a value is written before its key")),
        }
    }

    fn write_entry<K: Serialize + ?Sized, T: Serialize + ?Sized>(&mut self, key: &K, value: &T) -> Result<(), Error> {
        self.write_key(key)?;
        self.write_value(value)
    }

    fn finish(self) {
        if let Some(start) = self.start {
            end_nested(self.out, start);
        }
    }
}

impl SerializeMap for ObjectWriter<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.write_key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.write_value(value)
    }

    fn end(self) -> Result<(), Error> {
        self.finish();
        Ok(())
    }
}

impl SerializeStruct for ObjectWriter<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.write_entry(name, value)
    }

    fn end(self) -> Result<(), Error> {
        self.finish();
        Ok(())
    }
}
