//! The parts of a request to the API server before it is sent.

use bytes::Bytes;
use http::Method;
use serde_json::json;

use super::{DeleteOptions, FIELD_MANAGER, MAX_ANSWER, MAX_LIST, PatchFormat, encode, error::Error, with_query};
use crate::object::{RequestTarget, Resource};

/// A request to the API server, other than a watch, before it is sent.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub(super) method: Method,
    pub(super) path: String,
    /// Value of the `Accept` header.
    pub(super) accept: &'a str,
    /// Content type and bytes of the body; `None` for a read.
    pub(super) body: Option<(&'static str, Bytes)>,
    /// Size limit of the answer in bytes.
    pub(super) max_answer_bytes: usize,
    /// Object that the call writes; `None` for a read.
    pub(super) write_target: Option<RequestTarget<'a>>,
}

impl<'a> Call<'a> {
    /// Prepares a GET of a path. `accept` is the `Accept` header.
    pub fn get(path: String, accept: &'a str) -> Self {
        Self { method: Method::GET, path, accept, body: None, max_answer_bytes: MAX_ANSWER, write_target: None }
    }

    /// Prepares a GET of a collection. `query` must be encoded already; it may be empty.
    pub fn list(resource: &Resource, namespace: &str, query: &str, accept: &'a str) -> Self {
        let path = with_query(resource.path(namespace, "", ""), query);
        Self { max_answer_bytes: MAX_LIST, ..Self::get(path, accept) }
    }

    /// Prepares the creation of an object from a JSON body.
    pub fn create(target: RequestTarget<'a>, body: Bytes) -> Self {
        Self::write(Method::POST, target, "application/json", body)
    }

    /// Prepares the replacement of an object by a JSON body.
    pub fn replace(target: RequestTarget<'a>, body: Bytes) -> Self {
        Self::write(Method::PUT, target, "application/json", body)
    }

    /// Prepares a patch of an object, in the format `format`.
    pub fn patch(target: RequestTarget<'a>, format: PatchFormat, body: Bytes) -> Self {
        Self::write(Method::PATCH, target, format.content_type(), body)
    }

    /// Prepares a server-side apply of a JSON body, in which `field_manager` owns every field. Conflicts with other managers are
    /// resolved in favour of `field_manager`.
    pub fn apply(target: RequestTarget<'a>, field_manager: &str, body: Bytes) -> Self {
        let path = with_query(target.path(), &format!("fieldManager={field_manager}&force=true"));
        Self { path, ..Self::write(Method::PATCH, target, "application/apply-patch+yaml", body) }
    }

    /// Prepares the deletion of all objects of a collection that match `query`, which must be encoded already.
    pub fn delete_collection(target: RequestTarget<'a>, query: &str) -> Self {
        let path = with_query(target.path(), query);
        Self { path, body: None, ..Self::write(Method::DELETE, target, "application/json", Bytes::new()) }
    }

    /// Prepares the deletion of an object, with `options` as the body of the request.
    ///
    /// # Errors
    /// If the options cannot be encoded.
    pub fn delete(target: RequestTarget<'a>, options: &DeleteOptions) -> Result<Self, Error> {
        let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(uid) = &options.uid {
            body["preconditions"]["uid"] = json!(uid);
        }
        if let Some(version) = &options.version {
            body["preconditions"]["resourceVersion"] = json!(version);
        }
        if let Some(propagation) = options.propagation_policy {
            body["propagationPolicy"] = json!(propagation);
        }
        if let Some(grace) = options.grace_period_seconds {
            body["gracePeriodSeconds"] = json!(grace);
        }
        Ok(Self::write(Method::DELETE, target, "application/json", encode(&body)?))
    }

    /// Sets the `Accept` header; by default the answer is a whole object in JSON.
    #[must_use]
    pub fn with_accept_header(self, accept: &'a str) -> Self {
        Self { accept, ..self }
    }

    fn write(method: Method, target: RequestTarget<'a>, content_type: &'static str, body: Bytes) -> Self {
        let mut path = target.path();
        if method != Method::DELETE {
            path = with_query(path, &format!("fieldManager={FIELD_MANAGER}"));
        }
        let body = Some((content_type, body));
        Self {
            method,
            path,
            accept: "application/json",
            body,
            max_answer_bytes: MAX_ANSWER,
            write_target: Some(target),
        }
    }
}
