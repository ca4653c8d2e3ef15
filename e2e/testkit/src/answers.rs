//! Answers that differ from those of the API server: refusals, and lies of a faulty server.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use sandbox::{ConnectionCut, ResponseBody, Sandbox};
use serde_json::{Value, json};
use tower::Service as _;

use crate::CONTROLLER;

/// A request of the loops.
pub type LoopRequest = Request<Bytes>;

/// An answer that the loops receive.
pub type Answer = Response<ResponseBody>;

/// A function that receives each request of the loops before the API server does, and may answer it.
pub type RequestFilter = Arc<dyn Fn(&LoopRequest) -> Option<Answer> + Send + Sync>;

/// A text in an answer of the API server, and the text that the loops receive instead.
pub type Lie = (&'static str, &'static str);

/// Builds an answer with this HTTP code and a `Status` as its body.
pub fn refusal(code: u16, reason: &str, message: &str, causes: &Value) -> Answer {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "details": {"causes": causes}, "code": code});
    answer(code, &body)
}

/// Builds an answer with this HTTP code and body.
pub fn answer(code: u16, body: &Value) -> Answer {
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never: Infallible| match never {}).boxed_unsync();
    Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

/// A filter that answers requests of one kind with 403 `Forbidden` until [`Refuser::allow`], and counts them.
#[derive(Clone)]
pub struct Refuser {
    refuses: Arc<AtomicBool>,
    attempts: Arc<AtomicU64>,
    plural: &'static str,
    message: Arc<dyn Fn(u64) -> String + Send + Sync>,
    causes: Value,
}

impl Refuser {
    /// Refuses creations of a resource. The message depends on the number of earlier attempts.
    pub fn new(plural: &'static str, message: impl Fn(u64) -> String + Send + Sync + 'static) -> Self {
        let (refuses, attempts) = (Arc::new(AtomicBool::new(true)), Arc::default());
        Self { refuses, attempts, plural, message: Arc::new(message), causes: json!([]) }
    }

    /// Refuses creations of a resource as an API server does in a terminating namespace.
    pub fn terminating_namespace(plural: &'static str) -> Self {
        let causes = json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace",
            "message": "namespace shop is being terminated"}]);
        let refuser = Self::new(plural, |_| "forbidden: namespace shop is being terminated".to_owned());
        Self { causes, ..refuser }
    }

    /// Returns the filter for [`crate::Cluster::filter`].
    pub fn filter(&self) -> RequestFilter {
        let this = self.clone();
        Arc::new(move |request| {
            let creates =
                request.method() == Method::POST && request.uri().path().rsplit('/').next() == Some(this.plural);
            if !creates || !this.refuses.load(Ordering::Relaxed) {
                return None;
            }
            let attempt = this.attempts.fetch_add(1, Ordering::Relaxed);
            Some(refusal(403, "Forbidden", &(this.message)(attempt), &this.causes))
        })
    }

    /// Lets requests pass from now on.
    pub fn allow(&self) {
        self.refuses.store(false, Ordering::Relaxed);
    }

    /// Returns the number of refused requests so far.
    pub fn attempts(&self) -> u64 {
        self.attempts.load(Ordering::Relaxed)
    }
}

/// Returns a client of the loops under test whose requests and answers pass through the filter and the lies. Bit `n` of `told` is
/// set when lie `n` changes an answer.
pub fn client(
    sandbox: &Sandbox,
    filter: Option<RequestFilter>,
    lies: &'static [Lie],
    told: Arc<AtomicU64>,
) -> kube::Client {
    if filter.is_none() && lies.is_empty() {
        return sandbox.client(CONTROLLER);
    }
    let inner = sandbox.service(CONTROLLER);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (filter, mut inner, told) = (filter.clone(), inner.clone(), Arc::clone(&told));
        async move {
            let (parts, body) = request.into_parts();
            let mut request = Request::from_parts(parts, body.collect().await.map_err(|_| ConnectionCut)?.to_bytes());
            // A server that lies knows no protobuf.
            if let Some(object) = sandbox::protobuf::parse(request.body()).ok().filter(|_| !lies.is_empty()) {
                *request.body_mut() = object.to_string().into();
                request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
            if let Some(answer) = filter.and_then(|filter| filter(&request)) {
                return Ok(answer);
            }
            if lies.is_empty() {
                return inner.call(request.map(Full::new)).await;
            }
            let answer = inner.call(request.map(Full::new)).await?;
            Ok(answer.map(|body| {
                let lie = move |data: Bytes| {
                    let mut text = String::from_utf8_lossy(&data).into_owned();
                    for (at, (is, said)) in lies.iter().enumerate() {
                        told.fetch_or(u64::from(text.contains(is)) << at, Ordering::Relaxed);
                        text = text.replace(is, said);
                    }
                    Bytes::from(text)
                };
                body.map_frame(move |frame| frame.map_data(&lie)).boxed_unsync()
            }))
        }
    });
    kube::Client::new(service, "default")
}
