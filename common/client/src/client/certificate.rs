//! When the client certificate of a configuration ends.

use base64::Engine as _;
use jiff::Timestamp;
use kube::Config;
use x509_cert::Certificate;

/// The end of the client certificate's validity, in the configuration or in the file that it names. Nothing if there is no certificate
/// or it cannot be read.
///
/// The certificate itself counts, not those of the authorities that may follow it.
pub(super) fn expiry(config: &Config) -> Option<Timestamp> {
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
