//! Bodies of requests, and the content of answers.

use bytes::Bytes;
use serde::Serialize;

use crate::{
    api::{self, EncodedBody, WireFormat},
    discovery, informer,
    wire::MessageSchema,
};

/// The encoded body of a request, or the error of its encoding.
#[derive(Clone, Debug)]
pub struct RequestBody(Result<EncodedBody, String>);

impl Default for RequestBody {
    fn default() -> Self {
        Self(Ok(EncodedBody { format: WireFormat::Json, bytes: Bytes::from_static(b"{}") }))
    }
}

impl RequestBody {
    /// Encodes a body as JSON. If the encoding fails, the request fails without being sent.
    pub fn encode<B: Serialize + ?Sized>(body: &B) -> Self {
        Self::from(EncodedBody::json(body))
    }

    pub(super) fn encoded(&self) -> Result<EncodedBody, api::Error> {
        self.0.clone().map_err(api::Error::Unsent)
    }
}

impl From<Result<EncodedBody, api::Error>> for RequestBody {
    fn from(body: Result<EncodedBody, api::Error>) -> Self {
        Self(body.map_err(|error| error.to_string()))
    }
}

/// The content of an answer, in a format that the server supports.
#[derive(Clone, Copy, Debug)]
pub(super) enum AnswerContent {
    /// The metadata of the object.
    Metadata,
    /// The metadata of the objects of a list.
    MetadataList,
    /// An aggregated discovery document.
    Discovery,
    /// The whole object in JSON.
    Json,
    /// The whole object, in protobuf with this schema if possible.
    Object(&'static MessageSchema),
}

impl AnswerContent {
    pub(super) fn accept_header(self, preferred_format: WireFormat) -> &'static str {
        match (self, preferred_format) {
            (Self::Metadata, WireFormat::Protobuf) => informer::ACCEPT_PROTOBUF_METADATA,
            (Self::Metadata, WireFormat::Json) => informer::ACCEPT_METADATA,
            (Self::MetadataList, _) => informer::ACCEPT_METADATA_LIST,
            (Self::Discovery, _) => discovery::ACCEPT,
            (Self::Object(_), WireFormat::Protobuf) => informer::ACCEPT_PROTOBUF,
            (Self::Object(_), WireFormat::Json) | (Self::Json, _) => informer::ACCEPT_JSON,
        }
    }
}
