//! How a message of the protobuf encoding appears as JSON: field numbers, names and types.

/// A message.
#[derive(Debug)]
pub struct Message {
    /// Its name, with group and version: `core/v1.Pod`.
    pub name: &'static str,
    /// Its fields, in the order of their numbers.
    pub fields: &'static [Field],
}

impl Message {
    /// The field of that number; `None` for a field that Kubernetes 1.36 does not have.
    pub(super) fn field(&self, number: u32) -> Option<&'static Field> {
        // Most messages number their fields without a gap.
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        match self.fields.get(at).filter(|field| field.number == number) {
            Some(field) => Some(field),
            None => self.fields.iter().find(|field| field.number == number),
        }
    }
}

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    /// Its number.
    pub number: u32,
    /// Its name in JSON; empty if it is [inlined].
    pub name: &'static str,
    /// How many values it has.
    pub count: Count,
    /// The type of a value.
    pub shape: Shape,
    /// What its zero value means.
    pub zero: Zero,
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// At most one.
    One,
    /// A list.
    Many,
    /// Values by their keys.
    Keyed,
}

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A string.
    Text,
    /// A boolean.
    Bool,
    /// A signed integer.
    Int,
    /// A time in whole seconds; a string in JSON.
    Time,
    /// A time in microseconds; a string in JSON.
    MicroTime,
    /// A quantity; a string in JSON.
    Quantity,
    /// An integer or a string.
    IntOrString,
    /// JSON in a field of bytes.
    Json,
    /// A message; an object in JSON.
    Object(&'static Message),
    /// Anything that no projection reads. Reading it is an error.
    Opaque,
}

/// What the zero value of a field means. Go's encoder writes zero values of plain fields, and JSON often omits them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zero {
    /// JSON omits it: it reads as absent.
    Absent,
    /// It is a value: JSON has it, too.
    Value,
    /// The message has the field only if it was set.
    Set,
}

/// A field that JSON always has.
pub(super) const fn always(number: u32, name: &'static str, shape: Shape) -> Field {
    Field { number, name, count: Count::One, shape, zero: Zero::Value }
}

/// A field whose zero value JSON omits.
pub(super) const fn nonzero(number: u32, name: &'static str, shape: Shape) -> Field {
    Field { number, name, count: Count::One, shape, zero: Zero::Absent }
}

/// A field that is there if it was set.
pub(super) const fn optional(number: u32, name: &'static str, shape: Shape) -> Field {
    Field { number, name, count: Count::One, shape, zero: Zero::Set }
}

/// A list.
pub(super) const fn list(number: u32, name: &'static str, shape: Shape) -> Field {
    Field { number, name, count: Count::Many, shape, zero: Zero::Set }
}

/// A map from strings.
pub(super) const fn map(number: u32, name: &'static str, shape: Shape) -> Field {
    Field { number, name, count: Count::Keyed, shape, zero: Zero::Set }
}

/// A field that no projection reads.
pub(super) const fn opaque(number: u32, name: &'static str) -> Field {
    Field { number, name, count: Count::One, shape: Shape::Opaque, zero: Zero::Set }
}

/// A message whose fields are its parent's in JSON.
pub(super) const fn inlined(number: u32, message: &'static Message) -> Field {
    Field { number, name: "", count: Count::One, shape: Shape::Object(message), zero: Zero::Set }
}
