//! The way between one process and the API server: requests take time, are counted, fail, or never arrive.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use serde_json::json;
use tower::Service as _;

use super::{
    hub::{Asked, Fate, Hub, Life, Process},
    perturbation::{Failure, Moment, RETRY_AFTER},
    safeguard::Seam,
};
use sandbox::{ConnectionCut, InProcess, ResponseBody};

/// What a process' `kube::Client` is made of.
#[derive(Clone)]
pub(super) struct Wire {
    server: InProcess,
    process: Arc<Process>,
    hub: Arc<Hub>,
    seam: Option<Arc<Seam>>,
}

impl Wire {
    pub(super) fn new(hub: &Arc<Hub>, process: &Arc<Process>, seam: Option<Arc<Seam>>) -> Self {
        let server = hub.sandbox.service(&process.identity);
        Self { server, process: Arc::clone(process), hub: Arc::clone(hub), seam }
    }

    async fn exchange(mut self, request: Request<Bytes>) -> Result<Response<ResponseBody>, ConnectionCut> {
        let (hub, process) = (Arc::clone(&self.hub), Arc::clone(&self.process));
        process.runs().await;
        let uri = request.uri();
        let asked = Asked {
            method: request.method().clone(),
            path: uri.path().to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
            body: request.body().clone(),
        };
        let request = match &self.seam {
            Some(seam) => match seam.send(&asked, request) {
                Ok(request) => request,
                Err(answer) => return Ok(respond(StatusCode::OK, answer, None)),
            },
            None => request,
        };
        let method = asked.method.as_str().as_bytes();
        hub.digest(&process, &[method, asked.path.as_bytes(), asked.query.as_bytes(), request.body()]);
        let fate = hub.leaves(&process, &asked);
        match &fate {
            Fate::Crash(Moment::Before) => {
                process.set(Life::Dead);
                process.runs().await;
            }
            Fate::Refused(code) => {
                hub.travel().await;
                let (reason, message) = match code {
                    403 => ("Forbidden", DENIED),
                    422 => ("Invalid", DENIED),
                    _ => ("InternalError", "an error on the server"),
                };
                return self.deliver(&asked, refusal(*code, reason, message, None)).await;
            }
            Fate::Fails(failure) => {
                if let Some(answer) = early(*failure) {
                    hub.travel().await;
                    process.runs().await;
                    return match answer {
                        Ok(response) => self.deliver(&asked, response).await,
                        Err(cut) => Err(cut),
                    };
                }
            }
            Fate::Served | Fate::Crash(_) | Fate::Hangs => {}
        }
        hub.travel().await;
        let (parts, body) = request.into_parts();
        let answer = self.server.call(Request::from_parts(parts, Full::new(body))).await?;
        match &fate {
            Fate::Crash(Moment::AfterEffect) => process.set(Life::Dead),
            Fate::Hangs => process.set(Life::Hanging),
            _ => {}
        }
        process.runs().await;
        if asked.is_watch() && answer.status().is_success() {
            hub.travel().await;
            return Ok(self.stream(asked, answer));
        }
        let (parts, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        hub.answered(&process, &asked, parts.status, &body);
        hub.travel().await;
        process.runs().await;
        if fate == Fate::Fails(Failure::CutAfter) {
            return Err(ConnectionCut);
        }
        let mut answer = Response::from_parts(parts, body);
        if fate == Fate::Fails(Failure::After) {
            answer = refusal(500, "InternalError", "the answer was lost", None);
        }
        let delivered = self.deliver(&asked, answer).await;
        if fate == Fate::Crash(Moment::AfterResponse) {
            process.set(Life::Dead);
        }
        delivered
    }

    async fn deliver(&self, asked: &Asked, answer: Response<Bytes>) -> Result<Response<ResponseBody>, ConnectionCut> {
        self.process.runs().await;
        let (parts, body) = answer.into_parts();
        if parts.headers.contains_key(header::RETRY_AFTER) {
            self.process.accounts.is_to_be_repeated(asked);
        }
        let status = parts.status.as_u16().to_be_bytes();
        self.hub.digest(&self.process, &[b"answer", asked.path.as_bytes(), &status, &body]);
        Ok(Response::from_parts(parts, whole(body)))
    }

    /// A watch, each of whose pieces takes its time.
    fn stream(self, asked: Asked, answer: Response<ResponseBody>) -> Response<ResponseBody> {
        let (parts, body) = answer.into_parts();
        let state = Some((self, asked, body));
        let pieces = futures::stream::unfold(state, async |state| {
            let (wire, asked, mut body) = state?;
            let frame = body.frame().await?;
            let data = match frame {
                Ok(frame) => frame.into_data().unwrap_or_default(),
                Err(_) if wire.seam.as_ref().is_some_and(|seam| seam.hides_cuts()) => {
                    wire.hub.server_is_back().await;
                    return None;
                }
                Err(cut) => return Some((Err(cut), None)),
            };
            wire.hub.travel().await;
            wire.process.runs().await;
            wire.hub.digest(&wire.process, &[b"watch", asked.path.as_bytes(), &data]);
            if let Some(seam) = &wire.seam {
                seam.watched(&data);
            }
            Some((Ok(Frame::data(data)), Some((wire, asked, body))))
        });
        Response::from_parts(parts, StreamBody::new(pieces).boxed_unsync())
    }
}

const DENIED: &str = "admission webhook \"policy.example.com\" denied the request: not now";

/// The answer of a failure that happens before anything is done.
fn early(failure: Failure) -> Option<Result<Response<Bytes>, ConnectionCut>> {
    let answer = match failure {
        Failure::Conflict => refusal(409, "Conflict", "the object has been modified", None),
        Failure::TooManyRequests => refusal(429, "TooManyRequests", "too many requests", Some(RETRY_AFTER.as_secs())),
        Failure::Before => refusal(500, "InternalError", "an error on the server", None),
        Failure::Unavailable => refusal(503, "ServiceUnavailable", "not now", None),
        Failure::CutBefore => return Some(Err(ConnectionCut)),
        Failure::After | Failure::CutAfter => return None,
    };
    Some(Ok(answer))
}

fn whole(body: Bytes) -> ResponseBody {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

fn respond(status: StatusCode, body: Bytes, retry_after: Option<u64>) -> Response<ResponseBody> {
    answer(status, body, retry_after).map(whole)
}

fn answer(status: StatusCode, body: Bytes, retry_after: Option<u64>) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn refusal(code: u16, reason: &str, message: &str, retry_after: Option<u64>) -> Response<Bytes> {
    let mut body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code});
    if let Some(seconds) = retry_after {
        body["details"] = json!({"retryAfterSeconds": seconds});
    }
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer(status, Bytes::from(body.to_string()), retry_after)
}

impl<B> tower::Service<Request<B>> for Wire
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
        let wire = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| ConnectionCut)?.to_bytes();
            wire.exchange(Request::from_parts(parts, body)).await
        })
    }
}
