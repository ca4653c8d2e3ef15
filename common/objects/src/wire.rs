//! Kubernetes' protobuf encoding, decoded into the same projections as JSON.
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
//! Upstream: `apimachinery/pkg/runtime/serializer/protobuf`.

mod deserializer;
mod envelope;
mod fields;
pub mod messages;
mod schema;

use std::fmt;

use serde::Deserialize;

pub use envelope::{EncodedList, Envelope, WatchEvent};
pub use schema::{Cardinality, FieldSchema, MessageSchema, ValueType, ZeroMeaning};

/// The reason why a message cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(Box<str>);

impl Error {
    fn new(text: &str) -> Self {
        Self(text.into())
    }
}

impl serde::de::Error for Error {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self(text.to_string().into())
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string().into())
    }
}

/// Decodes a protobuf message of the schema `message` into a projection.
///
/// # Errors
/// The message is corrupted, or does not fit `T`.
pub fn decode_message<'de, T: Deserialize<'de>>(message: &'static MessageSchema, bytes: &'de [u8]) -> Result<T, Error> {
    T::deserialize(deserializer::EncodedValue::from_message(message, bytes))
}

#[cfg(test)]
mod tests;
