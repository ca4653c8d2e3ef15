//! Encoded bodies of requests.

use bytes::Bytes;
use serde::Serialize;

use super::{Error, WireFormat};
use crate::wire::{Envelope, MessageSchema, encode_object};

/// An encoded body with its format.
#[derive(Clone, Debug)]
pub struct EncodedBody {
    /// JSON or protobuf.
    pub format: WireFormat,
    /// JSON text, or a protobuf message in its envelope.
    pub bytes: Bytes,
}

impl EncodedBody {
    /// Encodes a body as JSON.
    ///
    /// # Errors
    /// [`Error::Unsent`] if the body cannot be encoded.
    pub fn json<B: Serialize + ?Sized>(body: &B) -> Result<Self, Error> {
        let bytes = serde_json::to_vec(body).map_err(|error| unsent(&error.to_string()))?;
        Ok(Self { format: WireFormat::Json, bytes: bytes.into() })
    }

    /// Encodes an object, which has the schema `message`, in the preferred format, or as JSON if the message cannot have all of
    /// its fields.
    ///
    /// # Errors
    /// [`Error::Unsent`] if the object cannot be encoded.
    pub fn object<B: Serialize + ?Sized>(
        preferred_format: WireFormat,
        api_version: &str,
        kind: &str,
        message: &'static MessageSchema,
        body: &B,
    ) -> Result<Self, Error> {
        if preferred_format == WireFormat::Json {
            return Self::json(body);
        }
        match encode_object(api_version, kind, message, body) {
            Ok(bytes) => Ok(Self { format: WireFormat::Protobuf, bytes: bytes.into() }),
            // JSON has all fields that protobuf has, and fields of a newer server. Only a part in protobuf cannot be sent as JSON.
            Err(error) => Self::json(body).map_err(|_| unsent(&error.to_string())),
        }
    }

    /// Returns the object in protobuf with another `metadata.resourceVersion`.
    ///
    /// # Errors
    /// [`Error::Unsent`] if the body is not an object in protobuf.
    pub fn with_resource_version(&self, version: &str) -> Result<Self, Error> {
        let bytes = Envelope::decode(&self.bytes).and_then(|object| object.with_resource_version(version));
        Ok(Self { format: self.format, bytes: bytes.map_err(|error| unsent(&error.to_string()))?.into() })
    }
}

fn unsent(error: &str) -> Error {
    Error::Unsent(format!("the body of the request cannot be encoded: {error}"))
}
