//! Refusals, as `Status` objects with the real server's reasons and words.

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::{
    api::resource::{Key, Resource},
    value::errors::FieldError,
};

/// The connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection cut")]
pub struct ConnectionCut;

/// Why a request was refused.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Map<String, Value>>,
    /// Seconds of the `Retry-After` header.
    pub(crate) retry_after: Option<u64>,
    /// A continue token that leads on in spite of the error.
    pub(crate) resume: Option<String>,
    /// Answered as text, without a `Status`.
    pub(crate) plain: bool,
}

pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, reason, message, details: None, retry_after: None, resume: None, plain: false }
    }

    fn with(code: u16, reason: &'static str, message: String, details: Value) -> Self {
        let mut error = Self::new(code, reason, message);
        if let Value::Object(details) = details {
            error.details = Some(details);
        }
        error
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::with(404, "NotFound", message, resource.details(name))
    }

    pub(crate) fn namespace_not_found(namespace: &str) -> Self {
        let details = json!({"name": namespace, "kind": "namespaces"});
        Self::with(404, "NotFound", format!("namespaces \"{namespace}\" not found"), details)
    }

    /// No such resource in a group version that exists.
    pub(crate) fn no_resource() -> Self {
        Self::with(404, "NotFound", "the server could not find the requested resource".into(), json!({}))
    }

    pub(crate) fn no_path() -> Self {
        let mut error = Self::new(404, "NotFound", "404 page not found\n");
        error.plain = true;
        error
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource".into();
        Self::with(405, "MethodNotAllowed", message, json!({}))
    }

    /// As the router refuses a patch it has no consumer for.
    pub(crate) fn unsupported_media_type() -> Self {
        Self::with(415, "UnsupportedMediaType", "415: Unsupported Media Type".into(), json!({}))
    }

    /// As a handler refuses a body it cannot decode.
    pub(crate) fn unknown_format(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::with(409, "AlreadyExists", message, resource.details(name))
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, why: impl AsRef<str>) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {}", resource.qualified(), why.as_ref());
        Self::with(409, "Conflict", message, resource.details(name))
    }

    /// A conflict that names the kind instead of the resource, as delete preconditions do.
    pub(crate) fn kind_conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let (kind, mut details) = (resource.qualified_kind(), resource.details(name));
        details["kind"] = json!(&*resource.kind);
        Self::with(409, "Conflict", format!("Operation cannot be fulfilled on {kind} \"{name}\": {why}"), details)
    }

    pub(crate) fn stale(resource: &Resource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// The object a precondition was made for is another one.
    pub(crate) fn wrong_uid(resource: &Resource, key: &Key, wanted: &str, found: &str) -> Self {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
             UID in precondition: {wanted}, UID in object meta: {found}",
            resource.storage_path(key)
        );
        Self::conflict(resource, key.name(), why)
    }

    pub(crate) fn forbidden(details: Value, message: String) -> Self {
        Self::with(403, "Forbidden", message, details)
    }

    pub(crate) fn namespace_terminating(resource: &Resource, name: &str, namespace: &str) -> Self {
        let mut details = resource.details(name);
        details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace"
        }]);
        let message = format!(
            "{} \"{name}\" is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
            resource.qualified()
        );
        Self::with(403, "Forbidden", message, details)
    }

    pub(crate) fn invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> Self {
        // Events are refused under the group they are stored in.
        let group = resource.table.split_once('.').map_or("", |(_, group)| group);
        Self::invalid_as(group, &resource.kind, name, errors)
    }

    /// Options of the request that are wrong.
    pub(crate) fn invalid_options(kind: &str, errors: &[FieldError]) -> Self {
        Self::invalid_as("meta.k8s.io", kind, "", errors)
    }

    pub(crate) fn invalid_as(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let mut details = Map::new();
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                details.insert(key.into(), value.into());
            }
        }
        let causes: Vec<Value> =
            errors.iter().map(|e| json!({"reason": e.reason, "message": e.message, "field": e.field})).collect();
        details.insert("causes".into(), causes.into());
        let mut lines: Vec<String> = Vec::new();
        for e in errors {
            let line = format!("{}: {}", e.field, e.message);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let all = if lines.len() == 1 { lines.concat() } else { format!("[{}]", lines.join(", ")) };
        let dot = if group.is_empty() { "" } else { "." };
        let message = format!("{kind}{dot}{group} \"{name}\" is invalid: {all}");
        let mut error = Self::new(422, "Invalid", message);
        error.details = Some(details);
        error
    }

    /// A JSON patch that does not apply.
    pub(crate) fn patch_refused() -> Self {
        let message = "the server rejected our request due to an error in our request".into();
        Self::with(422, "Invalid", message, json!({}))
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let why = message.into();
        let details = json!({"causes": [{"message": why}]});
        Self::with(500, "InternalError", format!("Internal error occurred: {why}"), details)
    }

    /// An error of the real server that has no reason of its own.
    pub(crate) fn unexplained(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn future_version(wanted: u64, current: u64) -> Self {
        let mut error = Self::with(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {wanted}, current: {current}"),
            json!({
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1
            }),
        );
        error.retry_after = Some(1);
        error
    }

    pub(crate) fn retry_later(code: u16, reason: &'static str, message: &str, seconds: u64) -> Self {
        let mut error = Self::with(code, reason, message.into(), json!({"retryAfterSeconds": seconds}));
        error.retry_after = Some(seconds);
        error
    }

    pub(crate) fn cause(mut self, reason: &str, message: &str) -> Self {
        let details = self.details.get_or_insert_with(Map::new);
        let causes = details.entry("causes").or_insert_with(|| json!([]));
        if let Value::Array(list) = causes {
            list.push(json!({"reason": reason, "message": message}));
        }
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(crate) fn body(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.resume {
            metadata.insert("continue".into(), token.as_str().into());
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": self.message, "code": self.code
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = Value::Object(details.clone());
        }
        status
    }
}
