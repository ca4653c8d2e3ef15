//! HTTP connections to one server.
//!
//! Over TLS, one HTTP/2 connection carries all requests and a second connection carries all watches, so that a slow reader of a
//! watch does not delay requests, and a burst of writes does not delay watches. The first request opens its connection, and
//! other requests wait for that. A request not sent because its connection was closing uses the next connection.
//! If the server does not support HTTP/2, a pool of HTTP/1.1 connections is used.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{Request, Response, Uri};
use hyper::{body::Incoming, client::conn::http2};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{
        self,
        connect::{HttpConnector, proxy::Tunnel},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use kube::{
    Config,
    client::{Body, ConfigExt as _},
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{io::BufReader, net::TcpStream, sync::Semaphore};
use tower::{BoxError, ServiceExt as _, util::BoxCloneSyncService};

use super::Error;

/// Timeout for the TCP connection. Upstream: `net.Dialer{Timeout: 30s}`.
const CONNECT: Duration = Duration::from_secs(30);
/// Timeout for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Interval between TCP keep-alive probes, and time after which a connection with unacknowledged bytes is closed.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Time without received data after which an HTTP/2 connection is pinged. Upstream: `HTTP2_READ_IDLE_TIMEOUT_SECONDS`.
const PING_AFTER: Duration = Duration::from_secs(30);
/// Timeout for the answer to a ping. Upstream: `HTTP2_PING_TIMEOUT_SECONDS`.
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Ping times of the connections for leader election. The ping timeout is at least the timeout of a request.
const URGENT_PING_AFTER: Duration = Duration::from_secs(3);
const URGENT_PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Flow-control windows in bytes: the data that the server may send unread on one stream, and on the whole connection.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 512 << 20;
/// Size in bytes of one read from a socket. Without a buffer of this size, TLS needs four reads for each record.
const READ_BUFFER: usize = 64 << 10;
/// Maximum number of concurrent HTTP/1.1 requests, and of idle connections that are kept. Watches are not limited.
const HTTP1_REQUESTS: usize = 100;

/// Service that opens TCP connections, directly or through a proxy.
type Dialer = BoxCloneSyncService<Uri, TokioIo<TcpStream>, BoxError>;
type Http1 = legacy::Client<HttpsConnector<Dialer>, Body>;

/// All connections to one server: two over HTTP/2, and the pool for HTTP/1.1.
pub(super) struct ServerConnections {
    server: Uri,
    dial: Dialer,
    tls: Option<Tls>,
    requests: ConnectionSlot,
    watches: ConnectionSlot,
    /// Whether HTTP/1.1 is used, because the server does not support HTTP/2 or because HTTP/2 is disabled.
    old: AtomicBool,
    http1: Http1,
    http1_requests: Semaphore,
    patience: PingLimits,
}

struct Tls {
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    /// Configuration with the files of the client certificate, which each connection reads again; `None` without such files.
    reread: Option<Config>,
}

impl Tls {
    fn new(config: &Config) -> Result<Self, Error> {
        let host = config.cluster_url.host().unwrap_or_default();
        let name = config.tls_server_name.as_deref().unwrap_or(host.trim_matches(['[', ']'])).to_owned();
        let name = ServerName::try_from(name).map_err(|e| Error::new("cannot use the server's name", &e))?;
        let in_files = config.auth_info.client_certificate.is_some() || config.auth_info.client_key.is_some();
        let reread = in_files.then(|| config.clone());
        Ok(Self { name, config: client_config(config)?, reread })
    }

    fn config(&self) -> Arc<ClientConfig> {
        // If a file is damaged or is just being replaced, the TLS configuration from the start is used.
        self.reread.as_ref().and_then(|config| client_config(config).ok()).unwrap_or_else(|| Arc::clone(&self.config))
    }
}

fn client_config(config: &Config) -> Result<Arc<ClientConfig>, Error> {
    let mut tls = config.rustls_client_config().map_err(|e| Error::new("cannot set up TLS", &e))?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(tls))
}

/// Slot for one HTTP/2 connection, which is made on demand.
#[derive(Default)]
struct ConnectionSlot {
    current: parking_lot::Mutex<Option<http2::SendRequest<Body>>>,
    making: tokio::sync::Mutex<()>,
}

impl ConnectionSlot {
    fn usable(&self) -> Option<http2::SendRequest<Body>> {
        let mut current = self.current.lock();
        if current.as_ref().is_some_and(http2::SendRequest::is_closed) {
            *current = None;
        }
        current.clone()
    }
}

/// Times after which an HTTP/2 connection without received data is pinged, and then counts as dead.
#[derive(Clone, Copy, Debug)]
pub(super) struct PingLimits {
    /// Time without received data after which the connection is pinged.
    ping_after: Duration,
    /// Timeout for the answer to a ping.
    ping_timeout: Duration,
    /// Whether a cancelled request discards its connection, so that the next request uses a new connection.
    leaves: bool,
}

impl PingLimits {
    pub(super) fn default_limits() -> Self {
        Self {
            ping_after: duration_from_env("HTTP2_READ_IDLE_TIMEOUT_SECONDS", PING_AFTER),
            ping_timeout: duration_from_env("HTTP2_PING_TIMEOUT_SECONDS", PING_TIMEOUT),
            leaves: false,
        }
    }

    /// Returns the ping times for requests with the timeout `request`. The ping timeout is at least as long, because a busy
    /// machine that does not answer a ping may still answer the request.
    pub(super) fn leader_election_limits(request: Duration) -> Self {
        Self { ping_after: URGENT_PING_AFTER, ping_timeout: URGENT_PING_TIMEOUT.max(request), leaves: true }
    }
}

/// Guard that discards the connection in a slot on drop; `None` to keep the connection.
struct DiscardOnDrop<'a>(Option<&'a ConnectionSlot>);

impl Drop for DiscardOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(lane) = self.0 {
            *lane.current.lock() = None;
        }
    }
}

fn duration_from_env(variable: &str, default: Duration) -> Duration {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).map_or(default, Duration::from_secs)
}

impl ServerConnections {
    pub(super) fn new(config: &Config, limits: PingLimits) -> Result<Self, Error> {
        let dial = build_dialer(config)?;
        let secure = config.cluster_url.scheme_str() != Some("http");
        let tls = if secure { Some(Tls::new(config)?) } else { None };
        let connector = config
            .rustls_https_connector_with_connector(dial.clone())
            .map_err(|e| Error::new("cannot set up TLS", &e))?;
        let http1 = legacy::Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(HTTP1_REQUESTS)
            .pool_timer(TokioTimer::new())
            .build(connector);
        let disabled = std::env::var_os("DISABLE_HTTP2").is_some_and(|v| !v.is_empty());
        Ok(Self {
            server: config.cluster_url.clone(),
            dial,
            tls,
            requests: ConnectionSlot::default(),
            watches: ConnectionSlot::default(),
            old: AtomicBool::new(!secure || disabled),
            http1,
            http1_requests: Semaphore::new(HTTP1_REQUESTS),
            patience: limits,
        })
    }

    /// Sends a request, over HTTP/2 if the server supports it.
    pub(super) async fn send(self: Arc<Self>, mut request: Request<Body>) -> Result<Response<Incoming>, BoxError> {
        let watch = request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "watch=true"));
        if let Some(tls) = &self.tls {
            let lane = if watch { &self.watches } else { &self.requests };
            // The second attempt is only for a request that was not sent because its connection was closing.
            for last in [false, true] {
                if self.old.load(Ordering::Relaxed) {
                    break;
                }
                let Some(mut connection) = self.connection(lane, tls).await? else { break };
                let mut leaving = DiscardOnDrop(self.patience.leaves.then_some(lane));
                let answer = connection.try_send_request(request).await;
                leaving.0 = None;
                let mut failure = match answer {
                    Ok(response) => return Ok(response),
                    Err(failure) => failure,
                };
                request = match (failure.take_message(), failure.into_error()) {
                    (None, error) => return Err(error.into()),
                    (Some(_), error) if last => {
                        return Err(Error::new(format!("connections to {} close at once", self.server), &error).into());
                    }
                    (Some(request), _) => request,
                };
                *lane.current.lock() = None;
            }
        }
        let _permit = if watch { None } else { Some(self.http1_requests.acquire().await?) };
        Ok(self.http1.request(request).await?)
    }

    /// Returns the connection in the slot `slot`, and opens it if necessary; `None` if the server does not support HTTP/2.
    async fn connection(&self, slot: &ConnectionSlot, tls: &Tls) -> Result<Option<http2::SendRequest<Body>>, Error> {
        if let Some(usable) = slot.usable() {
            return Ok(Some(usable));
        }
        let _making = slot.making.lock().await;
        if let Some(made) = slot.usable() {
            return Ok(Some(made));
        }
        if self.old.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let made = self.connect(tls).await?;
        slot.current.lock().clone_from(&made);
        self.old.fetch_or(made.is_none(), Ordering::Relaxed);
        Ok(made)
    }

    async fn connect(&self, tls: &Tls) -> Result<Option<http2::SendRequest<Body>>, Error> {
        let server = &self.server;
        let host = server.authority().map(ToString::to_string).unwrap_or_default();
        let tcp = self.dial.clone().oneshot(server.clone()).await;
        let tcp = tcp.map_err(|e| Error::new(format!("cannot connect to {host}"), &*e))?.into_inner();
        let handshake = tokio_rustls::TlsConnector::from(tls.config())
            .connect(tls.name.clone(), BufReader::with_capacity(READ_BUFFER, tcp));
        let stream = match tokio::time::timeout(HANDSHAKE, handshake).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(e)) => return Err(Error::new(format!("TLS handshake with {host} failed"), &e)),
            Err(e) => return Err(Error::new(format!("no TLS with {host} within {}s", HANDSHAKE.as_secs()), &e)),
        };
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Ok(None);
        }
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            // This stream limit applies until the server announces its own limit, beyond which it refuses streams.
            .initial_max_send_streams(1)
            .max_concurrent_reset_streams(1024)
            .keep_alive_interval(self.patience.ping_after)
            .keep_alive_timeout(self.patience.ping_timeout)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|e| Error::new(format!("HTTP/2 handshake with {host} failed"), &e))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(v = 2, err = %error, "A connection to the API server ended");
            }
        });
        Ok(Some(sender))
    }
}

/// Returns the service that opens TCP connections, through the proxy of `config` if there is one.
fn build_dialer(config: &Config) -> Result<Dialer, Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_keepalive(Some(KEEP_ALIVE));
    tcp.set_keepalive_interval(Some(KEEP_ALIVE));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(KEEP_ALIVE));
    let Some(proxy) = &config.proxy_url else {
        return Ok(BoxCloneSyncService::new(tcp.map_err(BoxError::from)));
    };
    if proxy.scheme_str() != Some("http") {
        // The message omits the rest of the URL, which may contain credentials.
        let (scheme, host) = (proxy.scheme_str().unwrap_or("no"), proxy.host().unwrap_or("no host"));
        return Err(Error(format!("cannot use a {scheme} proxy ({host}): only http:// proxies are supported")));
    }
    let mut tunnel = Tunnel::new(proxy.clone(), tcp);
    if let Some((credentials, _)) = proxy.authority().and_then(|a| a.as_str().split_once('@')) {
        use base64::Engine as _;
        let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(credentials));
        if let Ok(header) = basic.parse() {
            tunnel = tunnel.with_auth(header);
        }
    }
    Ok(BoxCloneSyncService::new(tunnel.map_err(BoxError::from)))
}

#[cfg(test)]
mod tests;
