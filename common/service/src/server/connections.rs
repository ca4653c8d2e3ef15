//! Accepts and serves connections within [`ConnectionLimits`].
//!
//! Time limits start when a connection is accepted. A client is dropped if it sends nothing before, during or after the TLS
//! handshake, if it sends its first request slowly, or if its connection is idle too long. No behaviour of a client stops
//! the listener from accepting the next connection.

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Extension, Router};
use http::Request;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::oneshot,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use super::{
    admission::{ConnectionId, ConnectionLimits, ConnectionTable, Peer},
    peer, tls,
};
use crate::clock::{Clock, Instant};

/// How long a client may take to answer a ping, or to send the head of its next request.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a client with an HTTP/2 connection gets a ping.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Largest accepted head of a request, in bytes. The head may contain a token of 16 KiB.
const MAX_HEAD_SIZE: usize = 64 << 10;

/// Router, certificates and limits for the connections of one listener.
#[derive(Clone)]
pub(super) struct ListenerParameters {
    pub(super) router: Router,
    /// Current TLS configuration; `None` serves without TLS.
    pub(super) tls: Option<tls::CurrentTlsConfig>,
    /// Concurrent requests on one HTTP/2 connection; `None` serves only HTTP/1.1.
    pub(super) max_streams_per_connection: Option<u32>,
    pub(super) limits: ConnectionLimits,
    pub(super) clock: Clock,
}

/// Handle of a connection. Dropping the handle ends the connection.
type ConnectionHandle = oneshot::Sender<()>;

/// HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
    /// Either version. Without TLS there is no negotiation, and the first bytes show the version.
    Either,
}

/// Entry of one connection in the table of connections, with the time of the last request.
struct ConnectionEntry {
    connections: Arc<Mutex<ConnectionTable<ConnectionHandle>>>,
    peer: Peer,
    id: ConnectionId,
    /// When the last request began or ended.
    last_request: Mutex<Option<Instant>>,
    clock: Clock,
}

impl ConnectionEntry {
    fn request_began(&self) {
        let now = self.clock.monotonic_now();
        *self.last_request.lock() = Some(now);
        self.connections.lock().record_request(self.peer, self.id, now);
    }

    fn request_ended(&self) {
        *self.last_request.lock() = Some(self.clock.monotonic_now());
    }

    /// Waits until the client has sent no request for longer than `limits` allows.
    async fn wait_for_silence(&self, opened: Instant, limits: ConnectionLimits) {
        loop {
            let until = match *self.last_request.lock() {
                None => opened + limits.first_request_timeout,
                Some(last) => last + limits.idle_timeout,
            };
            if self.clock.monotonic_now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        self.connections.lock().remove(self.peer, self.id);
    }
}

/// Accepts and serves connections. Dropping the future ends all connections.
pub(super) async fn accept_connections(listener: TcpListener, parameters: ListenerParameters) {
    let connections = Arc::new(Mutex::new(ConnectionTable::new(parameters.limits)));
    let mut tasks = JoinSet::new();
    loop {
        while tasks.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, address)) => {
                tasks.spawn(admit(&connections, &parameters, stream, address));
            }
            Err(error) => {
                // Most likely the process has no free file descriptor at the moment.
                tracing::error!(err = %error, "Cannot accept a connection");
                parameters.clock.sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Adds a connection to the table, which may end another connection, and returns the future that serves the new connection.
fn admit<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    connections: &Arc<Mutex<ConnectionTable<ConnectionHandle>>>,
    parameters: &ListenerParameters,
    stream: S,
    address: SocketAddr,
) -> impl Future<Output = ()> + Send + use<S> {
    let (keep, evicted) = oneshot::channel();
    let (peer, opened) = (Peer::from_address(address.ip()), parameters.clock.monotonic_now());
    let (id, dropped_connection) = connections.lock().admit(peer, opened, keep);
    if dropped_connection.is_some() {
        tracing::debug!(peer = %address, "Dropped the longest silent connection, because there are too many");
    }
    drop(dropped_connection);
    let entry = ConnectionEntry {
        connections: Arc::clone(connections),
        peer,
        id,
        last_request: Mutex::new(None),
        clock: parameters.clock.clone(),
    };
    let (entry, parameters) = (Arc::new(entry), parameters.clone());
    async move {
        let limits = parameters.limits;
        tokio::select! {
            biased;
            _ = evicted => {}
            () = entry.wait_for_silence(opened, limits) => tracing::debug!(peer = %address, "Dropped a silent connection"),
            () = negotiate(parameters, stream, &entry) => {}
        }
    }
}

/// Performs the TLS handshake, if TLS is on, and serves requests.
async fn negotiate(
    parameters: ListenerParameters,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    entry: &Arc<ConnectionEntry>,
) {
    let router = parameters.router.layer(Extension(entry.peer));
    let Some(tls) = &parameters.tls else {
        let protocol = if parameters.max_streams_per_connection.is_some() { Protocol::Either } else { Protocol::Http1 };
        return serve(stream, router, protocol, parameters.max_streams_per_connection, entry).await;
    };
    let acceptor = TlsAcceptor::from(Arc::clone(&tls.borrow()));
    match acceptor.accept(stream).await {
        Ok(stream) => {
            let session = stream.get_ref().1;
            let certificates = session.peer_certificates().unwrap_or_default();
            // `access::guard_request` reads this extension of each request: the user named by the client certificate.
            let user = certificates.first().and_then(|certificate| peer::user_from_certificate(certificate));
            let h2 = parameters.max_streams_per_connection.is_some() && session.alpn_protocol() == Some(b"h2");
            let protocol = if h2 { Protocol::Http2 } else { Protocol::Http1 };
            serve(stream, router.layer(Extension(user)), protocol, parameters.max_streams_per_connection, entry).await;
        }
        Err(error) => tracing::debug!(err = %error, "TLS handshake failed"),
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    router: Router,
    protocol: Protocol,
    streams: Option<u32>,
    entry: &Arc<ConnectionEntry>,
) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder = match protocol {
        Protocol::Http1 => builder.http1_only(),
        Protocol::Http2 => builder.http2_only(),
        Protocol::Either => builder,
    };
    builder.http1().timer(TokioTimer::new()).header_read_timeout(CLIENT_TIMEOUT).max_buf_size(MAX_HEAD_SIZE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams)
        .max_header_list_size(MAX_HEAD_SIZE as u32)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(CLIENT_TIMEOUT);
    let entry = Arc::clone(entry);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (router, entry) = (router.clone(), Arc::clone(&entry));
        async move {
            entry.request_began();
            let response = router.oneshot(request).await;
            entry.request_ended();
            response
        }
    });
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::trace!(err = %error, "A client's connection ended badly");
    }
}

#[cfg(test)]
mod tests;
