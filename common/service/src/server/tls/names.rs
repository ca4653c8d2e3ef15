//! Chooses one of several certificates by the server name that a client sends (SNI).

use std::sync::Arc;

use rustls::{
    client::verify_server_name,
    pki_types::ServerName,
    server::{ClientHello, ParsedCertificate, ResolvesServerCert},
    sign::CertifiedKey,
};

/// Certificates with the patterns of their server names.
#[derive(Debug)]
pub(super) struct CertificateResolver {
    default: Arc<CertifiedKey>,
    named: Vec<(Vec<String>, Arc<CertifiedKey>)>,
}

impl CertificateResolver {
    /// Returns a resolver that serves `default` for every name.
    pub(super) fn new(default: CertifiedKey) -> Self {
        Self { default: Arc::new(default), named: Vec::new() }
    }

    /// Adds a certificate for server names that match a pattern; without patterns, for the names in the certificate.
    ///
    /// # Errors
    /// If there are no patterns and the certificate cannot be parsed.
    pub(super) fn add_certificate(
        &mut self,
        certified: CertifiedKey,
        patterns: &[String],
    ) -> Result<(), rustls::Error> {
        if patterns.is_empty() {
            ParsedCertificate::try_from(certified.end_entity_cert()?)?;
        }
        self.named.push((patterns.to_vec(), Arc::new(certified)));
        Ok(())
    }

    fn find(&self, name: &str) -> &Arc<CertifiedKey> {
        let fits = |(patterns, certified): &&(Vec<String>, Arc<CertifiedKey>)| {
            if patterns.is_empty() { is_valid_for(certified, name) } else { patterns.iter().any(|p| matches(p, name)) }
        };
        self.named.iter().find(fits).map_or(&self.default, |(_, certified)| certified)
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(hello.server_name().map_or(&self.default, |name| self.find(name))))
    }
}

fn is_valid_for(certified: &CertifiedKey, name: &str) -> bool {
    let Ok(name) = ServerName::try_from(name) else { return false };
    let certificate = certified.end_entity_cert().and_then(ParsedCertificate::try_from);
    certificate.is_ok_and(|certificate| verify_server_name(&certificate, &name).is_ok())
}

/// Whether a name equals the pattern, or is one label below a pattern with `*.` in front.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(domain) => name.split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(domain)),
        None => name.eq_ignore_ascii_case(pattern),
    }
}
