//! kube-controller-manager as the subject of comparison.

use std::{fs, net::Ipv4Addr, path::Path};

use super::Error;
use crate::{cluster::Cluster, process::Launch};

/// Its name in the results.
pub(super) const NAME: &str = "kube-controller-manager";

/// The command that starts it with certain loops, and a client for its metrics.
pub(super) fn launch(
    path: &Path,
    loops: &[&str],
    kubeconfig: &Path,
    cluster: &Cluster,
) -> Result<(Launch, kube::Client), Error> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |e: std::io::Error| Error::Io(what, e)
    };
    let certificate = rcgen::generate_simple_self_signed([Ipv4Addr::LOCALHOST.to_string()])
        .map_err(|e| Error::Metrics(format!("cannot make a certificate: {e}")))?;
    let directory = cluster.directory();
    let (cert, key) = (directory.join("peer.crt"), directory.join("peer.key"));
    fs::write(&cert, certificate.cert.pem()).map_err(failed("cannot write a certificate"))?;
    fs::write(&key, certificate.signing_key.serialize_pem()).map_err(failed("cannot write a key"))?;
    let port = free_port().map_err(failed("cannot find a free port"))?;
    let launch = Launch::program(NAME, path)
        .argument(format!("--kubeconfig={}", kubeconfig.display()))
        .argument(format!("--controllers={}", loops.join(",")))
        // No rate limit of the client, as for the controllers of Nonet.
        .argument("--kube-api-qps=100000")
        .argument("--kube-api-burst=100000")
        .argument("--bind-address=127.0.0.1")
        .argument(format!("--secure-port={port}"))
        .argument(format!("--tls-cert-file={}", cert.display()))
        .argument(format!("--tls-private-key-file={}", key.display()))
        .argument("--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics");
    let uri: http::Uri =
        format!("https://127.0.0.1:{port}").parse().map_err(|_| Error::Metrics("no URL".to_owned()))?;
    let mut config = kube::Config::new(uri);
    config.root_cert = Some(vec![certificate.cert.der().to_vec()]);
    let client = common::process::client::build_client(&config).map_err(|e| Error::Metrics(e.to_string()))?;
    Ok((launch, client))
}

/// A loopback port that was free at the time of the call.
fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A client for its metrics.
pub(super) async fn metrics(client: &kube::Client) -> Result<String, kube::Error> {
    let request = http::Request::get("/metrics").body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request_text(request).await
}
