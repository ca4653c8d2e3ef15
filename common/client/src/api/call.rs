//! The parts of a request to the API server before it is sent.

use bytes::Bytes;
use http::Method;
use serde::Serialize;

use super::{
    DeleteOptions, EncodedBody, FIELD_MANAGER, MAX_ANSWER, MAX_LIST, PatchFormat, WireFormat, error::Error, with_query,
};
use crate::{
    gate::DecisionTime,
    meta::{ResourceVersion, Uid},
    object::{RequestTarget, Resource},
    wire::messages,
};

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
    /// Whether the call is repeated after 503 with `Retry-After`.
    pub(super) is_repeated_if_unavailable: bool,
    /// Time of the decision from which a write follows.
    pub(super) decision_time: Option<DecisionTime>,
}

impl<'a> Call<'a> {
    /// Prepares a GET of a path. `accept` is the `Accept` header.
    pub fn get(path: String, accept: &'a str) -> Self {
        Self {
            method: Method::GET,
            path,
            accept,
            body: None,
            max_answer_bytes: MAX_ANSWER,
            write_target: None,
            is_repeated_if_unavailable: true,
            decision_time: None,
        }
    }

    /// Prepares a GET of a collection. `query` must be encoded already; it may be empty.
    pub fn list(resource: &Resource, namespace: &str, query: &str, accept: &'a str) -> Self {
        let path = with_query(resource.path(namespace, "", ""), query);
        Self { max_answer_bytes: MAX_LIST, ..Self::get(path, accept) }
    }

    /// Prepares the creation of an object.
    pub fn create(target: RequestTarget<'a>, body: EncodedBody) -> Self {
        Self::write(Method::POST, target, body.format.media_type(), body.bytes)
    }

    /// Prepares the replacement of an object.
    pub fn replace(target: RequestTarget<'a>, body: EncodedBody) -> Self {
        Self::write(Method::PUT, target, body.format.media_type(), body.bytes)
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

    /// Prepares the deletion of all objects of a collection that match `query`, which must be encoded already. The query may have
    /// options of the deletion, too, such as `propagationPolicy`.
    pub fn delete_collection(target: RequestTarget<'a>, query: &str) -> Self {
        let path = with_query(target.path(), query);
        let call = Self::write(Method::DELETE, target, "application/json", Bytes::new());
        Self { path, body: None, max_answer_bytes: MAX_LIST, ..call }
    }

    /// Prepares the deletion of an object, with `options` as the body of the request. Servers of other API groups than those of
    /// Kubernetes may know the options in JSON only.
    ///
    /// # Errors
    /// If the options cannot be encoded.
    pub fn delete(
        target: RequestTarget<'a>,
        options: &DeleteOptions,
        preferred_format: WireFormat,
    ) -> Result<Self, Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Body<'o> {
            kind: &'static str,
            api_version: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            preconditions: Option<Preconditions<'o>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            propagation_policy: Option<&'static str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            grace_period_seconds: Option<i64>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Preconditions<'o> {
            #[serde(skip_serializing_if = "Option::is_none")]
            uid: Option<&'o Uid>,
            #[serde(skip_serializing_if = "Option::is_none")]
            resource_version: Option<ResourceVersion>,
        }
        let DeleteOptions { uid, version, propagation_policy, grace_period_seconds } = options;
        let has_preconditions = uid.is_some() || version.is_some();
        let body = Body {
            kind: "DeleteOptions",
            api_version: "v1",
            preconditions: has_preconditions.then_some(Preconditions { uid: uid.as_ref(), resource_version: *version }),
            propagation_policy: *propagation_policy,
            grace_period_seconds: *grace_period_seconds,
        };
        let format = if target.resource.is_of_kubernetes() { preferred_format } else { WireFormat::Json };
        let body = EncodedBody::object(format, "v1", "DeleteOptions", &messages::DELETE_OPTIONS, &body)?;
        Ok(Self::write(Method::DELETE, target, body.format.media_type(), body.bytes))
    }

    /// Sets the `Accept` header; by default the answer is a whole object in JSON.
    #[must_use]
    pub fn with_accept_header(self, accept: &'a str) -> Self {
        Self { accept, ..self }
    }

    /// Ends the call with the first answer of 503; by default it is repeated as often as the server asks for.
    #[must_use]
    pub fn without_retries_if_unavailable(self) -> Self {
        Self { is_repeated_if_unavailable: false, ..self }
    }

    /// Withholds the write if this process was paused or could not renew its Lease since the decision.
    #[must_use]
    pub fn with_decision_time(self, decision_time: DecisionTime) -> Self {
        Self { decision_time: Some(decision_time), ..self }
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
            is_repeated_if_unavailable: true,
            decision_time: None,
        }
    }
}
