//! An API server that refuses some writes for ever, and counts what is sent to it.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use sandbox::{ConnectionCut, InProcess, ResponseBody, Sandbox};
use serde_json::{Value, json};

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Status,
    Delete,
}

/// The writes that are refused in one place: a namespace, or a node.
pub(crate) struct Ban {
    pub(crate) operation: Operation,
    pub(crate) resource: String,
    pub(crate) refusal: &'static Refusal,
}

/// A kind of refusal.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) name: &'static str,
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    /// The message; `{}` stands for the object.
    message: &'static str,
    /// The cause: its reason and its field.
    cause: Option<(&'static str, &'static str)>,
    retry_after: Option<u64>,
}

/// How long a server that is busy says to wait, in seconds.
pub(crate) const RETRY_AFTER: u64 = 1;

const fn refusal(name: &'static str, code: u16, reason: &'static str, message: &'static str) -> Refusal {
    Refusal { name, code, reason, message, cause: None, retry_after: None }
}

const DENIED: &str = "admission webhook \"policy.example.com\" denied the request: {} breaks rule 7";
const NO_WEBHOOK: &str =
    "Internal error occurred: failed calling webhook \"policy.example.com\": context deadline exceeded";
const EXCEEDED: &str = "{} is forbidden: exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3";
const NO_CREATES: &str = "{} is forbidden: unable to create new content in namespace because it is being terminated";
const LATER: &str = "the server has received too many requests and has asked us to try again later";

/// A namespace that terminates refuses creates, and nothing else.
pub(crate) static TERMINATING: Refusal = Refusal {
    cause: Some(("NamespaceTerminating", "metadata.namespace")),
    ..refusal("terminating", 403, "Forbidden", NO_CREATES)
};

/// A server that is busy and says when to come back.
pub(crate) static BUSY: Refusal =
    Refusal { retry_after: Some(RETRY_AFTER), ..refusal("busy", 429, "TooManyRequests", LATER) };

/// Refusals that every write may meet.
pub(crate) static REFUSALS: [Refusal; 10] = [
    refusal("webhook-403", 403, "Forbidden", DENIED),
    refusal("webhook-400", 400, "BadRequest", DENIED),
    refusal("webhook-away", 500, "InternalError", NO_WEBHOOK),
    refusal("quota", 403, "Forbidden", EXCEEDED),
    Refusal {
        cause: Some(("FieldValueInvalid", "spec.sandbox")),
        ..refusal("invalid", 422, "Invalid", "{} is invalid: spec.sandbox: Invalid value: \"x\": is not served here")
    },
    refusal("rbac", 403, "Forbidden", "{} is forbidden: User \"controller\" has no such right in this namespace"),
    refusal("conflict", 409, "Conflict", "Operation cannot be fulfilled on {}: the object has been modified"),
    refusal("error", 500, "InternalError", "Internal error occurred: etcdserver: request timed out"),
    refusal("unavailable", 503, "ServiceUnavailable", "the server is currently unable to handle the request"),
    refusal("gateway", 504, "Timeout", "Timeout: request did not complete within the allotted timeout"),
];

impl Refusal {
    /// Whether the server denies the write for what it holds, and would again.
    pub(crate) fn is_denial(&self) -> bool {
        matches!(self.code, 400 | 403 | 422) && self.name != TERMINATING.name
    }

    fn answer(&self, object: &str) -> Response<ResponseBody> {
        let mut body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": self.code,
            "reason": self.reason, "message": self.message.replace("{}", object), "details": {}});
        if let Some((reason, field)) = self.cause {
            body["details"]["causes"] = json!([{"reason": reason, "field": field, "message": "refused"}]);
        }
        let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed_unsync();
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(self.code).unwrap();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// What was sent for one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Reads of objects and collections, watches aside.
    pub(crate) reads: u64,
    pub(crate) refused: u64,
    /// Writes like those that the ban refuses, after it was lifted.
    pub(crate) granted: u64,
    /// Other writes, Events aside.
    pub(crate) others: u64,
    /// Writes of Events: one for each time an Event is told.
    pub(crate) events: u64,
}

#[derive(Default)]
struct State {
    bans: BTreeMap<String, Ban>,
    lifted: bool,
    sent: BTreeMap<String, Sent>,
}

/// The server, as one program sees it. Clones share their counters.
#[derive(Clone)]
pub(crate) struct Refusing {
    server: InProcess,
    state: Arc<Mutex<State>>,
}

impl Refusing {
    pub(crate) fn new(sandbox: &Sandbox) -> Self {
        Self { server: sandbox.service("controller"), state: Arc::default() }
    }

    pub(crate) fn ban(&self, place: &str, ban: Ban) {
        self.state.lock().bans.insert(place.to_owned(), ban);
    }

    /// Refuses nothing any more, and counts anew.
    pub(crate) fn lift(&self) {
        let mut state = self.state.lock();
        state.lifted = true;
        state.sent.clear();
    }

    pub(crate) fn sent(&self, place: &str) -> Sent {
        self.state.lock().sent.get(place).copied().unwrap_or_default()
    }

    /// Counts a request; returns the answer if it is refused.
    fn count(&self, method: &Method, path: &str, query: &str, body: &[u8]) -> Option<Response<ResponseBody>> {
        let asked = Asked::of(path)?;
        if query.split('&').any(|part| part == "watch=true") {
            return None;
        }
        let mut state = self.state.lock();
        let State { bans, lifted, sent } = &mut *state;
        let (place, ban) = bans.get_key_value(asked.place)?;
        let sent = sent.entry(place.clone()).or_default();
        let operation = match (method.as_str(), asked.subresource) {
            ("POST", _) => Operation::Create,
            ("DELETE", _) => Operation::Delete,
            ("PUT" | "PATCH", "status") => Operation::Status,
            ("PUT" | "PATCH", _) => Operation::Update,
            _ => {
                sent.reads += 1;
                return None;
            }
        };
        let is_banned = operation == ban.operation && asked.resource == ban.resource;
        match (asked.resource, is_banned, *lifted) {
            ("events", ..) => sent.events += 1,
            (_, false, _) => sent.others += 1,
            (_, true, true) => sent.granted += 1,
            (_, true, false) => {
                sent.refused += 1;
                let name =
                    if operation == Operation::Create { name_in(body, sent.refused) } else { asked.name.to_owned() };
                return Some(ban.refusal.answer(&format!("{} \"{name}\"", asked.resource)));
            }
        }
        None
    }
}

/// The name in a body: of an object whose name the server completes, another one each time, as a real server does.
fn name_in(body: &[u8], number: u64) -> String {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    let name = |field: &str| object["metadata"][field].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
    name("name").unwrap_or_else(|| format!("{}{}", name("generateName").unwrap_or_default(), 10_000 + number))
}

struct Asked<'a> {
    place: &'a str,
    resource: &'a str,
    name: &'a str,
    subresource: &'a str,
}

impl<'a> Asked<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let (["api", _, rest @ ..] | ["apis", _, _, rest @ ..]) = segments.as_slice() else { return None };
        let part = |rest: &[&'a str], at: usize| rest.get(at).copied().unwrap_or_default();
        Some(match rest {
            ["namespaces", "kube-node-lease", "leases", name] => {
                Self { place: name, resource: "leases", name, subresource: "" }
            }
            ["namespaces", place, resource, rest @ ..] => {
                Self { place, resource, name: part(rest, 0), subresource: part(rest, 1) }
            }
            ["nodes", name, rest @ ..] => Self { place: name, resource: "nodes", name, subresource: part(rest, 0) },
            _ => return None,
        })
    }
}

impl<B> tower::Service<Request<B>> for Refusing
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    type Response = Response<ResponseBody>;
    type Error = ConnectionCut;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectionCut>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectionCut>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut this = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| ConnectionCut)?.to_bytes();
            let query = parts.uri.query().unwrap_or_default();
            if let Some(refused) = this.count(&parts.method, parts.uri.path(), query, &body) {
                return Ok(refused);
            }
            this.server.call(Request::from_parts(parts, Full::new(body))).await
        })
    }
}
