//! TLS configuration of the server, with certificates from files that are reloaded, or with a certificate created in memory.
//!
//! Upstream: `SecureServingOptions` of `k8s.io/apiserver`. Difference: a client certificate of an authority that is not in
//! `--client-ca-file` fails the handshake here, and gets the answer 401 upstream.

mod names;

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustls::{
    CipherSuite, NamedGroup, ProtocolVersion, RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
    sign::CertifiedKey,
};
use tokio::sync::watch;

use super::Error;
use crate::clock::Clock;
use names::CertificateResolver;

/// How often the files of certificates and keys are read again, to detect changes.
const RELOAD_PERIOD: Duration = Duration::from_mins(1);

/// Files of a certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// File of the certificate, followed by its intermediates.
    pub certificate: PathBuf,
    /// File of the private key.
    pub key: PathBuf,
}

/// Source of the default certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CertificateSource {
    /// A self-signed certificate, created in memory.
    #[default]
    InMemory,
    /// A certificate and a key in these files, which must exist.
    Files(CertificateFiles),
    /// A certificate and a key in these files. If both are missing, a self-signed certificate and its key are written to them.
    CreatedIfMissing(CertificateFiles),
}

/// Certificates, versions and algorithms of TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// Certificate for clients that ask for none of the names in `named_certificates`.
    pub default_certificate: CertificateSource,
    /// Certificates with the server names that select them (`*.example.com` for one label below a domain). An empty list of
    /// names stands for the names in the certificate. The first certificate that matches is served.
    pub named_certificates: Vec<(CertificateFiles, Vec<String>)>,
    /// File with the authorities that may sign client certificates. With `None`, the server asks for no client certificate.
    pub client_ca_file: Option<PathBuf>,
    /// Whether only TLS 1.3 is served; if false, TLS 1.2 is served, too.
    pub is_tls13_only: bool,
    /// Cipher suites of TLS 1.2 that may be used; `None` allows all. The cipher suites of TLS 1.3 are always allowed.
    pub cipher_suites: Option<Vec<CipherSuite>>,
    /// Groups for the key exchange in the order of preference; `None` for the defaults of rustls.
    pub key_exchange_groups: Option<Vec<NamedGroup>>,
    /// Whether only HTTP/1.1 is served; if false, HTTP/2 is served, too.
    pub is_http1_only: bool,
}

impl TlsSettings {
    /// Returns all files to read, in the order in which [`config`] uses them.
    fn files(&self) -> Vec<&Path> {
        let own = match &self.default_certificate {
            CertificateSource::InMemory => None,
            CertificateSource::Files(pair) | CertificateSource::CreatedIfMissing(pair) => Some(pair),
        };
        let pairs = own.into_iter().chain(self.named_certificates.iter().map(|(pair, _)| pair));
        pairs.flat_map(|pair| [&*pair.certificate, &*pair.key]).chain(self.client_ca_file.as_deref()).collect()
    }

    /// Returns rustls' provider, limited to the cipher suites and groups of these settings.
    fn provider(&self) -> CryptoProvider {
        let mut provider = rustls::crypto::ring::default_provider();
        if let Some(wanted) = &self.cipher_suites {
            let is_wanted =
                |suite: &rustls::SupportedCipherSuite| suite.tls13().is_some() || wanted.contains(&suite.suite());
            provider.cipher_suites.retain(is_wanted);
        }
        if let Some(wanted) = &self.key_exchange_groups {
            let known = std::mem::take(&mut provider.kx_groups);
            provider.kx_groups =
                wanted.iter().filter_map(|group| known.iter().find(|k| k.name() == *group).copied()).collect();
        }
        provider
    }
}

/// Returns the cipher suites of TLS 1.2 and the groups that the server supports.
pub fn supported_cipher_suites_and_key_exchange_groups() -> (Vec<CipherSuite>, Vec<NamedGroup>) {
    let provider = rustls::crypto::ring::default_provider();
    let suites = provider.cipher_suites.iter().filter(|suite| suite.tls13().is_none());
    (suites.map(rustls::SupportedCipherSuite::suite).collect(), provider.kx_groups.iter().map(|g| g.name()).collect())
}

/// Current TLS configuration, with the settings and the files that determine it.
#[derive(Debug)]
pub(super) struct ReloadingTlsConfig {
    settings: TlsSettings,
    /// The certificate created in memory; `None` if the certificate comes from files.
    made: Option<CertifiedKey>,
    /// Contents of the files in the current configuration, in the order of [`TlsSettings::files`].
    seen: Vec<Vec<u8>>,
    sender: watch::Sender<Arc<ServerConfig>>,
}

/// Receiver of the current TLS configuration.
pub(super) type CurrentTlsConfig = watch::Receiver<Arc<ServerConfig>>;

impl ReloadingTlsConfig {
    pub(super) fn load(settings: TlsSettings) -> Result<Self, Error> {
        let mut made = None;
        match &settings.default_certificate {
            CertificateSource::InMemory => made = Some(certified_key_in_memory(&settings.provider())?),
            CertificateSource::CreatedIfMissing(pair) if !pair.certificate.exists() && !pair.key.exists() => {
                let made = self_signed()?;
                let key = made.signing_key.serialize_pem();
                write_private(&pair.key, key.as_bytes()).map_err(|e| unusable(&pair.key, &e))?;
                fs::write(&pair.certificate, made.cert.pem()).map_err(|e| unusable(&pair.certificate, &e))?;
            }
            CertificateSource::CreatedIfMissing(_) | CertificateSource::Files(_) => {}
        }
        let seen = read(&settings)?;
        let config = config(&settings, made.as_ref(), &seen)?;
        Ok(Self { settings, made, seen, sender: watch::channel(config).0 })
    }

    pub(super) fn current_config(&self) -> CurrentTlsConfig {
        self.sender.subscribe()
    }

    /// Reloads the files when they change. Never returns. If a file cannot be used, logs the error and keeps the configuration.
    pub(super) async fn reload_when_changed(&mut self, clock: &Clock) {
        loop {
            clock.sleep(RELOAD_PERIOD).await;
            if let Err(error) = self.reload_if_changed() {
                tracing::error!(err = %error, "Cannot reload the serving certificate");
            }
        }
    }

    fn reload_if_changed(&mut self) -> Result<(), Error> {
        let now = read(&self.settings)?;
        if self.seen == now {
            return Ok(());
        }
        self.sender.send_replace(config(&self.settings, self.made.as_ref(), &now)?);
        self.seen = now;
        tracing::info!("Reloaded the serving certificate");
        Ok(())
    }
}

/// Reads all files of the settings, in the order of [`TlsSettings::files`].
fn read(settings: &TlsSettings) -> Result<Vec<Vec<u8>>, Error> {
    settings.files().into_iter().map(|path| fs::read(path).map_err(|e| unusable(path, &e))).collect()
}

fn unusable(path: &Path, why: &dyn fmt::Display) -> Error {
    Error::Certificate(format!("{}: {why}", path.display()))
}

/// Creates a self-signed certificate for `localhost` and the loopback addresses.
fn self_signed() -> Result<rcgen::CertifiedKey<rcgen::KeyPair>, Error> {
    rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()])
        .map_err(|e| Error::Certificate(e.to_string()))
}

fn certified_key_in_memory(provider: &CryptoProvider) -> Result<CertifiedKey, Error> {
    let made = self_signed()?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
    CertifiedKey::from_der(vec![made.cert.der().clone()], key, provider).map_err(|e| Error::Certificate(e.to_string()))
}

/// Writes a file with mode 0600, where files have modes, and creates its directories.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    use std::io::Write as _;
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(content)
}

/// Parses a certificate with its intermediates, and its private key, from the contents of two PEM files.
fn certified(
    files: &CertificateFiles,
    certificate: &[u8],
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, Error> {
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| unusable(&files.certificate, &e))?;
    if chain.is_empty() {
        return Err(unusable(&files.certificate, &"the file contains no certificate"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| unusable(&files.key, &e))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|e| unusable(&files.certificate, &e))
}

fn authorities(path: &Path, content: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(content) {
        let added = certificate.map_err(|e| e.to_string()).and_then(|c| roots.add(c).map_err(|e| e.to_string()));
        added.map_err(|e| unusable(path, &e))?;
    }
    if roots.is_empty() { Err(unusable(path, &"the file contains no certificate")) } else { Ok(roots) }
}

fn config(settings: &TlsSettings, made: Option<&CertifiedKey>, files: &[Vec<u8>]) -> Result<Arc<ServerConfig>, Error> {
    let failed = |e: &dyn fmt::Display| Error::Certificate(e.to_string());
    let provider = Arc::new(settings.provider());
    let mut files = files.iter().map(Vec::as_slice);
    let mut next = || files.next().unwrap_or_default();
    let default = match (&settings.default_certificate, made) {
        (CertificateSource::Files(pair) | CertificateSource::CreatedIfMissing(pair), _) => {
            certified(pair, next(), next(), &provider)?
        }
        (CertificateSource::InMemory, Some(made)) => made.clone(),
        (CertificateSource::InMemory, None) => certified_key_in_memory(&provider)?,
    };
    let mut names = CertificateResolver::new(default);
    for (pair, patterns) in &settings.named_certificates {
        let certified = certified(pair, next(), next(), &provider)?;
        names.add_certificate(certified, patterns).map_err(|e| unusable(&pair.certificate, &e))?;
    }
    let roots = settings.client_ca_file.as_deref().map(|path| authorities(path, next())).transpose()?;
    let tls12 = provider.cipher_suites.iter().any(|suite| suite.tls13().is_none());
    let versions: Vec<&'static SupportedProtocolVersion> = rustls::ALL_VERSIONS
        .iter()
        .filter(|version| version.version == ProtocolVersion::TLSv1_3 || (tls12 && !settings.is_tls13_only))
        .copied()
        .collect();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|e| failed(&e))?;
    let builder = match roots {
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|e| failed(&e))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(names));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    if settings.is_http1_only {
        config.alpn_protocols.remove(0);
    }
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests;
