//! Errors of requests, classified by the possible reactions of a caller.

use std::{io, time::Duration};

use hyper_util::client::legacy;
use serde::Deserialize;

use super::WireFormat;
use crate::{
    client,
    gate::WithheldWrite,
    wire::{self, Envelope, messages},
};

/// Beginnings of the messages of internal errors (code 500) that the server returns before it writes to its storage. The server
/// could not call an admission webhook, or could not evaluate a quota in time.
///
/// Upstream: `apiserver/pkg/util/webhook`, `ErrCallingWebhook`; `apiserver/pkg/admission/plugin/resourcequota`, `Evaluate`.
const MESSAGES_BEFORE_WRITING: [&str; 2] = [
    "Internal error occurred: failed calling webhook ",
    "Internal error occurred: resource quota evaluation timed out",
];

/// Why a request failed, and whether it may have taken effect.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered with an error status.
    #[error("{0}")]
    Status(Box<ErrorStatus>),
    /// Nothing was sent, because no connection could be made or the request could not be built.
    #[error("{0}")]
    Unsent(String),
    /// The request was sent and its outcome is unknown, so a write may have happened.
    #[error("{0}")]
    OutcomeUnknown(String),
    /// The gate withheld the write, so nothing was sent.
    #[error("{0}: the write was not sent")]
    Withheld(#[from] WithheldWrite),
    /// The request succeeded, but the answer could not be decoded.
    #[error("the server's answer cannot be read: {0}")]
    InvalidAnswer(String),
    /// The server granted the creation, but admission changed the object so that it is useless for the caller.
    #[error("{0}")]
    ChangedByAdmission(String),
}

/// Error status of the API server, from an answer or from a watch event.
#[derive(Debug, Default, Deserialize, thiserror::Error)]
#[error("{message}")]
#[serde(default)]
pub struct ErrorStatus {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, e.g. `NotFound`.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// The resource, the causes, and the wait before a retry.
    pub details: StatusDetails,
    /// Wait before a retry, if the server asked for one and did not execute the request.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

/// The field `details` of an [`ErrorStatus`].
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// Plural name of the resource, such as `namespaces`.
    pub kind: String,
    /// Individual causes, such as invalid fields.
    pub causes: Vec<StatusCause>,
    /// Wait before a retry in seconds; 0 if unspecified.
    pub retry_after_seconds: u32,
}

/// One cause of an error, such as one invalid field, from `details.causes`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// Machine-readable reason, e.g. `ResourceVersionTooLarge`.
    pub reason: String,
    /// Path of the invalid field, e.g. `metadata.uid`.
    pub field: String,
}

impl ErrorStatus {
    /// Decodes the body of an answer with the HTTP status `code`.
    pub(super) fn decode_status(code: u16, format: WireFormat, body: &[u8], retry_after: Option<Duration>) -> Self {
        let mut status = match format {
            WireFormat::Json => serde_json::from_slice(body).unwrap_or_default(),
            WireFormat::Protobuf => Envelope::decode(body).map(Self::from_protobuf).unwrap_or_default(),
        };
        status.code = code;
        status.retry_after = retry_after;
        if status.message.is_empty() {
            let text = String::from_utf8_lossy(&body[..body.len().min(256)]);
            status.message = format!("the server answered {code}: {}", text.trim());
        }
        status
    }

    /// Decodes a `Status` in protobuf. Returns an empty status if the message cannot be decoded.
    pub(crate) fn from_protobuf(envelope: Envelope<'_>) -> Self {
        if envelope.kind == "Status" {
            wire::decode_message(&messages::STATUS, envelope.object).unwrap_or_default()
        } else {
            Self::default()
        }
    }

    pub(crate) fn has_cause(&self, reason: &str) -> bool {
        self.details.causes.iter().any(|cause| cause.reason == reason)
    }

    /// Recognizes errors of admission, which runs before the server writes.
    fn is_from_admission(&self) -> bool {
        self.reason == "InternalError" && MESSAGES_BEFORE_WRITING.iter().any(|start| self.message.starts_with(start))
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::InvalidAnswer(error.to_string())
    }
}

impl From<wire::Error> for Error {
    fn from(error: wire::Error) -> Self {
        Self::InvalidAnswer(error.to_string())
    }
}

impl Error {
    /// Classifies a failure without an HTTP response as [`Error::Unsent`] or [`Error::OutcomeUnknown`].
    pub(super) fn from_transport(error: kube::Error) -> Self {
        let is_unsent = |e: &(dyn std::error::Error + 'static)| {
            e.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect)
                || e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
                || e.is::<client::Error>()
                || e.is::<kube::client::AuthError>()
        };
        // The prefix that kube-rs adds carries no information.
        let text = client::append_error_causes(error.to_string(), &error);
        let text = text.strip_prefix("ServiceError: ").unwrap_or(&text).to_owned();
        let unsent = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source()).any(is_unsent);
        if unsent { Self::Unsent(text) } else { Self::OutcomeUnknown(text) }
    }

    fn status(&self) -> Option<&ErrorStatus> {
        if let Self::Status(status) = self { Some(status) } else { None }
    }

    fn is(&self, reason: &str, code: u16) -> bool {
        self.status().is_some_and(|s| if s.reason.is_empty() { s.code == code } else { s.reason == reason })
    }

    /// Whether the object does not exist (404).
    pub fn is_not_found(&self) -> bool {
        self.is("NotFound", 404)
    }

    /// Whether the server answered that no object has this name.
    ///
    /// The server also answers 404 for a path that it does not serve, for example while a CustomResourceDefinition is added or
    /// removed.
    pub fn is_object_absent(&self) -> bool {
        self.status().is_some_and(|status| {
            status.reason == "NotFound"
                && !status.message.starts_with("the server could not find the requested resource")
        })
    }

    /// Whether the server does not support the method for this path (405).
    pub fn is_method_not_allowed(&self) -> bool {
        self.is("MethodNotAllowed", 405)
    }

    /// Whether the object has changed since it was read, or a precondition failed (409).
    pub fn is_conflict(&self) -> bool {
        self.is("Conflict", 409)
    }

    /// Whether an object with this name exists already (409).
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|s| s.reason == "AlreadyExists")
    }

    /// Whether API validation refuses the object (422).
    pub fn is_invalid(&self) -> bool {
        self.is("Invalid", 422)
    }

    /// Whether the status is 400, 403 or 422, with which the server, a policy or an admission webhook denies a request.
    pub fn is_denied(&self) -> bool {
        self.status().is_some_and(|s| matches!(s.code, 400 | 403 | 422))
    }

    /// Whether the server answered 422 to a write because the object with this name has another UID.
    pub fn is_uid_mismatch(&self) -> bool {
        self.is_invalid() && self.has_invalid_field("metadata.uid")
    }

    /// Whether the server answered 409 to a replacement because the object with this name has another UID.
    pub fn is_uid_conflict(&self) -> bool {
        self.is_conflict()
            && self.status().is_some_and(|s| s.message.contains("Precondition failed: UID in precondition"))
    }

    /// Whether the server named `field`, a path such as `metadata.uid`, in one of the causes of the error.
    pub fn has_invalid_field(&self, field: &str) -> bool {
        self.status().is_some_and(|s| s.details.causes.iter().any(|cause| cause.field == field))
    }

    /// Whether the server no longer keeps the requested version (410).
    pub fn is_version_expired(&self) -> bool {
        self.status().is_some_and(|s| matches!(s.reason.as_str(), "Expired" | "Gone") || s.code == 410)
    }

    /// Whether the namespace is terminating (403) or does not exist (404).
    pub fn is_namespace_terminating(&self) -> bool {
        let names_namespace = |status: &ErrorStatus| status.details.kind == "namespaces";
        self.has_cause("NamespaceTerminating") || (self.is_not_found() && self.status().is_some_and(names_namespace))
    }

    /// Whether the server limits the rate of requests (429).
    pub fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(|s| s.code == 429)
    }

    /// Whether there was no answer, or the server or the extension server behind it cannot handle requests at the moment (503).
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Unsent(_) | Self::OutcomeUnknown(_) => true,
            Self::Status(s) => s.code == 503,
            Self::Withheld(_) | Self::InvalidAnswer(_) | Self::ChangedByAdmission(_) => false,
        }
    }

    /// Whether one of the causes in the error status has this machine-readable reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.status().is_some_and(|s| s.has_cause(reason))
    }

    /// Returns the wait before a retry, if the server asked for one and did not execute the request.
    pub fn retry_after(&self) -> Option<Duration> {
        self.status().and_then(|s| s.retry_after)
    }

    /// Whether a failed write may have taken effect, so that the caller must check before a retry.
    pub fn write_may_have_taken_effect(&self) -> bool {
        match self {
            Self::OutcomeUnknown(_) | Self::InvalidAnswer(_) => true,
            Self::Status(s) => s.code >= 500 && s.retry_after.is_none() && !s.is_from_admission(),
            Self::Unsent(_) | Self::Withheld(_) | Self::ChangedByAdmission(_) => false,
        }
    }

    /// Returns the HTTP status code of the server's answer; 500 without an answer, as upstream's metrics do.
    pub fn http_status_code(&self) -> u16 {
        match self {
            Self::Status(status) if status.code != 0 => status.code,
            _ => 500,
        }
    }

    /// Returns the class of the error for metrics and logs, from a fixed set.
    pub fn metric_label(&self) -> &'static str {
        match self {
            Self::Withheld(WithheldWrite::NotLeader) => "not_leader",
            Self::Withheld(WithheldWrite::OldDecision) => "old_decision",
            Self::Unsent(_) => "unsent",
            Self::OutcomeUnknown(_) => "lost",
            Self::InvalidAnswer(_) => "answer",
            Self::ChangedByAdmission(_) => "changed_by_admission",
            Self::Status(s) => match s.code {
                403 => "forbidden",
                404 => "not_found",
                409 => "conflict",
                410 => "gone",
                422 => "invalid",
                429 => "too_many_requests",
                500..=599 => "server",
                _ => "refused",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, body: &str) -> Error {
        Error::Status(Box::new(ErrorStatus::decode_status(code, WireFormat::Json, body.as_bytes(), None)))
    }

    #[test]
    fn a_terminating_namespace_is_distinguished_from_other_refusals() {
        let e = status(
            403,
            r#"{"reason":"Forbidden","message":"no","details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#,
        );
        assert!(e.is_namespace_terminating());
        assert!(!status(403, r#"{"reason":"Forbidden","message":"exceeded quota"}"#).is_namespace_terminating());
        assert!(status(404, r#"{"reason":"NotFound","details":{"kind":"namespaces"}}"#).is_namespace_terminating());
        assert!(!status(404, r#"{"reason":"NotFound","details":{"kind":"pods"}}"#).is_namespace_terminating());
    }

    #[test]
    fn a_lost_answer_and_a_server_error_may_have_happened() {
        assert!(Error::OutcomeUnknown("cut".into()).write_may_have_taken_effect());
        assert!(status(500, "{}").write_may_have_taken_effect());
        assert!(!Error::Unsent("refused".into()).write_may_have_taken_effect());
        assert!(!status(409, r#"{"reason":"Conflict"}"#).write_may_have_taken_effect());
        assert!(status(409, r#"{"reason":"Conflict"}"#).is_conflict());
        assert!(!status(409, r#"{"reason":"AlreadyExists"}"#).is_conflict());
    }

    /// COMMON-23.
    #[test]
    fn a_write_that_fails_in_admission_has_not_happened() {
        let failed = |message: &str| {
            status(500, &serde_json::json!({"reason": "InternalError", "message": message}).to_string())
        };
        let webhook = r#"Internal error occurred: failed calling webhook "policy.example.com": no endpoints available"#;
        assert!(!failed(webhook).write_may_have_taken_effect());
        assert!(!failed("Internal error occurred: resource quota evaluation timed out").write_may_have_taken_effect());
        assert!(failed("Internal error occurred: etcdserver: request timed out").write_may_have_taken_effect());
        assert!(status(500, r#"{"message":"failed calling webhook"}"#).write_may_have_taken_effect());
    }

    #[test]
    fn a_status_in_protobuf_has_the_same_fields() {
        // A `Status` message, encoded by hand: 410 Expired, with one cause and a wait of five seconds.
        let text = |number: u8, text: &[u8]| [&[number << 3 | 2, text.len() as u8], text].concat();
        let cause = text(4, &[text(1, b"ResourceVersionTooLarge"), text(3, b"metadata.uid")].concat());
        let details = text(5, &[text(3, b"pods"), cause, vec![5 << 3, 5]].concat());
        let status =
            [text(2, b"Failure"), text(3, b"too old"), text(4, b"Expired"), details, vec![6 << 3, 0x9a, 3]].concat();
        let kind = text(1, &[text(1, b"v1"), text(2, b"Status")].concat());
        let body = [b"k8s\0".to_vec(), kind, text(2, &status)].concat();
        let read = ErrorStatus::decode_status(410, WireFormat::Protobuf, &body, None);
        assert_eq!((read.code, &*read.reason, &*read.message), (410, "Expired", "too old"));
        assert_eq!((&*read.details.kind, read.details.retry_after_seconds), ("pods", 5));
        assert!(read.has_cause("ResourceVersionTooLarge") && read.details.causes[0].field == "metadata.uid");
        let in_watch = ErrorStatus::from_protobuf(Envelope::decode(&body).unwrap());
        assert_eq!((in_watch.code, &*in_watch.reason), (410, "Expired"));
        // A message of another kind is not a `Status`, even if it can be decoded as one.
        let pod = [b"k8s\0".to_vec(), text(1, &[text(1, b"v1"), text(2, b"Pod")].concat()), text(2, &status)].concat();
        assert_eq!(ErrorStatus::from_protobuf(Envelope::decode(&pod).unwrap()).code, 0);
        assert_eq!(
            ErrorStatus::decode_status(502, WireFormat::Protobuf, b"junk", None).to_string(),
            "the server answered 502: junk"
        );
    }

    #[test]
    fn an_answer_without_a_status_becomes_the_message() {
        assert_eq!(status(502, "<html>bad gateway").to_string(), "the server answered 502: <html>bad gateway");
    }
}
