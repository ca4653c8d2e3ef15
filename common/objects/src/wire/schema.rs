//! The mapping of protobuf messages to JSON: numbers, names and types of fields.

/// The schema of a protobuf message: its fields, and their form in JSON.
#[derive(Debug)]
pub struct MessageSchema {
    /// Name with group and version, for example `core/v1.Pod`.
    pub name: &'static str,
    /// Fields in ascending order of their numbers.
    pub fields: &'static [FieldSchema],
}

impl MessageSchema {
    /// Returns the field with this number; `None` for a field that Kubernetes 1.36 does not have.
    pub(super) fn field(&self, number: u32) -> Option<&'static FieldSchema> {
        // In most messages, the field numbers have no gaps, so the position follows from the field number.
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        match self.fields.get(at).filter(|field| field.number == number) {
            Some(field) => Some(field),
            None => self.fields.iter().find(|field| field.number == number),
        }
    }

    /// Returns the field with this name in JSON, and the inlined message that contains it.
    pub(super) fn field_by_name(&self, name: &str) -> Option<(&'static FieldSchema, Option<&'static FieldSchema>)> {
        if let Some(field) = self.fields.iter().find(|field| field.name == name && !name.is_empty()) {
            return Some((field, None));
        }
        self.fields.iter().find_map(|inlined| match inlined.value_type {
            ValueType::Object(message) if inlined.name.is_empty() => {
                message.fields.iter().find(|field| field.name == name).map(|field| (field, Some(inlined)))
            }
            _ => None,
        })
    }

    /// Whether the field with this number has one of these names.
    pub(super) fn has_field_of(&self, number: u32, names: &[&str]) -> bool {
        self.field(number).is_some_and(|field| names.contains(&field.name))
    }
}

/// Number, name and type of one field of a protobuf message, and the form of the field in JSON.
#[derive(Debug)]
pub struct FieldSchema {
    /// Field number in protobuf.
    pub number: u32,
    /// Field name in JSON; empty if the field is inlined.
    pub name: &'static str,
    /// Whether the field is single, a list or a map.
    pub cardinality: Cardinality,
    /// Type of each value.
    pub value_type: ValueType,
    /// Whether JSON contains the field if its value is the zero value of its type.
    pub zero_meaning: ZeroMeaning,
}

/// Whether a field is single, a list or a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cardinality {
    /// At most one value.
    One,
    /// A repeated field; a list in JSON.
    Many,
    /// A repeated field of pairs of key and value; an object in JSON.
    Keyed,
}

/// The type of a value in protobuf, and its form in JSON.
#[derive(Clone, Copy, Debug)]
pub enum ValueType {
    /// A string in UTF-8; a string in JSON.
    Text,
    /// A varint; `true` or `false` in JSON.
    Bool,
    /// A signed varint; a number in JSON.
    Int,
    /// A time in whole seconds; a string in JSON.
    Time,
    /// A time in microseconds; a string in JSON.
    MicroTime,
    /// A quantity; a string in JSON.
    Quantity,
    /// A message with an integer or a string; a number or a string in JSON.
    IntOrString,
    /// JSON text in a field of bytes.
    Json,
    /// A message; an object in JSON.
    Object(&'static MessageSchema),
    /// Any type that no projection reads. Reading the value is an error.
    Opaque,
}

/// Meaning of a field's zero value. Go writes the zero values of non-pointer fields to protobuf, but often omits them in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroMeaning {
    /// JSON omits the zero value, so a field with the zero value is read as absent.
    OmittedInJson,
    /// JSON contains the zero value, so a field with the zero value is read as a value.
    WrittenInJson,
    /// The message contains the field only if the field was set, so a zero value is read as a value.
    PresentIfSet,
    /// As [`ZeroMeaning::PresentIfSet`], but JSON contains `null` if the field was not set.
    NullInJson,
}

/// Creates a single field that JSON always contains.
pub(super) const fn field_always_in_json(number: u32, name: &'static str, value_type: ValueType) -> FieldSchema {
    FieldSchema { number, name, cardinality: Cardinality::One, value_type, zero_meaning: ZeroMeaning::WrittenInJson }
}

/// Creates a single field that JSON omits if it has the zero value.
pub(super) const fn omitempty_field(number: u32, name: &'static str, value_type: ValueType) -> FieldSchema {
    FieldSchema { number, name, cardinality: Cardinality::One, value_type, zero_meaning: ZeroMeaning::OmittedInJson }
}

/// Creates a single field that JSON contains only if it was set.
pub(super) const fn optional_field(number: u32, name: &'static str, value_type: ValueType) -> FieldSchema {
    FieldSchema { number, name, cardinality: Cardinality::One, value_type, zero_meaning: ZeroMeaning::PresentIfSet }
}

pub(super) const fn list_field(number: u32, name: &'static str, value_type: ValueType) -> FieldSchema {
    FieldSchema { number, name, cardinality: Cardinality::Many, value_type, zero_meaning: ZeroMeaning::PresentIfSet }
}

/// Creates a field with a map from strings to values.
pub(super) const fn map_field(number: u32, name: &'static str, value_type: ValueType) -> FieldSchema {
    FieldSchema { number, name, cardinality: Cardinality::Keyed, value_type, zero_meaning: ZeroMeaning::PresentIfSet }
}

/// Creates a field that no projection reads.
pub(super) const fn opaque_field(number: u32, name: &'static str) -> FieldSchema {
    FieldSchema {
        number,
        name,
        cardinality: Cardinality::One,
        value_type: ValueType::Opaque,
        zero_meaning: ZeroMeaning::PresentIfSet,
    }
}

/// Creates a field with a message. In JSON, the fields of the message belong to the outer object.
pub(super) const fn inlined_message_field(number: u32, message: &'static MessageSchema) -> FieldSchema {
    FieldSchema {
        number,
        name: "",
        cardinality: Cardinality::One,
        value_type: ValueType::Object(message),
        zero_meaning: ZeroMeaning::PresentIfSet,
    }
}

/// Turns a pointer or a list into one that JSON contains as `null` if it is not set.
pub(super) const fn nullable(field: FieldSchema) -> FieldSchema {
    FieldSchema { zero_meaning: ZeroMeaning::NullInJson, ..field }
}
