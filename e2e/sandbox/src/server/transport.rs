//! Bodies and errors of answers, and the in-process transport.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;

use crate::verbs::{core::Core, status::ConnectionCut, watch::Watch};

/// Body of an answer.
pub type ResponseBody = UnsyncBoxBody<Bytes, ConnectionCut>;

pub(crate) fn full(bytes: Bytes) -> ResponseBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// A watch as a body: one frame for each piece.
pub(crate) fn stream(watch: Watch) -> ResponseBody {
    let pieces = futures::stream::unfold(Some(Box::new(watch)), async |watch| {
        let mut watch = watch?;
        match watch.next().await? {
            Ok(piece) => {
                watch.count_bytes(piece.len());
                Some((Ok(Frame::data(piece)), Some(watch)))
            }
            Err(cut) => Some((Err(cut), None)),
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// The server as seen by one client, without a socket in between: what a `kube::Client` is made of.
#[derive(Clone)]
pub struct InProcess {
    core: Arc<Core>,
    identity: Arc<str>,
}

impl InProcess {
    pub(crate) fn new(core: Arc<Core>, identity: &str) -> Self {
        Self { core, identity: identity.into() }
    }
}

impl<B> tower::Service<Request<B>> for InProcess
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
        let (core, identity) = (self.core.clone(), self.identity.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| ConnectionCut)?.to_bytes();
            core.handle(&identity, Request::from_parts(parts, body)).await
        })
    }
}
