//! Errors of requests, by what a caller can do about them.

use std::{io, time::Duration};

use hyper_util::client::legacy;
use serde::Deserialize;

use super::Format;
use crate::{
    client,
    wire::{self, Envelope, messages},
};

/// Beginnings of the messages of internal errors (code 500) that the server returns before it writes anything: it cannot call an
/// admission webhook, or it cannot evaluate a quota in time.
///
/// Upstream: `apiserver/pkg/util/webhook`, `ErrCallingWebhook`; `apiserver/pkg/admission/plugin/resourcequota`, `Evaluate`.
const BEFORE_WRITING: [&str; 2] = [
    "Internal error occurred: failed calling webhook ",
    "Internal error occurred: resource quota evaluation timed out",
];

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered with a failure.
    #[error("{0}")]
    Status(Box<Status>),
    /// Nothing was sent: no connection could be made, or the request could not be built.
    #[error("{0}")]
    Unsent(String),
    /// The request was sent and its outcome is not known: a write may have happened.
    #[error("{0}")]
    Lost(String),
    /// This process does not lead: the write was not sent.
    #[error("not the leader: the write was not sent")]
    NotLeader,
    /// The server's answer could not be read. The request has taken effect.
    #[error("the server's answer cannot be read: {0}")]
    Answer(#[from] serde_json::Error),
}

/// A failure as the API server states it: in an answer, or in the middle of a watch.
#[derive(Debug, Default, Deserialize, thiserror::Error)]
#[error("{message}")]
#[serde(default)]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, e.g. `NotFound`.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// More about it.
    pub details: Details,
    /// When to come back, if the server said so and did not carry the request out.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

/// Details of a failure.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// The resource it concerns, in the plural.
    pub kind: String,
    /// Causes.
    pub causes: Vec<Cause>,
    /// When to come back; 0 if that is not said.
    pub retry_after_seconds: u32,
}

/// One cause of a failure.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// Machine-readable reason.
    pub reason: String,
    /// The field it concerns.
    pub field: String,
}

impl Status {
    /// Reads the body of an answer with that code.
    pub(super) fn read(code: u16, format: Format, body: &[u8], retry_after: Option<Duration>) -> Self {
        let mut status = match format {
            Format::Json => serde_json::from_slice(body).unwrap_or_default(),
            Format::Protobuf => Envelope::read(body).map(Self::of_message).unwrap_or_default(),
        };
        status.code = code;
        status.retry_after = retry_after;
        if status.message.is_empty() {
            let text = String::from_utf8_lossy(&body[..body.len().min(256)]);
            status.message = format!("the server answered {code}: {}", text.trim());
        }
        status
    }

    /// Reads a protobuf message; one that cannot be read says nothing.
    pub(crate) fn of_message(message: Envelope<'_>) -> Self {
        if message.kind == "Status" {
            wire::read(&messages::STATUS, message.object).unwrap_or_default()
        } else {
            Self::default()
        }
    }

    /// Whether it has a cause of that reason.
    pub(crate) fn has_cause(&self, reason: &str) -> bool {
        self.details.causes.iter().any(|cause| cause.reason == reason)
    }

    /// Whether the server failed in admission, which precedes the write.
    fn is_from_admission(&self) -> bool {
        self.reason == "InternalError" && BEFORE_WRITING.iter().any(|start| self.message.starts_with(start))
    }
}

impl Error {
    /// Classes a failure below HTTP.
    pub(super) fn transport(error: kube::Error) -> Self {
        let is_unsent = |e: &(dyn std::error::Error + 'static)| {
            e.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect)
                || e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
                || e.is::<client::Error>()
                || e.is::<kube::client::AuthError>()
        };
        // What the client's own wrapping says of it helps nobody.
        let text = client::with_causes(error.to_string(), &error);
        let text = text.strip_prefix("ServiceError: ").unwrap_or(&text).to_owned();
        let unsent = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source()).any(is_unsent);
        if unsent { Self::Unsent(text) } else { Self::Lost(text) }
    }

    fn status(&self) -> Option<&Status> {
        if let Self::Status(status) = self { Some(status) } else { None }
    }

    fn is(&self, reason: &str, code: u16) -> bool {
        self.status().is_some_and(|s| if s.reason.is_empty() { s.code == code } else { s.reason == reason })
    }

    /// 404: there is no such object.
    pub fn is_not_found(&self) -> bool {
        self.is("NotFound", 404)
    }

    /// 409: the object has changed since it was read, or a precondition failed.
    pub fn is_conflict(&self) -> bool {
        self.is("Conflict", 409)
    }

    /// 409: an object of that name exists.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|s| s.reason == "AlreadyExists")
    }

    /// 422: the server refuses the object.
    pub fn is_invalid(&self) -> bool {
        self.is("Invalid", 422)
    }

    /// 400, 403 or 422: the server, a policy or an admission webhook denies the request for what it holds.
    pub fn is_denied(&self) -> bool {
        self.status().is_some_and(|s| matches!(s.code, 400 | 403 | 422))
    }

    /// Whether a write that named a uid was refused because the object of that name is another one.
    pub fn is_another(&self) -> bool {
        self.is_invalid() && self.names("metadata.uid")
    }

    /// Whether that field is among the causes of a refusal.
    pub fn names(&self, field: &str) -> bool {
        self.status().is_some_and(|s| s.details.causes.iter().any(|cause| cause.field == field))
    }

    /// 410: the version asked for is no longer kept.
    pub fn is_gone(&self) -> bool {
        self.status().is_some_and(|s| matches!(s.reason.as_str(), "Expired" | "Gone") || s.code == 410)
    }

    /// 403 because the namespace is terminating, or 404 because it is gone.
    pub fn is_namespace_terminating(&self) -> bool {
        let names_namespace = |status: &Status| status.details.kind == "namespaces";
        self.has_cause("NamespaceTerminating") || (self.is_not_found() && self.status().is_some_and(names_namespace))
    }

    /// 429: too many requests.
    pub fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(|s| s.code == 429)
    }

    /// Whether the failure has a cause of that reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.status().is_some_and(|s| s.has_cause(reason))
    }

    /// When to send the request again, if the server said so and has not carried it out.
    pub fn retry_after(&self) -> Option<Duration> {
        self.status().and_then(|s| s.retry_after)
    }

    /// Whether a write may have taken effect although it failed: look before doing it again.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Lost(_) | Self::Answer(_) => true,
            Self::Status(s) => s.code >= 500 && s.retry_after.is_none() && !s.is_from_admission(),
            Self::Unsent(_) | Self::NotLeader => false,
        }
    }

    /// A name for metrics and logs, one of few.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NotLeader => "not_leader",
            Self::Unsent(_) => "unsent",
            Self::Lost(_) => "lost",
            Self::Answer(_) => "answer",
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
        Error::Status(Box::new(Status::read(code, Format::Json, body.as_bytes(), None)))
    }

    #[test]
    fn a_terminating_namespace_is_told_from_other_refusals() {
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
    fn only_what_may_have_happened_says_so() {
        assert!(Error::Lost("cut".into()).may_have_happened());
        assert!(status(500, "{}").may_have_happened());
        assert!(!Error::Unsent("refused".into()).may_have_happened());
        assert!(!status(409, r#"{"reason":"Conflict"}"#).may_have_happened());
        assert!(status(409, r#"{"reason":"Conflict"}"#).is_conflict());
        assert!(!status(409, r#"{"reason":"AlreadyExists"}"#).is_conflict());
    }

    #[test]
    fn a_write_that_fails_in_admission_has_not_happened() {
        let failed = |message: &str| {
            status(500, &serde_json::json!({"reason": "InternalError", "message": message}).to_string())
        };
        let webhook = r#"Internal error occurred: failed calling webhook "policy.example.com": no endpoints available"#;
        assert!(!failed(webhook).may_have_happened());
        assert!(!failed("Internal error occurred: resource quota evaluation timed out").may_have_happened());
        assert!(failed("Internal error occurred: etcdserver: request timed out").may_have_happened());
        assert!(status(500, r#"{"message":"failed calling webhook"}"#).may_have_happened());
    }

    #[test]
    fn a_status_in_protobuf_says_the_same() {
        // Field numbers and lengths by hand: 410 Expired with one cause and five seconds to wait.
        let text = |number: u8, text: &[u8]| [&[number << 3 | 2, text.len() as u8], text].concat();
        let cause = text(4, &[text(1, b"ResourceVersionTooLarge"), text(3, b"metadata.uid")].concat());
        let details = text(5, &[text(3, b"pods"), cause, vec![5 << 3, 5]].concat());
        let status =
            [text(2, b"Failure"), text(3, b"too old"), text(4, b"Expired"), details, vec![6 << 3, 0x9a, 3]].concat();
        let kind = text(1, &[text(1, b"v1"), text(2, b"Status")].concat());
        let body = [b"k8s\0".to_vec(), kind, text(2, &status)].concat();
        let read = Status::read(410, Format::Protobuf, &body, None);
        assert_eq!((read.code, &*read.reason, &*read.message), (410, "Expired", "too old"));
        assert_eq!((&*read.details.kind, read.details.retry_after_seconds), ("pods", 5));
        assert!(read.has_cause("ResourceVersionTooLarge") && read.details.causes[0].field == "metadata.uid");
        let in_watch = Status::of_message(Envelope::read(&body).unwrap());
        assert_eq!((in_watch.code, &*in_watch.reason), (410, "Expired"));
        // Another kind whose fields would fit is no Status.
        let pod = [b"k8s\0".to_vec(), text(1, &[text(1, b"v1"), text(2, b"Pod")].concat()), text(2, &status)].concat();
        assert_eq!(Status::of_message(Envelope::read(&pod).unwrap()).code, 0);
        assert_eq!(Status::read(502, Format::Protobuf, b"junk", None).to_string(), "the server answered 502: junk");
    }

    #[test]
    fn an_answer_that_is_no_status_still_makes_a_message() {
        assert_eq!(status(502, "<html>bad gateway").to_string(), "the server answered 502: <html>bad gateway");
    }
}
