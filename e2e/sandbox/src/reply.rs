//! Answers before they are put into HTTP.

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::watch::Watch;

/// An answer before it is put into HTTP.
pub(super) enum Reply {
    /// An object of the API that has one form only.
    Object(StatusCode, Value),
    /// An object or a list, encoded in the format of the answer.
    Encoded(StatusCode, Bytes),
    /// A document that exists in JSON only.
    Json(StatusCode, Bytes),
    /// JSON with a media type of its own.
    Typed(&'static str, Bytes),
    /// Text.
    Text(StatusCode, String),
    /// A watch.
    Watch(Box<Watch>),
}
