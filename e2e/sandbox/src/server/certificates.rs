//! The sandbox's own certificate authority: in memory, made anew for each server.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};

/// Why certificates cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A certificate or its key.
    #[error("{0}")]
    Make(#[from] rcgen::Error),
    /// The TLS set-up made of them.
    #[error("{0}")]
    Tls(#[from] rustls::Error),
    /// The check of client certificates.
    #[error("{0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// An authority, the serving certificate it has issued, and who its clients are.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    serving: CertificateDer<'static>,
    serving_key: Vec<u8>,
    clients: Mutex<BTreeMap<Vec<u8>, Arc<str>>>,
}

impl Authority {
    pub(crate) fn new(ip: IpAddr) -> Result<Self, CertificateError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "sandbox-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut params = CertificateParams::new(names.map(str::to_owned).to_vec())?;
        params.distinguished_name.push(DnType::CommonName, "sandbox");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        if ip != IpAddr::V4(Ipv4Addr::LOCALHOST) {
            params.subject_alt_names.push(SanType::IpAddress(ip));
        }
        let serving = params.signed_by(&key, &issuer)?.der().clone();
        Ok(Self { issuer, serving, serving_key: key.serialize_der(), clients: Mutex::default() })
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a client certificate; certificate and key in PEM.
    pub(crate) fn issue(&self, identity: &str) -> Result<(String, String), CertificateError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, identity);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        self.clients.lock().insert(certificate.der().to_vec(), identity.into());
        Ok((certificate.pem(), key.serialize_pem()))
    }

    /// Whom a certificate was issued to.
    pub(crate) fn identity_of(&self, certificate: &CertificateDer<'_>) -> Option<Arc<str>> {
        self.clients.lock().get(certificate.as_ref()).cloned()
    }

    pub(crate) fn server_config(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone())?;
        let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .allow_unauthenticated()
            .build()?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.serving_key.clone()));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![self.serving.clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
