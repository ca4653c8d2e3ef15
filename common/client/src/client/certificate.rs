//! The expiry of the client certificate of a configuration.

use base64::Engine as _;
use jiff::Timestamp;
use kube::Config;
use x509_cert::Certificate;

/// Returns the end of validity of the client certificate, from the configuration or from the file that it names; `None` if
/// there is no certificate, or it cannot be parsed.
///
/// Only the first certificate of a file counts, because certificates of authorities may follow it.
pub(super) fn client_certificate_expiry(config: &Config) -> Option<Timestamp> {
    let auth = &config.auth_info;
    let pem = match (&auth.client_certificate_data, &auth.client_certificate) {
        (Some(data), _) => base64::engine::general_purpose::STANDARD.decode(data).ok()?,
        (None, Some(path)) => std::fs::read(path).ok()?,
        (None, None) => return None,
    };
    let chain = Certificate::load_pem_chain(&pem).ok()?;
    let not_after = chain.first()?.tbs_certificate.validity.not_after.to_unix_duration();
    Timestamp::from_second(i64::try_from(not_after.as_secs()).ok()?).ok()
}
