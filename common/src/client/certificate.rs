//! When the client certificate of a configuration ends.

use base64::Engine as _;
use jiff::Timestamp;
use kube::Config;
use x509_cert::Certificate;

/// When the client certificate ends that the configuration carries or names; nothing if there is none that can be read.
///
/// The certificate itself counts, not those of the authorities that may follow it.
pub fn expiry(config: &Config) -> Option<Timestamp> {
    let auth = &config.auth_info;
    let pem = match (&auth.client_certificate_data, &auth.client_certificate) {
        (Some(data), _) => base64::engine::general_purpose::STANDARD.decode(data).ok()?,
        (None, Some(path)) => std::fs::read(path).ok()?,
        (None, None) => return None,
    };
    expiry_of_pem(&pem)
}

/// When the first certificate of a PEM file ends.
pub fn expiry_of_pem(pem: &[u8]) -> Option<Timestamp> {
    let chain = Certificate::load_pem_chain(pem).ok()?;
    let not_after = chain.first()?.tbs_certificate.validity.not_after.to_unix_duration();
    Timestamp::from_second(i64::try_from(not_after.as_secs()).ok()?).ok()
}
