//! Tests with idle and slow clients in virtual time over pipes, and with floods of connections over real sockets.

use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    net::{TcpSocket, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::*;
use crate::{
    logging,
    metrics::Metrics,
    server::{self, ServerState, TlsSettings, tls::ReloadingTlsConfig},
};

/// Accepts any certificate, since the servers under test create self-signed ones.
#[derive(Debug)]
struct Anyone;

impl rustls::client::danger::ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(stream: S, alpn: &[&str]) -> std::io::Result<TlsStream<S>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.dangerous().with_custom_certificate_verifier(Arc::new(Anyone)).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
}

fn state() -> ServerState {
    ServerState::new(Metrics::new(), logging::VerbosityHandle::new_detached())
}

/// A connection over a pipe, and the task that serves it.
struct Pipe {
    client: Option<DuplexStream>,
    served: JoinHandle<()>,
    clock: Clock,
    opened: Instant,
}

fn pipe(tls: bool) -> Pipe {
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
    let tls = tls.then(|| ReloadingTlsConfig::load(TlsSettings::default()).unwrap().current_config());
    let service = ListenerParameters {
        router: state().router(),
        tls,
        max_streams_per_connection: Some(4),
        limits: ConnectionLimits::default(),
        clock: clock.clone(),
    };
    let connections = Arc::new(Mutex::new(ConnectionTable::new(service.limits)));
    let (client, stream) = tokio::io::duplex(64 << 10);
    let opened = clock.monotonic_now();
    let served = tokio::spawn(admit(&connections, &service, stream, ([127, 0, 0, 1], 1).into()));
    Pipe { client: Some(client), served, clock, opened }
}

impl Pipe {
    fn client(&mut self) -> DuplexStream {
        self.client.take().unwrap()
    }

    /// Waits for the end of the connection, and returns its age in seconds.
    async fn ended(self) -> u64 {
        self.served.await.unwrap();
        (self.clock.monotonic_now() - self.opened).as_secs()
    }
}

/// COMMON-97.
#[tokio::test(start_paused = true)]
async fn a_silent_client_is_dropped_after_ten_seconds() {
    for tls in [true, false] {
        let pipe = pipe(tls);
        assert_eq!(pipe.ended().await, 10, "TLS: {tls}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_silent_after_the_handshake_is_dropped_after_ten_seconds() {
    for alpn in [&["h2"][..], &["http/1.1"], &[]] {
        let mut pipe = pipe(true);
        let client = pipe.client();
        pipe.clock.sleep(Duration::from_secs(6)).await;
        let client = handshake(client, alpn).await.unwrap();
        assert_eq!(client.get_ref().1.alpn_protocol(), alpn.first().map(|name| name.as_bytes()));
        assert_eq!(pipe.ended().await, 10, "the ten seconds include the handshake: {alpn:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_with_a_slow_first_request_is_dropped_after_ten_seconds() {
    for tls in [true, false] {
        let mut pipe = pipe(tls);
        let (client, clock) = (pipe.client(), pipe.clock.clone());
        let trickle = async |mut client: Box<dyn AsyncWriteAndRead>| {
            for byte in b"GET /livez HTTP/1.1\r\nhost: me\r\nx-slow: ".iter().chain([b'x'].iter().cycle()) {
                if client.write_all(&[*byte]).await.is_err() {
                    return;
                }
                let _ = client.flush().await;
                clock.sleep(Duration::from_millis(700)).await;
            }
        };
        let client: Box<dyn AsyncWriteAndRead> =
            if tls { Box::new(handshake(client, &["http/1.1"]).await.unwrap()) } else { Box::new(client) };
        let ended = tokio::select! {
            ended = pipe.ended() => ended,
            () = trickle(client) => unreachable!("the trickle never stops"),
        };
        assert_eq!(ended, 10, "TLS: {tls}");
    }
}

trait AsyncWriteAndRead: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> AsyncWriteAndRead for T {}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_kept_for_a_while_and_then_dropped() {
    let mut pipe = pipe(false);
    let mut client = pipe.client();
    client.write_all(b"GET /livez HTTP/1.1\r\nhost: me\r\n\r\n").await.unwrap();
    let mut answer = [0; 15];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    assert_eq!(pipe.ended().await, 10, "HTTP/1.1 waits ten seconds for the next head");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_that_answers_pings_is_dropped_too() {
    let mut pipe = pipe(true);
    let client = handshake(pipe.client(), &["h2"]).await.unwrap();
    let (mut send, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await.unwrap();
    let connection = tokio::spawn(connection);
    for _ in 0..3 {
        let request = Request::get("http://me/livez").body(String::new()).unwrap();
        assert_eq!(send.send_request(request).await.unwrap().status(), 200);
        pipe.clock.sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(pipe.ended().await, 120 + 90, "90 s after the last request, in spite of answered pings");
    connection.abort();
}

/// Opens a TLS connection from a loopback address, and sends nothing after the handshake.
async fn silent(from: [u8; 4], to: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    handshake(socket.connect(to).await?, &["h2", "http/1.1"]).await
}

/// Sends one request on a new connection, as the kubelet's probes do, and waits up to 20 s for the answer.
async fn probe(from: [u8; 4], to: SocketAddr) -> std::io::Result<String> {
    let ask = async {
        let mut client = silent_http1(from, to).await?;
        client.write_all(b"GET /readyz HTTP/1.1\r\nhost: me\r\nconnection: close\r\n\r\n").await?;
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer[..answer.len().min(15)]).into_owned())
    };
    tokio::time::timeout(Duration::from_secs(20), ask).await.map_err(|_| std::io::ErrorKind::TimedOut)?
}

async fn silent_http1(from: [u8; 4], to: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    handshake(socket.connect(to).await?, &["http/1.1"]).await
}

/// COMMON-97.
#[tokio::test]
async fn silent_connections_never_block_a_probe() {
    let settings = server::ServerSettings {
        secure_address: Some(([127, 0, 0, 1], 0).into()),
        ..server::ServerSettings::default()
    };
    let server = server::start_server(&settings, &state(), None, &Clock::system()).unwrap();
    let to = server.secure_address.unwrap();
    let mut held = Vec::new();
    // Idle connections come from one address, from fifty addresses, and from the address of the probe itself.
    for (addresses, connections) in [(1, 300), (50, 8), (0, 60)] {
        for at in 0..connections {
            for address in 0..addresses.max(1) {
                let from = if addresses == 0 { 1 } else { 2 + address };
                // A connection may be dropped during its handshake, to make room for a newer connection.
                held.extend(silent([127, 0, 0, from], to).await.ok());
            }
            if at % 100 == 0 {
                assert_eq!(probe([127, 0, 0, 1], to).await.unwrap(), "HTTP/1.1 200 OK");
            }
        }
        assert_eq!(probe([127, 0, 0, 1], to).await.unwrap(), "HTTP/1.1 200 OK");
        assert_eq!(
            probe([127, 0, 0, 2], to).await.unwrap(),
            "HTTP/1.1 200 OK",
            "not even by connections of its own address"
        );
    }
    assert!(held.len() > 700, "{}", held.len());
}

#[tokio::test]
async fn connections_without_a_handshake_never_block_a_probe() {
    let settings = server::ServerSettings {
        secure_address: Some(([127, 0, 0, 1], 0).into()),
        ..server::ServerSettings::default()
    };
    let server = server::start_server(&settings, &state(), None, &Clock::system()).unwrap();
    let to = server.secure_address.unwrap();
    let mut held = Vec::new();
    for _ in 0..400 {
        held.push(TcpStream::connect(to).await.unwrap());
    }
    assert_eq!(probe([127, 0, 0, 1], to).await.unwrap(), "HTTP/1.1 200 OK");
}
