//! The connection to the cluster of a kubeconfig.

use std::{error::Error as _, path::Path, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use kube::{
    Client, Config,
    client::ConfigExt as _,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use x509_cert::{Certificate as X509, der::Decode as _};

use crate::facts::{Certificate, Read, Unreadable, one_line};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig: {0}")]
    Kubeconfig(String),
    /// No client can be made of it.
    #[error("cannot use the credentials of the kubeconfig: {0}")]
    Credentials(String),
}

/// A connection: the client, and what it authenticates with.
pub struct Connection {
    /// The client.
    pub client: Client,
    /// How long a request may take.
    pub timeout: Duration,
    config: Config,
}

impl Connection {
    /// Connects to a cluster as kubectl would: a named kubeconfig, `$KUBECONFIG`, `~/.kube/config`, or the Pod's own.
    pub async fn open(kubeconfig: Option<&Path>, context: Option<&str>, timeout: Duration) -> Result<Self, Error> {
        let refuse = |why: &dyn std::error::Error| Error::Kubeconfig(described(why));
        let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
        let mut config = match kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path).map_err(|why| refuse(&why))?;
                Config::from_custom_kubeconfig(file, &options).await.map_err(|why| refuse(&why))?
            }
            None if context.is_some() => Config::from_kubeconfig(&options).await.map_err(|why| refuse(&why))?,
            // Of the two attempts, the kubeconfig is the one that the caller meant.
            None => Config::infer().await.map_err(|why| refuse(why.source().unwrap_or(&why)))?,
        };
        config.connect_timeout = Some(timeout);
        config.read_timeout = Some(timeout);
        let client = Client::try_from(config.clone()).map_err(|why| Error::Credentials(described(&why)))?;
        Ok(Self { client, timeout, config })
    }

    /// The certificate that the caller authenticates with.
    pub fn client_certificate(&self) -> Read<Option<Certificate>> {
        let failed =
            |why: String| Unreadable::Failed { request: "reading the certificate of the kubeconfig".to_owned(), why };
        let AuthInfo { client_certificate, client_certificate_data, .. } = &self.config.auth_info;
        let text = match (client_certificate_data, client_certificate) {
            (Some(data), _) => STANDARD.decode(data.trim()).map_err(|why| failed(why.to_string()))?,
            (None, Some(path)) => std::fs::read(path).map_err(|why| failed(format!("{path}: {why}")))?,
            (None, None) => return Ok(None),
        };
        let chain = X509::load_pem_chain(&text).map_err(|why| failed(why.to_string()))?;
        let first = chain.first().ok_or_else(|| failed("there is no certificate in it".to_owned()))?;
        certificate(first).map(Some).map_err(failed)
    }

    /// The certificate that the API server shows in a handshake.
    pub async fn serving_certificate(&self) -> Read<Option<Certificate>> {
        let config = &self.config;
        if config.cluster_url.scheme_str() != Some("https") {
            return Ok(None);
        }
        let failed = |why: String| Unreadable::Failed { request: "a TLS handshake".to_owned(), why };
        if config.proxy_url.is_some() {
            return Err(failed("the kubeconfig names a proxy".to_owned()));
        }
        let shown = tokio::time::timeout(self.timeout, handshake(config)).await;
        shown.unwrap_or_else(|_| Err("it took too long".to_owned())).map(Some).map_err(failed)
    }
}

/// Connects once more, and reads the certificate.
async fn handshake(config: &Config) -> Result<Certificate, String> {
    let url = &config.cluster_url;
    let host = url.host().ok_or_else(|| format!("{url} names no host"))?.trim_matches(['[', ']']);
    let tls = config.rustls_client_config().map_err(|why| described(&why))?;
    let name = config.tls_server_name.clone().unwrap_or_else(|| host.to_owned());
    let name = ServerName::try_from(name).map_err(|why| why.to_string())?;
    let socket = TcpStream::connect((host, url.port_u16().unwrap_or(443))).await.map_err(|why| why.to_string())?;
    let stream =
        tokio_rustls::TlsConnector::from(Arc::new(tls)).connect(name, socket).await.map_err(|why| why.to_string())?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let first = chain.first().ok_or("the server shows no certificate")?;
    certificate(&X509::from_der(first).map_err(|why| why.to_string())?)
}

/// What is reported of a certificate.
fn certificate(parsed: &X509) -> Result<Certificate, String> {
    let contents = &parsed.tbs_certificate;
    let ends = contents.validity.not_after.to_unix_duration().as_secs();
    let ends = Timestamp::from_second(ends.cast_signed()).map_err(|why| why.to_string())?;
    Ok(Certificate { subject: contents.subject.to_string(), ends })
}

/// An error with its causes, in one line.
pub(crate) fn described(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    one_line(&text)
}
