//! Requests to the API server, and the single place where their errors are classified.
//!
//! [`Api`] is a thin layer over `kube::Client`. It adds paths, the field manager, the leadership gate before every write, the
//! client-side rate limit, `Retry-After`, and errors that say whether a write may have happened. Answers are bytes in a
//! format that the caller accepts and decodes.

mod answer;
mod body;
mod call;
mod error;
mod metrics;
mod stream;
mod throttle;

use std::{fmt::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, header};
use kube::client::Body;
use serde::Serialize;

pub use crate::object::RequestTarget;
use crate::{
    clock::Clock, gate::WriteGate, history::ServerHistory, meta::ResourceVersion, meta::Uid, object::Resource,
    pace::Pace, succession::WriteLog,
};

use answer::Answer;
pub use body::EncodedBody;
pub use call::Call;
pub use error::{Error, ErrorStatus, StatusCause};
pub use metrics::RequestMetrics;
pub use stream::{WatchFrames, WireFormat};
pub use throttle::Throttle;

/// Timeout of a request other than a watch, after which its outcome is unknown. A server itself ends requests after a minute.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);
/// Maximum number of retries of one request after answers with `Retry-After`. Upstream: client-go `maxRetries`.
const MAX_RETRIES: u32 = 10;
/// Upper limit of the wait that a server asks for with `Retry-After`. API servers ask for seconds. A broken server that asks
/// for a day must not stop a worker for a day. Upstream waits as long as the server asks for.
pub const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);
/// Size limit in bytes of an answer that is not a list. API servers limit an object to a few MB.
const MAX_ANSWER: usize = 32 << 20;
/// Size limit in bytes of a list, or of one page of a list; room for some 100,000 Pods.
const MAX_LIST: usize = 1 << 30;
/// Field manager of all writes. It has upstream's name, so a hand-over adds no second owner of a field to `managedFields`.
pub const FIELD_MANAGER: &str = "kube-controller-manager";

/// Method, status code and size of one attempt of a request. Each retry is another attempt.
#[derive(Clone, Copy, Debug)]
pub struct AttemptMeasurement<'a> {
    /// HTTP method, such as `GET`.
    pub method: &'a str,
    /// HTTP status code; `None` without a response.
    pub status_code: Option<u16>,
    /// Size of the request body in bytes.
    pub sent_bytes: usize,
    /// Index of the attempt: 0 for the first attempt, one more for each retry.
    pub attempt_index: u32,
    /// Whether the request opened a watch.
    pub is_watch: bool,
}

/// Receives the measurements of requests and attempts, for metrics.
pub trait RequestCallbacks: Send + Sync {
    /// Called at the end of each attempt of a request, and when a watch has been opened or refused.
    fn attempt_finished(&self, measurement: AttemptMeasurement<'_>);
    /// Called at the end of each request other than a watch. `took` includes all waits and attempts. `received` is the size of
    /// the last answer in bytes; `None` without an answer.
    fn request_finished(&self, _method: &str, _took: Duration, _received: Option<usize>) {}
    /// Called before each attempt under a client-side rate limit, with the time that the attempt waited for the limit.
    fn attempt_throttled(&self, _method: &str, _waited: Duration) {}
}

impl RequestCallbacks for () {
    fn attempt_finished(&self, _measurement: AttemptMeasurement<'_>) {}
}

/// Format of a patch, which the `Content-Type` header of the request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchFormat {
    /// JSON merge patch, RFC 7386.
    Merge,
    /// Strategic merge patch of Kubernetes, for built-in kinds only.
    Strategic,
}

impl PatchFormat {
    fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

/// Preconditions and options in the body of a DELETE request; none by default.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// UID precondition: the server answers 409 if the object has another UID.
    pub uid: Option<Uid>,
    /// Version precondition: the server answers 409 if the object has another `resourceVersion`.
    pub version: Option<ResourceVersion>,
    /// `propagationPolicy`: `Background`, `Foreground` or `Orphan`; `None` for the server's default.
    pub propagation_policy: Option<&'static str>,
    /// `gracePeriodSeconds`; `None` for the grace period of the object.
    pub grace_period_seconds: Option<i64>,
}

/// The part of the answer to a write that identifies the written object.
#[derive(Clone, Debug, Default, serde::Deserialize)]
pub struct WrittenObject {
    /// `metadata` after the write, with the new `resourceVersion`.
    #[serde(default)]
    pub metadata: crate::meta::Meta,
}

/// A client of the API server for one controller. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    client: kube::Client,
    clock: Clock,
    gate: WriteGate,
    user_agent: String,
    throttle: Option<Throttle>,
    observer: Arc<dyn RequestCallbacks>,
    writes: WriteLog,
    pace: Pace,
    preferred: WireFormat,
    history: ServerHistory,
}

impl Api {
    /// Creates a client that writes only while `gate` is open.
    pub fn new(client: kube::Client, clock: Clock, gate: WriteGate, user_agent: &str) -> Self {
        let inner = Inner {
            client,
            clock,
            gate,
            user_agent: user_agent.to_owned(),
            throttle: None,
            observer: Arc::new(()),
            writes: WriteLog::default(),
            pace: Pace::default(),
            preferred: WireFormat::Protobuf,
            history: ServerHistory::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Sets the client-side rate limit; `None` for no limit.
    #[must_use]
    pub fn with_throttle(self, throttle: Option<Throttle>) -> Self {
        self.with(|inner| inner.throttle = throttle)
    }

    /// Sets the observer that measures all requests. By default, requests are not measured.
    #[must_use]
    pub fn with_request_callbacks(self, callbacks: Arc<dyn RequestCallbacks>) -> Self {
        self.with(|inner| inner.observer = callbacks)
    }

    /// Sets the shared record of writes, to which each write of this client is added.
    #[must_use]
    pub fn with_write_log(self, writes: WriteLog) -> Self {
        self.with(|inner| inner.writes = writes)
    }

    /// Sets the rule by which the idle process sleeps between events. The process stays awake while a request is in flight.
    #[must_use]
    pub fn with_pace(self, pace: Pace) -> Self {
        self.with(|inner| inner.pace = pace)
    }

    /// Sets the format that informers request, and that writes send, for kinds that support that format.
    #[must_use]
    pub fn with_preferred_format(self, format: WireFormat) -> Self {
        self.with(|inner| inner.preferred = format)
    }

    /// Sets the process-wide reports about lost changes of the server.
    #[must_use]
    pub fn with_history(self, history: ServerHistory) -> Self {
        self.with(|inner| inner.history = history)
    }

    /// Replaces the gate that all writes pass.
    #[must_use]
    pub fn with_gate(self, gate: WriteGate) -> Self {
        self.with(|inner| inner.gate = gate)
    }

    /// Replaces the `User-Agent` header of all requests.
    #[must_use]
    pub fn with_user_agent(self, user_agent: &str) -> Self {
        self.with(|inner| user_agent.clone_into(&mut inner.user_agent))
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.inner));
        self
    }

    /// Returns the clock for waits and measurements.
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// Returns the gate that all writes pass.
    pub fn gate(&self) -> &WriteGate {
        &self.inner.gate
    }

    /// Returns the format that informers request, and that writes send, for kinds that support that format.
    pub fn preferred_format(&self) -> WireFormat {
        self.inner.preferred
    }

    /// Returns the reports about lost changes of the server.
    pub fn history(&self) -> &ServerHistory {
        &self.inner.history
    }

    /// Returns the rule by which the idle process sleeps between events, except while a request is in flight.
    pub fn pace(&self) -> &Pace {
        &self.inner.pace
    }

    /// Reads one object from the server, as JSON.
    pub async fn get(&self, target: RequestTarget<'_>) -> Result<Bytes, Error> {
        self.read_path(&target.path(), "application/json").await
    }

    /// Reads any path. `accept` is the `Accept` header.
    pub async fn read_path(&self, path: &str, accept: &str) -> Result<Bytes, Error> {
        self.call(Call::get(path.to_owned(), accept)).await
    }

    /// Reads a collection, as JSON. `query` must be encoded already.
    pub async fn list(&self, resource: &Resource, namespace: &str, query: &str) -> Result<Bytes, Error> {
        self.call(Call::list(resource, namespace, query, "application/json")).await
    }

    /// Opens a watch. `query` must be encoded already and contain `watch=true`. Each frame of the stream is one event.
    ///
    /// Neither the rate limit nor a timeout applies to watches.
    pub async fn watch(
        &self,
        resource: &Resource,
        namespace: &str,
        query: &str,
        accept: &str,
    ) -> Result<WatchFrames, Error> {
        let path = with_query(resource.path(namespace, "", ""), query);
        let request = self.request(&Method::GET, &path, accept, None)?;
        let opening = self.inner.pace.begin_work();
        let answer = self.inner.client.send(request).await;
        drop(opening);
        let code = answer.as_ref().ok().map(|r| r.status().as_u16());
        self.inner.observer.attempt_finished(AttemptMeasurement {
            method: "GET",
            status_code: code,
            sent_bytes: 0,
            attempt_index: 0,
            is_watch: true,
        });
        let response = answer.map_err(Error::from_transport)?;
        if response.status().is_success() {
            return WatchFrames::new(response);
        }
        let refused = Answer::read_response(response, MAX_ANSWER).await?.into_result();
        Err(refused.err().unwrap_or_else(|| Error::OutcomeUnknown("watch: unexpected answer".to_owned())))
    }

    /// Creates an object from `body`, which is sent as JSON.
    pub async fn create<B: Serialize + ?Sized>(&self, target: RequestTarget<'_>, body: &B) -> Result<Bytes, Error> {
        self.call(Call::create(target, EncodedBody::json(body)?)).await
    }

    /// Replaces an object by `body`, which is sent as JSON. Its `resourceVersion` is the precondition.
    pub async fn replace<B: Serialize + ?Sized>(&self, target: RequestTarget<'_>, body: &B) -> Result<Bytes, Error> {
        self.call(Call::replace(target, EncodedBody::json(body)?)).await
    }

    /// Patches an object with `body`, in the format `format`.
    pub async fn patch<B: Serialize + ?Sized>(
        &self,
        target: RequestTarget<'_>,
        format: PatchFormat,
        body: &B,
    ) -> Result<Bytes, Error> {
        self.call(Call::patch(target, format, EncodedBody::json(body)?.bytes)).await
    }

    /// Deletes an object under the preconditions in `options`.
    pub async fn delete(&self, target: RequestTarget<'_>, options: &DeleteOptions) -> Result<Bytes, Error> {
        self.call(Call::delete(target, options, self.inner.preferred)?).await
    }

    /// Sends a request, retries it as often as the server asks for, and records the write.
    ///
    /// The wait before a retry also ends if the process shuts down; the wait of a write ends if the process loses the Lease,
    /// too. The result is then the server's last error. The Lease is released only after all waits for retries have ended.
    pub async fn call(&self, call: Call<'_>) -> Result<Bytes, Error> {
        self.call_with_format(call).await.map(|(_, body)| body)
    }

    /// Sends a call, as [`Api::call`] does, and returns the format of the answer with its body.
    pub async fn call_with_format(&self, call: Call<'_>) -> Result<(WireFormat, Bytes), Error> {
        let _awaited = self.inner.pace.begin_work();
        let started = self.inner.clock.monotonic_now();
        let mut received;
        let mut attempt = 0;
        let result = loop {
            let answer = self.attempt(&call, attempt).await;
            received = answer.as_ref().ok().map(|answer| answer.body.len());
            let error = match answer.and_then(Answer::into_result) {
                Ok(answered) => break Ok(answered),
                Err(error) => error,
            };
            let is_repeated = attempt < MAX_RETRIES && (call.is_repeated_if_unavailable || !error.is_unavailable());
            let Some(wait) = error.retry_after().filter(|_| is_repeated) else { break Err(error) };
            attempt += 1;
            if !self.wait(wait, call.write_target.is_some()).await {
                break Err(error);
            }
        };
        let now = self.inner.clock.monotonic_now();
        // A write that the closed gate stopped was never sent, so it is not measured.
        if !matches!(result, Err(Error::Withheld(_))) {
            self.inner.observer.request_finished(call.method.as_str(), now - started, received);
        }
        match (call.write_target, &result) {
            (Some(target), Ok((_, object))) => self.inner.writes.record_write_answer(target, object, now),
            (Some(_), Err(error)) if error.write_may_have_taken_effect() => {
                self.inner.writes.record_lost_write_answer(now);
            }
            _ => {}
        }
        result
    }

    /// Waits, and returns whether the full time has passed. The wait ends before that at the shutdown; the wait of a write also
    /// ends if the Lease is lost.
    async fn wait(&self, duration: Duration, writes: bool) -> bool {
        let gate = &self.inner.gate;
        tokio::select! {
            biased;
            () = gate.wait_until_waits_must_end() => false,
            () = gate.wait_until_leadership_ends(), if writes => false,
            () = self.inner.clock.sleep(duration) => true,
        }
    }

    async fn attempt(&self, call: &Call<'_>, attempt: u32) -> Result<Answer, Error> {
        let inner = &*self.inner;
        let writes = call.write_target.is_some();
        if let Some(throttle) = &inner.throttle {
            let wait = throttle.reserve_token(inner.clock.monotonic_now());
            if !wait.is_zero() && !self.wait(wait, writes).await {
                return Err(Error::Unsent("shutting down: the request did not wait for the rate limit".to_owned()));
            }
            inner.observer.attempt_throttled(call.method.as_str(), wait);
        }
        let sent = call.body.as_ref().map_or(0, |(_, body)| body.len());
        let request = self.request(&call.method, &call.path, call.accept, call.body.clone())?;
        // The gate is checked immediately before the request is sent, because only the leader may write.
        let permit = if writes { Some(inner.gate.wait_for_permission(call.decision_time).await?) } else { None };
        let in_flight = inner.pace.begin_request();
        let exchange = async {
            let response = inner.client.send(request).await.map_err(Error::from_transport)?;
            let code = response.status().as_u16();
            Ok((code, Answer::read_response(response, call.max_answer_bytes).await))
        };
        let answer = tokio::select! {
            biased;
            () = inner.gate.wait_until_closed(), if writes => return Err(Error::OutcomeUnknown("leadership was lost while the request was in flight".to_owned())),
            answer = tokio::time::timeout(REQUEST_TIMEOUT, exchange) => answer
                .unwrap_or_else(|_| Err(Error::OutcomeUnknown(format!("no answer within {}s", REQUEST_TIMEOUT.as_secs())))),
        };
        inner.observer.attempt_finished(AttemptMeasurement {
            method: call.method.as_str(),
            status_code: answer.as_ref().ok().map(|(code, _)| *code),
            sent_bytes: sent,
            attempt_index: attempt,
            is_watch: false,
        });
        drop((in_flight, permit));
        answer.and_then(|(_, read)| read)
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        accept: &str,
        body: Option<(&'static str, Bytes)>,
    ) -> Result<Request<Body>, Error> {
        let mut request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(header::ACCEPT, accept)
            .header(header::USER_AGENT, &self.inner.user_agent);
        let body = match body {
            Some((content_type, bytes)) => {
                request = request.header(header::CONTENT_TYPE, content_type);
                Body::from(bytes)
            }
            None => Body::empty(),
        };
        request.body(body).map_err(|e| Error::Unsent(format!("bad request {method} {path}: {e}")))
    }
}

/// Percent-encodes a query value.
pub fn percent_encode(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            // A write into a `String` cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

fn with_query(path: String, query: &str) -> String {
    if query.is_empty() { path } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests;
