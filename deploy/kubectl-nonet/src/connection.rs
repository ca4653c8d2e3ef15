//! Connects to the cluster of a kubeconfig.

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

use crate::facts::{Certificate, FactError, FactResult, to_one_line};

/// Reasons why a connection cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubeconfig is missing or invalid. Holds the message.
    #[error("cannot use the kubeconfig: {0}")]
    Kubeconfig(String),
    /// The client cannot be created, for example because a key is invalid. Holds the message.
    #[error("cannot use the credentials of the kubeconfig: {0}")]
    Credentials(String),
}

/// A client for one cluster, with its credentials.
pub struct Connection {
    /// Sends all requests except the TLS handshake of [`Connection::serving_certificate`].
    pub client: Client,
    /// Maximum duration of each request and of the TLS handshake.
    pub timeout: Duration,
    config: Config,
}

impl Connection {
    /// Finds the cluster as kubectl does: a named kubeconfig, `$KUBECONFIG`, `~/.kube/config`, or the Pod's own credentials.
    pub async fn open(kubeconfig: Option<&Path>, context: Option<&str>, timeout: Duration) -> Result<Self, Error> {
        let refuse = |why: &dyn std::error::Error| Error::Kubeconfig(format_error_with_causes(why));
        let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
        let mut config = match kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path).map_err(|why| refuse(&why))?;
                Config::from_custom_kubeconfig(file, &options).await.map_err(|why| refuse(&why))?
            }
            None if context.is_some() => Config::from_kubeconfig(&options).await.map_err(|why| refuse(&why))?,
            // The error of `infer` is about the Pod's credentials. Its source is the error about the kubeconfig.
            None => Config::infer().await.map_err(|why| refuse(why.source().unwrap_or(&why)))?,
        };
        config.connect_timeout = Some(timeout);
        config.read_timeout = Some(timeout);
        let client =
            Client::try_from(config.clone()).map_err(|why| Error::Credentials(format_error_with_causes(&why)))?;
        Ok(Self { client, timeout, config })
    }

    /// Returns the client certificate of the kubeconfig; `None` with other credentials.
    pub fn client_certificate(&self) -> FactResult<Option<Certificate>> {
        let failed = |why: String| FactError::RequestFailed {
            request: "reading the certificate of the kubeconfig".to_owned(),
            why,
        };
        let AuthInfo { client_certificate, client_certificate_data, .. } = &self.config.auth_info;
        let text = match (client_certificate_data, client_certificate) {
            (Some(data), _) => STANDARD.decode(data.trim()).map_err(|why| failed(why.to_string()))?,
            (None, Some(path)) => std::fs::read(path).map_err(|why| failed(format!("{path}: {why}")))?,
            (None, None) => return Ok(None),
        };
        let chain = X509::load_pem_chain(&text).map_err(|why| failed(why.to_string()))?;
        let first = chain.first().ok_or_else(|| failed("the data contain no certificate".to_owned()))?;
        certificate(first).map(Some).map_err(failed)
    }

    /// Returns the certificate that the API server presents in a TLS handshake; `None` without TLS.
    pub async fn serving_certificate(&self) -> FactResult<Option<Certificate>> {
        let config = &self.config;
        if config.cluster_url.scheme_str() != Some("https") {
            return Ok(None);
        }
        let failed = |why: String| FactError::RequestFailed { request: "a TLS handshake".to_owned(), why };
        if config.proxy_url.is_some() {
            return Err(failed("the kubeconfig has a proxy".to_owned()));
        }
        let shown = tokio::time::timeout(self.timeout, handshake(config)).await;
        shown.unwrap_or_else(|_| Err("the handshake took too long".to_owned())).map(Some).map_err(failed)
    }
}

/// Opens a separate connection and reads the certificate of the server.
async fn handshake(config: &Config) -> Result<Certificate, String> {
    let url = &config.cluster_url;
    let host = url.host().ok_or_else(|| format!("{url} has no host"))?.trim_matches(['[', ']']);
    let tls = config.rustls_client_config().map_err(|why| format_error_with_causes(&why))?;
    let name = config.tls_server_name.clone().unwrap_or_else(|| host.to_owned());
    let name = ServerName::try_from(name).map_err(|why| why.to_string())?;
    let socket = TcpStream::connect((host, url.port_u16().unwrap_or(443))).await.map_err(|why| why.to_string())?;
    let stream =
        tokio_rustls::TlsConnector::from(Arc::new(tls)).connect(name, socket).await.map_err(|why| why.to_string())?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let first = chain.first().ok_or("the server presents no certificate")?;
    certificate(&X509::from_der(first).map_err(|why| why.to_string())?)
}

/// Reads subject and expiry of a parsed certificate.
fn certificate(parsed: &X509) -> Result<Certificate, String> {
    let contents = &parsed.tbs_certificate;
    let ends = contents.validity.not_after.to_unix_duration().as_secs();
    let ends = Timestamp::from_second(ends.cast_signed()).map_err(|why| why.to_string())?;
    Ok(Certificate { subject: contents.subject.to_string(), expires_at: ends })
}

/// Formats an error with its causes as one line.
pub(crate) fn format_error_with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    to_one_line(&text)
}
