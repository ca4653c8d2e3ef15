use std::{convert::Infallible, net::SocketAddr, sync::atomic::AtomicUsize};

use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::server::conn::auto;
use tokio::{net::TcpListener, task::JoinSet};

use super::*;
use crate::api::{Api, Error as ApiError};

/// A TLS server on loopback that answers each request with its protocol, path and headers, and counts connections.
struct Server {
    address: SocketAddr,
    ca: Vec<u8>,
    connections: Arc<AtomicUsize>,
    most_at_once: Arc<AtomicUsize>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn server(alpn: &[&[u8]], max_streams: u32, requests_per_connection: usize) -> Server {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let ca = made.cert.der().to_vec();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let mut tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    tls.alpn_protocols = alpn.iter().map(|p| p.to_vec()).collect();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let most_at_once = Arc::new(AtomicUsize::new(0));
    let (count, most) = (Arc::clone(&connections), Arc::clone(&most_at_once));
    let now = Arc::new(AtomicUsize::new(0));
    let accepting = tokio::spawn(async move {
        let mut tasks = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::Relaxed);
            let (acceptor, most, now) = (acceptor.clone(), Arc::clone(&most), Arc::clone(&now));
            tasks.spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let served = Arc::new(AtomicUsize::new(0));
                let done = Arc::new(tokio::sync::Notify::new());
                let service = service_fn(|request: Request<Incoming>| {
                    let (served, done) = (Arc::clone(&served), Arc::clone(&done));
                    let (now, most) = (Arc::clone(&now), Arc::clone(&most));
                    async move {
                        most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                        if served.fetch_add(1, Ordering::Relaxed) + 1 == requests_per_connection {
                            done.notify_one();
                        }
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        now.fetch_sub(1, Ordering::Relaxed);
                        let agent = request.headers()["user-agent"].to_str().unwrap();
                        let encoding = request.headers()["accept-encoding"].to_str().unwrap();
                        let text = format!("{:?} {} {agent} {encoding}", request.version(), request.uri().path());
                        Ok::<_, Infallible>(Response::new(Full::new(bytes::Bytes::from(text))))
                    }
                });
                let mut builder = auto::Builder::new(TokioExecutor::new());
                builder.http2().timer(TokioTimer::new()).max_concurrent_streams(max_streams);
                let connection = builder.serve_connection(TokioIo::new(stream), service);
                tokio::pin!(connection);
                tokio::select! {
                    biased;
                    _ = connection.as_mut() => return,
                    () = done.notified() => connection.as_mut().graceful_shutdown(),
                }
                let _ = connection.await;
            });
        }
    });
    Server { address, ca, connections, most_at_once, accepting }
}

fn config(server: &Server) -> Config {
    let mut config = Config::new(format!("https://{}", server.address).parse().unwrap());
    config.root_cert = Some(vec![server.ca.clone()]);
    config
}

fn api(config: &Config) -> Api {
    let clock = crate::clock::Clock::system();
    let (keeper, gate) = crate::gate::closed_write_gate(clock.clone());
    keeper.open_without_deadline();
    // The keeper is leaked, so that the gate remains open during the whole test.
    std::mem::forget(keeper);
    Api::new(crate::client::build_client(config).unwrap(), clock, gate, "agent")
}

async fn ask(api: &Api, path: &str) -> Result<String, ApiError> {
    Ok(String::from_utf8(api.read_path(path, "*/*").await?.to_vec()).unwrap())
}

#[tokio::test]
async fn hundreds_of_requests_share_one_http2_connection_and_respect_its_stream_limit() {
    let server = server(&[b"h2", b"http/1.1"], 20, usize::MAX).await;
    let api = api(&config(&server));
    let mut tasks = JoinSet::new();
    for n in 0..500 {
        let api = api.clone();
        tasks.spawn(async move { ask(&api, &format!("/p/{n}")).await.unwrap() });
    }
    let answers = tasks.join_all().await;
    assert_eq!(answers.len(), 500);
    assert!(answers.iter().all(|a| a.starts_with("HTTP/2.0 /p/") && a.ends_with(" agent identity")), "{answers:?}");
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
    assert!(server.most_at_once.load(Ordering::Relaxed) <= 20);
}

/// COMMON-24.
#[tokio::test]
async fn http1_is_used_if_the_server_does_not_support_http2() {
    let server = server(&[b"http/1.1"], 1, usize::MAX).await;
    let api = api(&config(&server));
    let mut tasks = JoinSet::new();
    for n in 0..300 {
        let api = api.clone();
        tasks.spawn(async move { ask(&api, &format!("/p/{n}")).await.unwrap() });
    }
    assert!(tasks.join_all().await.iter().all(|a| a.starts_with("HTTP/1.1 /p/")));
    assert!(server.most_at_once.load(Ordering::Relaxed) <= HTTP1_REQUESTS);
}

#[tokio::test]
async fn a_server_that_closes_connections_gracefully_loses_no_request() {
    let server = server(&[b"h2"], 100, 10).await;
    let api = api(&config(&server));
    for n in 0..100 {
        ask(&api, &format!("/p/{n}")).await.unwrap();
    }
    assert!(server.connections.load(Ordering::Relaxed) >= 9);
}

#[tokio::test]
async fn nothing_is_sent_to_a_server_that_cannot_be_reached() {
    let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
    config.root_cert = Some(vec![]);
    let error = ask(&api(&config), "/x").await.unwrap_err();
    assert!(
        matches!(&error, ApiError::Unsent(text) if text.contains("127.0.0.1:1") && text.contains("refused")),
        "{error:?}"
    );
}

#[tokio::test]
async fn nothing_is_sent_to_a_server_that_is_not_trusted() {
    let server = server(&[b"h2"], 100, usize::MAX).await;
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let mut config = config(&server);
    config.root_cert = Some(vec![other.cert.der().to_vec()]);
    let error = ask(&api(&config), "/x").await.unwrap_err();
    assert!(matches!(&error, ApiError::Unsent(text) if text.contains("TLS")), "{error:?}");
}

/// A TCP proxy that forwards bytes. A silenced connection remains open but forwards nothing.
struct Proxy {
    address: SocketAddr,
    /// Count of the silenced connections, which are the first connections that the proxy accepted.
    silent_below: tokio::sync::watch::Sender<usize>,
    accepted: Arc<AtomicUsize>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Proxy {
    fn url(&self) -> Uri {
        format!("https://{}", self.address).parse().unwrap()
    }

    /// Silences all connections accepted so far. The bytes of later connections are forwarded.
    fn silence(&self) {
        self.silent_below.send_replace(self.accepted.load(Ordering::Relaxed));
    }
}

async fn proxy(target: SocketAddr) -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let silent_below = tokio::sync::watch::Sender::new(0);
    let accepted = Arc::new(AtomicUsize::new(0));
    let (silencer, count) = (silent_below.clone(), Arc::clone(&accepted));
    let accepting = tokio::spawn(async move {
        let mut tasks = JoinSet::new();
        while let Ok((mut near, _)) = listener.accept().await {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let mut silent_below = silencer.subscribe();
            tasks.spawn(async move {
                let mut far = TcpStream::connect(target).await.unwrap();
                let silenced = async {
                    let _ = silent_below.wait_for(|below| number < *below).await.is_ok();
                };
                tokio::select! {
                    biased;
                    () = silenced => std::future::pending::<()>().await,
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                }
            });
        }
    });
    Proxy { address, silent_below, accepted, accepting }
}

#[tokio::test]
async fn an_urgent_request_that_is_given_up_discards_its_connection() {
    let server = server(&[b"h2"], 100, usize::MAX).await;
    let proxy = proxy(server.address).await;
    let mut config = config(&server);
    config.cluster_url = proxy.url();
    let never = Duration::from_hours(1);
    let patience = PingLimits { ping_after: never, ping_timeout: never, leaves: true };
    let wire = Arc::new(ServerConnections::new(&config, patience).unwrap());
    let request = || {
        Request::get(format!("{}p", config.cluster_url))
            .header("user-agent", "a")
            .header("accept-encoding", "identity")
            .body(Body::empty())
            .unwrap()
    };
    for _ in 0..3 {
        Arc::clone(&wire).send(request()).await.unwrap().into_body().collect().await.unwrap();
    }
    assert_eq!(server.connections.load(Ordering::Relaxed), 1, "an answered request keeps its connection");
    proxy.silence();
    let given_up = tokio::time::timeout(Duration::from_millis(100), Arc::clone(&wire).send(request())).await;
    assert!(given_up.is_err(), "no answer arrives over a silent connection");
    Arc::clone(&wire).send(request()).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(server.connections.load(Ordering::Relaxed), 2);
}

#[test]
fn the_ping_timeout_of_urgent_requests_is_at_least_their_own_timeout() {
    for seconds in [1, 5, 30] {
        let request = Duration::from_secs(seconds);
        assert!(PingLimits::leader_election_limits(request).ping_timeout >= request);
    }
}

/// COMMON-24.
#[tokio::test]
async fn pings_notice_a_dead_connection() {
    let server = server(&[b"h2"], 100, usize::MAX).await;
    let proxy = proxy(server.address).await;
    let mut config = config(&server);
    config.cluster_url = proxy.url();
    let brief = Duration::from_millis(200);
    let patience = PingLimits { ping_after: brief, ping_timeout: brief, leaves: false };
    let wire = Arc::new(ServerConnections::new(&config, patience).unwrap());
    let request = || {
        Request::get(format!("{}p", config.cluster_url))
            .header("user-agent", "a")
            .header("accept-encoding", "identity")
            .body(Body::empty())
            .unwrap()
    };
    let answer = Arc::clone(&wire).send(request()).await.unwrap();
    assert!(answer.into_body().collect().await.is_ok());
    proxy.silence();
    let ended = tokio::time::timeout(Duration::from_secs(5), Arc::clone(&wire).send(request())).await;
    assert!(ended.expect("the dead connection is noticed").is_err());
    let mut current = wire.requests.usable();
    for _ in 0..50 {
        if current.is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        current = wire.requests.usable();
    }
    panic!("the dead connection is still in use");
}

#[tokio::test]
async fn unread_watches_do_not_delay_requests() {
    let server = server(&[b"h2"], 100, usize::MAX).await;
    let wire = Arc::new(ServerConnections::new(&config(&server), PingLimits::default_limits()).unwrap());
    let request = |query: &str| {
        Request::get(format!("https://{}/p{query}", server.address))
            .header("user-agent", "a")
            .header("accept-encoding", "identity")
            .body(Body::empty())
            .unwrap()
    };
    let watch = Arc::clone(&wire).send(request("?a=b&watch=true")).await.unwrap();
    let answer = Arc::clone(&wire).send(request("")).await.unwrap();
    assert!(answer.into_body().collect().await.is_ok());
    assert_eq!(server.connections.load(Ordering::Relaxed), 2, "a watch has a connection of its own");
    drop(watch);
}

#[test]
fn an_unusable_proxy_is_named_without_its_credentials() {
    let mut config = kube::Config::new("https://10.0.0.1".parse().unwrap());
    config.proxy_url = Some("socks5://me:secret@proxy.example:1080/?key=secret".parse().unwrap());
    let error = super::build_dialer(&config).err().unwrap().to_string();
    assert!(error.contains("socks5") && error.contains("proxy.example"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}
