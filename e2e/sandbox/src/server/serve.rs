//! The server over TCP: plain or TLS, HTTP/1.1 and HTTP/2, for kubectl and real processes.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    server::{
        certificates::{Authority, CertificateError},
        transport::ResponseBody,
    },
    verbs::{access::ADMIN, core::Core, status::ConnectionCut},
};

/// How long open requests may take to end when the server shuts down.
const LINGER: Duration = Duration::from_millis(200);

/// Whether connections are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// HTTPS with a certificate of the sandbox's own authority.
    On,
    /// HTTP.
    Off,
}

/// Why the sandbox cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// Certificates cannot be made.
    #[error("cannot make certificates: {0}")]
    Certificates(#[from] CertificateError),
}

/// How clients of a served sandbox say who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A bearer token.
    Token,
    /// A client certificate (only with TLS).
    Certificate,
}

/// A sandbox served on a socket, until it is shut down or dropped.
pub struct Server {
    /// The address that is listened on.
    pub addr: SocketAddr,
    core: Arc<Core>,
    authority: Option<Arc<Authority>>,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

/// Listens on `addr`; port 0 takes a free one.
pub(crate) async fn serve(core: Arc<Core>, addr: SocketAddr, tls: Tls) -> Result<Server, ServeError> {
    let listener = TcpListener::bind(addr).await.map_err(|source| ServeError::Listen { addr, source })?;
    let addr = listener.local_addr().map_err(|source| ServeError::Listen { addr, source })?;
    let authority = match tls {
        Tls::On => Some(Arc::new(Authority::new(addr.ip())?)),
        Tls::Off => None,
    };
    let acceptor = match &authority {
        Some(authority) => Some(TlsAcceptor::from(authority.server_config()?)),
        None => None,
    };
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(accept(core.clone(), listener, acceptor, authority.clone(), stopped));
    Ok(Server { addr, core, authority, stop, task })
}

async fn accept(
    core: Arc<Core>,
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    authority: Option<Arc<Authority>>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = stopped.changed() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => {
                let Ok((socket, _)) = accepted else {
                    // Out of descriptors, most likely: give others the time to end.
                    core.clock.sleep(Duration::from_millis(10)).await;
                    continue;
                };
                if core.faults.is_down() {
                    continue;
                }
                drop(socket.set_nodelay(true));
                let (core, acceptor, authority) = (core.clone(), acceptor.clone(), authority.clone());
                connections.spawn(async move {
                    let Some(acceptor) = acceptor else {
                        return connection(core, socket, None).await;
                    };
                    let Ok(stream) = acceptor.accept(socket).await else { return };
                    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                    let identity = certificate.and_then(|c| authority.as_ref()?.identity_of(c));
                    connection(core, stream, identity).await;
                });
            }
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    drop(tokio::time::timeout(LINGER, drained).await);
    connections.shutdown().await;
}

/// Serves one connection until it ends or the server goes down.
async fn connection(
    core: Arc<Core>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Option<Arc<str>>,
) {
    let requests = core.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (core, peer) = (requests.clone(), peer.clone());
        async move { answer(&core, peer.as_deref(), request).await }
    });
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http2().max_concurrent_streams(1000).initial_stream_window_size(1 << 20);
    let served = server.serve_connection(TokioIo::new(stream), service);
    let changed = core.faults.changed();
    let down = async {
        loop {
            let next = changed.notified();
            if core.faults.is_down() {
                return;
            }
            next.await;
        }
    };
    tokio::select! {
        biased;
        () = down => {}
        _ = served => {}
    }
}

async fn answer(
    core: &Arc<Core>,
    peer: Option<&str>,
    request: Request<Incoming>,
) -> Result<Response<ResponseBody>, ConnectionCut> {
    let token = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.strip_prefix("Bearer "))
        .map(str::trim);
    let identity = match (token, peer) {
        (Some(token), _) => match core.users.lock().get(token) {
            Some(user) => user.name.clone(),
            None => return Ok(crate::server::handle::unauthorized(core, request.headers())),
        },
        (None, Some(peer)) => peer.to_owned(),
        (None, None) => ADMIN.to_owned(),
    };
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| ConnectionCut)?.to_bytes();
    core.handle(&identity, Request::from_parts(parts, body)).await
}

impl Server {
    /// Where the server is.
    pub fn url(&self) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.addr)
    }

    /// The authority's certificate, if connections are encrypted.
    pub fn ca_pem(&self) -> Option<String> {
        self.authority.as_ref().map(|a| a.pem())
    }

    /// A kubeconfig for whoever may do everything.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_for(ADMIN, Credential::Token)
    }

    /// A kubeconfig for a client that is to be known as `identity`.
    ///
    /// Without TLS every credential is a token.
    pub fn kubeconfig_for(&self, identity: &str, credential: Credential) -> String {
        let certificate = match (&self.authority, credential) {
            (Some(authority), Credential::Certificate) => authority.issue(identity).ok(),
            _ => None,
        };
        let user = match certificate {
            Some((certificate, key)) => serde_json::json!({
                "client-certificate-data": STANDARD.encode(certificate),
                "client-key-data": STANDARD.encode(key)
            }),
            None => serde_json::json!({"token": self.core.token(identity)}),
        };
        let mut cluster = serde_json::json!({"server": self.url()});
        if let Some(pem) = self.ca_pem() {
            cluster["certificate-authority-data"] = STANDARD.encode(pem).into();
        }
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sandbox", "cluster": cluster}],
            "users": [{"name": identity, "user": user}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": identity, "namespace": "default"}}],
            "current-context": "sandbox"
        });
        // JSON is YAML.
        format!("{config:#}\n")
    }

    /// Stops listening, ends all connections and waits until they have ended.
    pub async fn shutdown(mut self) {
        // Nobody listens any more: it has stopped already.
        let _ = self.stop.send(true);
        let _ = (&mut self.task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}
