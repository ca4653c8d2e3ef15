//! Kubernetes' protobuf encoding, read into the same projections as JSON.
//!
//! A projection is declared once, for serde. From JSON it is read by `serde_json`, and from protobuf by [`read`], which presents an
//! encoded message as the JSON of the same object: with the names, nulls and omitted fields that the API server's JSON has. How a
//! message appears as JSON is in [`messages`], for the messages that projections read. What nobody reads is passed over without being
//! looked at, and strings are borrowed from the encoded message.
//!
//! - A field that a newer server has and this version does not know is passed over, as in JSON.
//! - A field that the messages do not describe cannot be read by a projection: that is an error, never an absent field.
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

pub use envelope::{Envelope, List, WatchEvent};
pub use schema::{Count, Field, Message, Shape, Zero};

/// Why a message cannot be read.
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

/// Reads an encoded message.
///
/// # Errors
/// If it is damaged, or does not fit what is read.
pub fn read<'de, T: Deserialize<'de>>(message: &'static Message, bytes: &'de [u8]) -> Result<T, Error> {
    T::deserialize(deserializer::Value::message(message, bytes))
}

#[cfg(test)]
mod tests;
