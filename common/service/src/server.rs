//! The HTTP server of a process, for health checks, metrics and diagnostics.
//!
//! | path | content |
//! | --- | --- |
//! | `/healthz`, `/livez` | whether the process is healthy; `?verbose`, `?exclude=<check>` |
//! | `/readyz` | whether the process could lead now (API server reached, caches full); reasons only for permitted callers |
//! | `/metrics`, `/metrics/slis` | Prometheus text, or `OpenMetrics` if the client accepts it; DELETE resets `/metrics/slis` |
//! | `/debug/queue`, `/debug/cache`, `/debug/explain?key=ns/name` | JSON, or plain text with `?format=text` |
//! | `/debug/flags/v` | the log's verbosity; `PUT` changes it |
//!
//! The server listens with TLS and the checks of [`access`], and optionally on a loopback address without TLS and checks.

mod access;
mod admission;
mod connections;
mod debug;
mod health;
mod peer;
mod tls;

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    Extension, Router,
    extract::{self, RawQuery},
    http::{HeaderMap, HeaderValue, header},
    middleware,
    response::{IntoResponse as _, Response},
    routing,
};
use parking_lot::Mutex;
use socket2::SockRef;
use tokio::{
    net::{TcpListener, TcpSocket},
    task::JoinSet,
};

use crate::{clock::Clock, logging, metrics::Metrics, runtime::RunningLoop};

use admission::ConnectionLimits;
use health::FailureReasons;

pub use access::{RequestAuthorizer, ReviewOptions};
pub use health::HealthChecks;
pub use tls::{CertificateFiles, CertificateSource, TlsSettings, supported_cipher_suites_and_key_exchange_groups};

/// Maximum number of concurrent requests on one HTTP/2 connection, unless the settings say otherwise.
const DEFAULT_MAX_STREAMS: u32 = 16;
/// Maximum number of connections that wait to be accepted. Upstream uses Go's default, the maximum of the system.
const ACCEPT_BACKLOG: u32 = 1024;
/// Largest accepted body of a request, in bytes.
const MAX_BODY_SIZE: usize = 4096;

/// Registers the metrics of health checks, which `/metrics/slis` serves, and of rejected requests.
pub fn register_metrics(metrics: &Metrics) {
    HealthChecks::new("healthz", metrics);
    access::rejection_counters(metrics);
}

/// Addresses and TLS of the server.
#[derive(Clone, Debug, Default)]
pub struct ServerSettings {
    /// Address with TLS; `None` serves no TLS.
    pub secure_address: Option<SocketAddr>,
    /// Certificates, versions and algorithms of TLS for `secure_address`.
    pub tls: TlsSettings,
    /// Concurrent requests on one HTTP/2 connection; 16 if `None`.
    pub max_streams_per_connection: Option<u32>,
    /// Whether other processes may listen on the same port (`SO_REUSEPORT`).
    pub is_port_shared: bool,
    /// Loopback address for local use, without TLS and without authentication.
    pub debug_address: Option<SocketAddr>,
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server cannot listen on an address.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// Address from the flags.
        address: SocketAddr,
        /// Error of the system.
        cause: std::io::Error,
    },
    /// A certificate, a key or a file of authorities cannot be used.
    #[error("cannot serve TLS: {0}")]
    Certificate(String),
}

/// State of the HTTP handlers: metrics, checks and loops. Cheap to clone. Checks and loops are added during the start.
#[derive(Clone)]
pub struct ServerState {
    inner: Arc<Inner>,
}

struct Inner {
    metrics: Metrics,
    log: logging::VerbosityHandle,
    live: HealthChecks,
    ready: HealthChecks,
    slis: Metrics,
    loops: Mutex<Vec<(&'static str, Arc<dyn RunningLoop>)>>,
}

impl ServerState {
    /// Returns a state without checks and loops.
    pub fn new(metrics: Metrics, verbosity: logging::VerbosityHandle) -> Self {
        let slis = Metrics::new();
        let inner = Inner {
            metrics,
            log: verbosity,
            live: HealthChecks::new("healthz", &slis),
            ready: HealthChecks::new("readyz", &slis),
            slis,
            loops: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the checks behind `/healthz` and `/livez`.
    pub fn liveness_checks(&self) -> &HealthChecks {
        &self.inner.live
    }

    /// Returns the checks behind `/readyz`.
    pub fn readiness_checks(&self) -> &HealthChecks {
        &self.inner.ready
    }

    /// Adds a control loop to the diagnostics and to the checks. Replaces a loop with the same name.
    pub fn add_loop(&self, name: &'static str, running: &Arc<dyn RunningLoop>) {
        let mut loops = self.inner.loops.lock();
        match loops.iter_mut().find(|(known, _)| *known == name) {
            Some((_, replaced)) => *replaced = Arc::clone(running),
            None => loops.push((name, Arc::clone(running))),
        }
        drop(loops);
        // Upstream has a check for each started controller, which always passes.
        self.inner.live.add_check(name, || Ok(()));
        let weak = Arc::downgrade(running);
        self.inner.ready.add_check(name, move || weak.upgrade().map_or(Ok(()), |running| running.check_ready()));
        let weak = Arc::downgrade(running);
        self.inner.ready.add_remark(name, move || weak.upgrade()?.problems_besides_readiness());
    }

    /// Removes all control loops from the diagnostics.
    pub fn clear_loops(&self) {
        self.inner.loops.lock().clear();
    }

    fn router(&self) -> Router {
        let live = |extract::State(state): extract::State<Self>, RawQuery(query): RawQuery| async move {
            state.inner.live.answer_request(query.as_deref(), FailureReasons::Withheld)
        };
        let ready = |extract::State(state): extract::State<Self>,
                     reasons: Option<Extension<FailureReasons>>,
                     RawQuery(query): RawQuery| async move {
            // `access::guard_request` sets this extension. Without the guard, every caller may read everything.
            let reasons = reasons.map_or(FailureReasons::Included, |Extension(reasons)| reasons);
            state.inner.ready.answer_request(query.as_deref(), reasons)
        };
        let metrics = |extract::State(state): extract::State<Self>, headers: HeaderMap| async move {
            metrics_response(&state.inner.metrics, &headers)
        };
        let slis = |extract::State(state): extract::State<Self>, headers: HeaderMap| async move {
            metrics_response(&state.inner.slis, &headers)
        };
        let reset = |extract::State(state): extract::State<Self>| async move {
            state.inner.live.reset_metrics();
            state.inner.ready.reset_metrics();
            "metrics reset\n"
        };
        Router::new()
            .route("/healthz", routing::get(live))
            .route("/livez", routing::get(live))
            .route("/readyz", routing::get(ready))
            .route("/metrics", routing::get(metrics))
            .route("/metrics/slis", routing::get(slis).delete(reset))
            .route("/debug/queue", debug::loop_values_page(|running, _| running.debug_queue()))
            .route("/debug/cache", debug::loop_values_page(|running, _| running.debug_cache()))
            .route("/debug/explain", debug::loop_values_page(|running, key| running.explain(key)))
            .route("/debug/graph", routing::get(debug::graph_page))
            .route("/debug/controllers/{name}/graph", routing::any(debug::graph_page))
            .route("/debug/flags/v", routing::get(debug::get_verbosity).put(debug::set_verbosity))
            .layer(extract::DefaultBodyLimit::max(MAX_BODY_SIZE))
            .layer(middleware::map_response(secure_headers))
            .with_state(self.clone())
    }
}

/// Returns the value of the header `Accept`; empty if the header is missing or not text.
fn accept(headers: &HeaderMap) -> &str {
    headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Renders metrics as `OpenMetrics` if the client accepts this format, otherwise as Prometheus text.
fn metrics_response(metrics: &Metrics, headers: &HeaderMap) -> Response {
    if accept(headers).contains("application/openmetrics-text") {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        return ([(header::CONTENT_TYPE, kind)], metrics.render_openmetrics()).into_response();
    }
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], metrics.render_prometheus()).into_response()
}

async fn secure_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}

/// A running server, which stops when it is dropped.
#[derive(Debug)]
pub struct Server {
    /// Address with TLS, with the port that the system chose for port 0.
    pub secure_address: Option<SocketAddr>,
    /// Address without TLS, with the port that the system chose for port 0.
    pub debug_address: Option<SocketAddr>,
    _tasks: JoinSet<()>,
}

/// Starts the server as tasks of the current tokio runtime. `authorizer` guards the address with TLS; without it, every caller
/// may read everything.
pub fn start_server(
    settings: &ServerSettings,
    state: &ServerState,
    authorizer: Option<RequestAuthorizer>,
    clock: &Clock,
) -> Result<Server, Error> {
    let mut tasks = JoinSet::new();
    let plain = connections::ListenerParameters {
        router: state.router(),
        tls: None,
        max_streams_per_connection: Some(DEFAULT_MAX_STREAMS),
        limits: ConnectionLimits::default(),
        clock: clock.clone(),
    };
    let mut secure = None;
    if let Some(address) = settings.secure_address {
        let mut certificates = tls::ReloadingTlsConfig::load(settings.tls.clone())?;
        let (listener, address) = listen(address, settings.is_port_shared)?;
        let mut service = plain.clone();
        if let Some(authorizer) = authorizer {
            service.router = service
                .router
                .layer(middleware::from_fn_with_state(Arc::new(authorizer), access::guard_request))
                .layer(middleware::map_response(secure_headers));
        }
        service.tls = Some(certificates.current_config());
        service.max_streams_per_connection =
            (!settings.tls.is_http1_only).then(|| settings.max_streams_per_connection.unwrap_or(DEFAULT_MAX_STREAMS));
        let clock = clock.clone();
        tasks.spawn(async move { certificates.reload_when_changed(&clock).await });
        tasks.spawn(connections::accept_connections(listener, service));
        tracing::info!(address = %address, "Serving securely");
        secure = Some(address);
    }
    let mut debug = None;
    if let Some(address) = settings.debug_address {
        let (listener, address) = listen(address, false)?;
        tasks.spawn(connections::accept_connections(listener, plain));
        tracing::info!(address = %address, "Serving without TLS for local use");
        debug = Some(address);
    }
    Ok(Server { secure_address: secure, debug_address: debug, _tasks: tasks })
}

/// Opens a listener. As in Go, `0.0.0.0` stands for all addresses of both families: in an IPv6 cluster, the kubelet's probes use an
/// address of IPv6. Where the kernel has no IPv6, it stands for those of IPv4.
fn listen(address: SocketAddr, share_port: bool) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |cause| Error::Listen { address, cause };
    let both_families = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port());
    let socket = if address.ip() == Ipv4Addr::UNSPECIFIED {
        bind(both_families, share_port).or_else(|_| bind(address, share_port))
    } else {
        bind(address, share_port)
    };
    let listener = socket.and_then(|socket| socket.listen(ACCEPT_BACKLOG)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

fn bind(address: SocketAddr, share_port: bool) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        SockRef::from(&socket).set_only_v6(false)?;
    }
    // A port can be used again at once after another process has closed it.
    socket.set_reuseaddr(true)?;
    #[cfg(unix)]
    socket.set_reuseport(share_port)?;
    #[cfg(not(unix))]
    let _ = share_port;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests;
