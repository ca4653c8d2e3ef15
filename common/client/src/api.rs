//! Requests to the API server, and the one place where their errors are classed.
//!
//! [`Api`] is a thin layer over `kube::Client`: paths, field manager, the leadership gate before every write, the client-side
//! rate limit, `Retry-After`, and errors that say whether a write may have happened. Bodies are JSON going out and bytes
//! coming back, in the format that the caller accepts; callers decode what they read of them.

mod answer;
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

pub use crate::object::Target;
use crate::{clock::Clock, gate::Gate, meta::Uid, meta::Version, object::Resource, pace::Pace, succession::Writes};

use answer::Answer;
pub use call::Call;
pub use error::{Cause, Error, Status};
pub use metrics::Requests;
pub use stream::{Format, Frames};
pub use throttle::Throttle;

/// How long a request other than a watch may take before its outcome is given up as unknown. A server ends requests itself
/// after a minute.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);
/// How often a request is sent again because the server said when to. Upstream: client-go `maxRetries`.
const MAX_RETRIES: u32 = 10;
/// The longest wait that a server is granted with `Retry-After`. An API server asks for seconds; one that asks for a day is
/// broken, and must not hold a worker for a day. Upstream waits for whatever is said.
pub const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);
/// The longest answer about one object, and other than a list. An object has at most a few MB in any server.
const MAX_ANSWER: usize = 32 << 20;
/// The longest list, or page of one, that is read at once: some 100,000 Pods.
const MAX_LIST: usize = 1 << 30;
/// The manager of the fields we write: upstream's name, so that a hand-over leaves no second owner of the same fields.
pub const FIELD_MANAGER: &str = "kube-controller-manager";

/// What one attempt of a request is counted as.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// HTTP status, none without a response.
    pub code: Option<u16>,
    /// Bytes sent.
    pub sent: usize,
    /// Which attempt this was, from 0.
    pub attempt: u32,
    /// Whether it opened a watch.
    pub watch: bool,
}

/// Is told of every request and every attempt, for metrics.
pub trait Observer: Send + Sync {
    /// An attempt has ended (a watch: has been opened).
    fn observed(&self, observation: Observation<'_>);
    /// A request other than a watch is over. `took` is all of it, with every wait and every attempt; `received` is the size of
    /// the last answer, if one came.
    fn finished(&self, _method: &str, _took: Duration, _received: Option<usize>) {}
    /// An attempt waited this long for the client-side rate limit.
    fn throttled(&self, _method: &str, _waited: Duration) {}
}

/// Nobody observes.
impl Observer for () {
    fn observed(&self, _observation: Observation<'_>) {}
}

/// The kind of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// RFC 7386.
    Merge,
    /// Kubernetes' strategic merge patch, for built-in kinds.
    Strategic,
}

impl Patch {
    fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

/// Options of a DELETE.
#[derive(Clone, Debug, Default)]
pub struct Delete {
    /// Delete only the object with this uid (409 otherwise).
    pub uid: Option<Uid>,
    /// Delete only this version of the object (409 otherwise).
    pub version: Option<Version>,
    /// `Background`, `Foreground` or `Orphan`; the server's default otherwise.
    pub propagation: Option<&'static str>,
    /// Grace period; the object's own otherwise.
    pub grace_seconds: Option<i64>,
}

/// What a reply to a write tells of the object it left behind.
#[derive(Clone, Debug, Default, serde::Deserialize)]
pub struct Written {
    /// Its metadata.
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
    gate: Gate,
    user_agent: String,
    throttle: Option<Throttle>,
    observer: Arc<dyn Observer>,
    writes: Writes,
    pace: Pace,
    preferred: Format,
}

impl Api {
    /// A client that writes only while `gate` is open.
    pub fn new(client: kube::Client, clock: Clock, gate: Gate, user_agent: &str) -> Self {
        let inner = Inner {
            client,
            clock,
            gate,
            user_agent: user_agent.to_owned(),
            throttle: None,
            observer: Arc::new(()),
            writes: Writes::default(),
            pace: Pace::default(),
            preferred: Format::Protobuf,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The same client with a client-side rate limit.
    #[must_use]
    pub fn with_throttle(self, throttle: Option<Throttle>) -> Self {
        self.with(|inner| inner.throttle = throttle)
    }

    /// The same client, observed.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn Observer>) -> Self {
        self.with(|inner| inner.observer = observer)
    }

    /// The same client; what it writes is noted there.
    #[must_use]
    pub fn with_writes(self, writes: Writes) -> Self {
        self.with(|inner| inner.writes = writes)
    }

    /// The same client in a process of that pace.
    #[must_use]
    pub fn with_pace(self, pace: Pace) -> Self {
        self.with(|inner| inner.pace = pace)
    }

    /// The same client, whose informers ask for that format wherever a kind has it.
    #[must_use]
    pub fn with_preferred_format(self, format: Format) -> Self {
        self.with(|inner| inner.preferred = format)
    }

    /// The same client behind another gate.
    #[must_use]
    pub fn with_gate(self, gate: Gate) -> Self {
        self.with(|inner| inner.gate = gate)
    }

    /// The same client under another user agent.
    #[must_use]
    pub fn with_user_agent(self, user_agent: &str) -> Self {
        self.with(|inner| user_agent.clone_into(&mut inner.user_agent))
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.inner));
        self
    }

    /// The clock this client waits by.
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// The gate this client writes through.
    pub fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    /// The format that informers ask for wherever a kind has it.
    pub fn preferred_format(&self) -> Format {
        self.inner.preferred
    }

    /// The pace of the process.
    pub fn pace(&self) -> &Pace {
        &self.inner.pace
    }

    /// Reads one object, live.
    pub async fn get(&self, target: Target<'_>) -> Result<Bytes, Error> {
        self.read(&target.path(), "application/json").await
    }

    /// Reads any path.
    pub async fn read(&self, path: &str, accept: &str) -> Result<Bytes, Error> {
        self.call(Call::get(path.to_owned(), accept)).await
    }

    /// Reads a collection; `query` is already encoded.
    pub async fn list(&self, resource: Resource, namespace: &str, query: &str) -> Result<Bytes, Error> {
        self.call(Call::list(resource, namespace, query, "application/json")).await
    }

    /// Opens a watch; `query` is already encoded and contains `watch=true`. Each frame of the stream is one event.
    ///
    /// Watches pass the rate limit freely and are never cut by the client.
    pub async fn watch(&self, resource: Resource, namespace: &str, query: &str, accept: &str) -> Result<Frames, Error> {
        let path = with_query(resource.path(namespace, "", ""), query);
        let request = self.request(&Method::GET, &path, accept, None)?;
        let opening = self.inner.pace.work();
        let answer = self.inner.client.send(request).await;
        drop(opening);
        let code = answer.as_ref().ok().map(|r| r.status().as_u16());
        self.inner.observer.observed(Observation { method: "GET", code, sent: 0, attempt: 0, watch: true });
        let response = answer.map_err(Error::transport)?;
        if response.status().is_success() {
            return Frames::new(response);
        }
        let refused = Answer::read(response, MAX_ANSWER).await?.into_result();
        Err(refused.err().unwrap_or_else(|| Error::Lost("watch: unexpected answer".to_owned())))
    }

    /// Creates an object.
    pub async fn create<B: Serialize + ?Sized>(&self, target: Target<'_>, body: &B) -> Result<Bytes, Error> {
        self.call(Call::create(target, encode(body)?)).await
    }

    /// Replaces an object; its `resourceVersion` is the precondition.
    pub async fn replace<B: Serialize + ?Sized>(&self, target: Target<'_>, body: &B) -> Result<Bytes, Error> {
        self.call(Call::replace(target, encode(body)?)).await
    }

    /// Patches an object.
    pub async fn patch<B: Serialize + ?Sized>(
        &self,
        target: Target<'_>,
        kind: Patch,
        body: &B,
    ) -> Result<Bytes, Error> {
        self.call(Call::patch(target, kind, encode(body)?)).await
    }

    /// Deletes an object.
    pub async fn delete(&self, target: Target<'_>, options: &Delete) -> Result<Bytes, Error> {
        self.call(Call::delete(target, options)?).await
    }

    /// Makes a call, again for as long as the server says when to come back, and notes what it wrote.
    ///
    /// A wait ends early, with the server's answer as the error, when the process is told to stop and when a write has lost
    /// its leader: a lease is released only once nobody waits.
    pub async fn call(&self, call: Call<'_>) -> Result<Bytes, Error> {
        self.call_for(call).await.map(|(_, body)| body)
    }

    /// Makes a call, as [`Api::call`] does, and says in which format the answer is.
    pub async fn call_for(&self, call: Call<'_>) -> Result<(Format, Bytes), Error> {
        let _awaited = self.inner.pace.work();
        let started = self.inner.clock.instant();
        let mut received;
        let mut attempt = 0;
        let result = loop {
            let answer = self.attempt(&call, attempt).await;
            received = answer.as_ref().ok().map(|answer| answer.body.len());
            let error = match answer.and_then(Answer::into_result) {
                Ok(answered) => break Ok(answered),
                Err(error) => error,
            };
            let Some(wait) = error.retry_after().filter(|_| attempt < MAX_RETRIES) else { break Err(error) };
            attempt += 1;
            if !self.wait(wait, call.written.is_some()).await {
                break Err(error);
            }
        };
        let now = self.inner.clock.instant();
        // What was never meant to be sent is no request.
        if !matches!(result, Err(Error::NotLeader)) {
            self.inner.observer.finished(call.method.as_str(), now - started, received);
        }
        match (call.written, &result) {
            (Some(target), Ok((_, object))) => self.inner.writes.note(target, object, now),
            (Some(_), Err(error)) if error.may_have_happened() => self.inner.writes.note_lost(now),
            _ => {}
        }
        result
    }

    /// Waits, and says whether that was to the end: not if the process stops, or a write lost its leader.
    async fn wait(&self, duration: Duration, writes: bool) -> bool {
        let gate = &self.inner.gate;
        tokio::select! {
            biased;
            () = gate.draining() => false,
            () = gate.closed(), if writes => false,
            () = self.inner.clock.sleep(duration) => true,
        }
    }

    async fn attempt(&self, call: &Call<'_>, attempt: u32) -> Result<Answer, Error> {
        let inner = &*self.inner;
        let writes = call.written.is_some();
        if let Some(throttle) = &inner.throttle {
            let wait = throttle.reserve(inner.clock.instant());
            if !wait.is_zero() && !self.wait(wait, writes).await {
                return Err(Error::Unsent("the process stops: the request did not wait for the rate limit".to_owned()));
            }
            inner.observer.throttled(call.method.as_str(), wait);
        }
        let sent = call.body.as_ref().map_or(0, |(_, body)| body.len());
        let request = self.request(&call.method, &call.path, call.accept, call.body.clone())?;
        // The last thing before the request leaves: a write by who no longer leads must not be sent.
        if writes && !inner.gate.is_open() {
            return Err(Error::NotLeader);
        }
        let exchange = async {
            let response = inner.client.send(request).await.map_err(Error::transport)?;
            let code = response.status().as_u16();
            Ok((code, Answer::read(response, call.limit).await))
        };
        let answer = tokio::select! {
            biased;
            () = inner.gate.closed(), if writes => return Err(Error::Lost("leadership was lost while the request was on its way".to_owned())),
            answer = tokio::time::timeout(REQUEST_TIMEOUT, exchange) => answer
                .unwrap_or_else(|_| Err(Error::Lost(format!("no answer within {}s", REQUEST_TIMEOUT.as_secs())))),
        };
        inner.observer.observed(Observation {
            method: call.method.as_str(),
            code: answer.as_ref().ok().map(|(code, _)| *code),
            sent,
            attempt,
            watch: false,
        });
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
pub fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            // Writing into a string cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

fn encode<B: Serialize + ?Sized>(body: &B) -> Result<Bytes, Error> {
    serde_json::to_vec(body).map(Bytes::from).map_err(|e| Error::Unsent(format!("cannot encode the request: {e}")))
}

fn with_query(path: String, query: &str) -> String {
    if query.is_empty() { path } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests;
