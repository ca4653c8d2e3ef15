//! Kubernetes' protobuf encoding of the same projections and bodies as in JSON.
//!
//! A projection is declared once, for serde. `serde_json` decodes it from JSON, and [`decode_message`] decodes it from
//! protobuf. For serde, [`decode_message`] presents an encoded message as the JSON of the same object, with the same names,
//! nulls and omitted fields as in the JSON of the API server. [`messages`] describes this mapping for the messages that
//! projections read. Fields that a projection does not declare are skipped without decoding, and strings are borrowed from the
//! encoded message.
//!
//! - A field of a newer server that this version does not know is skipped, as in JSON.
//! - A field that a projection declares and [`messages`] does not describe is an error. The field is never read as absent.
//! - Values of a wrong type, truncated messages and numbers out of range are errors.
//!
//! A body is declared once, too: [`encode_message`] writes any body that serde can write as JSON. A member that [`messages`] does
//! not describe is an error. Parts of received objects can be sent again without decoding them ([`RawMessage`]).
//!
//! Upstream: `apimachinery/pkg/runtime/serializer/protobuf`.

mod deserializer;
mod envelope;
mod fields;
pub mod messages;
mod raw;
mod schema;
mod serializer;

use std::fmt;

use deserializer::{EncodedValue, UnknownFields};
use serde::{Deserialize, Deserializer, Serialize};

pub use envelope::{EncodedList, Envelope, WatchEvent, encode_object};
pub(crate) use raw::JSON_TEXT;
pub use raw::{RawFields, RawMessage, WithUndeclared};
pub use schema::{Cardinality, FieldSchema, MessageSchema, ValueType, ZeroMeaning};

/// The reason why a message cannot be decoded or encoded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The message, or the body to encode, is invalid.
    #[error("{0}")]
    Invalid(Box<str>),
    /// The body contains JSON text, which only a JSON body can contain.
    #[error("the body contains JSON text")]
    JsonText,
}

impl Error {
    fn new(text: &str) -> Self {
        Self::Invalid(text.into())
    }

    fn undescribed(field: &str) -> Self {
        Self::new(&format!("the schema does not describe the field {field}"))
    }
}

impl serde::de::Error for Error {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::Invalid(text.to_string().into())
    }
}

impl serde::ser::Error for Error {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::Invalid(text.to_string().into())
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Invalid(error.to_string().into())
    }
}

/// Decodes a protobuf message of the schema `message` into a projection.
///
/// # Errors
/// The message is corrupted, or does not fit `T`.
pub fn decode_message<'de, T: Deserialize<'de>>(message: &'static MessageSchema, bytes: &'de [u8]) -> Result<T, Error> {
    T::deserialize(EncodedValue::from_message(message, bytes, UnknownFields::Skipped))
}

/// Returns a deserializer of a message that also presents the fields that the schema does not have, in an entry of their message
/// with a name that no field has.
pub(crate) fn deserializer_with_unknown_fields<'de>(
    message: &'static MessageSchema,
    bytes: &'de [u8],
) -> impl Deserializer<'de, Error = Error> {
    EncodedValue::from_message(message, bytes, UnknownFields::Collected)
}

/// Encodes a body as a protobuf message of the schema `message`. `null` counts as absent.
///
/// # Errors
/// A value of the body does not fit its field, the schema does not describe a field, or the body contains JSON text.
pub fn encode_message<T: Serialize + ?Sized>(message: &'static MessageSchema, body: &T) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    serializer::append_message(&mut out, message, None, body)?;
    Ok(out)
}

#[cfg(test)]
pub(crate) mod tests;
