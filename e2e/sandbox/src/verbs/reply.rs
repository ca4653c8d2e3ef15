//! Answers before they are put into HTTP.

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use crate::verbs::watch::Watch;

/// An answer before it is put into HTTP.
pub(crate) enum Reply {
    /// An object of the API that has one form only.
    Object(StatusCode, Value),
    /// An object or a list, encoded in the format of the answer.
    Encoded(StatusCode, Bytes),
    /// A document that exists in JSON only.
    Json(StatusCode, Bytes),
    /// JSON with a media type of its own.
    Typed(&'static str, Bytes),
    Text(StatusCode, String),
    Watch(Box<Watch>),
}
