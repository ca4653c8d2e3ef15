//! A call of the API server.

use bytes::Bytes;
use http::Method;
use serde_json::json;

use super::{Delete, FIELD_MANAGER, MAX_ANSWER, MAX_LIST, Patch, encode, error::Error, with_query};
use crate::object::{Resource, Target};

/// A call of the API server, other than a watch.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub(super) method: Method,
    pub(super) path: String,
    /// The representation in which the answer is wanted.
    pub(super) accept: &'a str,
    /// Content type and body.
    pub(super) body: Option<(&'static str, Bytes)>,
    /// Bytes of an answer from which on it is not read.
    pub(super) limit: usize,
    /// The object that is written; `None` for a read.
    pub(super) written: Option<Target<'a>>,
}

impl<'a> Call<'a> {
    /// Reads any path.
    pub fn get(path: String, accept: &'a str) -> Self {
        Self { method: Method::GET, path, accept, body: None, limit: MAX_ANSWER, written: None }
    }

    /// Reads a collection; `query` is already encoded.
    pub fn list(resource: Resource, namespace: &str, query: &str, accept: &'a str) -> Self {
        let path = with_query(resource.path(namespace, "", ""), query);
        Self { limit: MAX_LIST, ..Self::get(path, accept) }
    }

    /// Creates an object from this JSON.
    pub fn create(target: Target<'a>, body: Bytes) -> Self {
        Self::write(Method::POST, target, "application/json", body)
    }

    /// Replaces an object by this JSON.
    pub fn replace(target: Target<'a>, body: Bytes) -> Self {
        Self::write(Method::PUT, target, "application/json", body)
    }

    /// Patches an object with this JSON.
    pub fn patch(target: Target<'a>, kind: Patch, body: Bytes) -> Self {
        Self::write(Method::PATCH, target, kind.content_type(), body)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// If the options cannot be encoded.
    pub fn delete(target: Target<'a>, options: &Delete) -> Result<Self, Error> {
        let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(uid) = &options.uid {
            body["preconditions"]["uid"] = json!(uid);
        }
        if let Some(version) = &options.version {
            body["preconditions"]["resourceVersion"] = json!(version);
        }
        if let Some(propagation) = options.propagation {
            body["propagationPolicy"] = json!(propagation);
        }
        if let Some(grace) = options.grace_seconds {
            body["gracePeriodSeconds"] = json!(grace);
        }
        Ok(Self::write(Method::DELETE, target, "application/json", encode(&body)?))
    }

    fn write(method: Method, target: Target<'a>, content_type: &'static str, body: Bytes) -> Self {
        let mut path = target.path();
        if method != Method::DELETE {
            path = with_query(path, &format!("fieldManager={FIELD_MANAGER}"));
        }
        let body = Some((content_type, body));
        Self { method, path, accept: "application/json", body, limit: MAX_ANSWER, written: Some(target) }
    }
}
