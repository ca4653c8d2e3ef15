//! The certificate authorities of the API server as one PEM text, and the checks that it passes before a controller publishes it.

use std::{mem, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use x509_cert::der::{self, AnyRef, Decode as _, Reader as _, SliceReader, Tag, Tagged as _};

/// The largest bundle in bytes: the limit of the server for the content of a ConfigMap.
pub const MAX_BUNDLE_BYTES: usize = 1 << 20;

/// A SHA-256 hash.
pub type Sha256 = [u8; 32];

/// Returns the SHA-256 hash of these bytes.
pub fn sha256(bytes: &[u8]) -> Sha256 {
    ring::digest::digest(&ring::digest::SHA256, bytes).as_ref().try_into().unwrap_or_default()
}

/// A bundle that may be published.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// The text, as the file has it.
    pub text: String,
    /// Hash of the text.
    pub hash: Sha256,
}

impl Bundle {
    /// Checks the content of a file.
    ///
    /// # Errors
    /// The reason why it must not be published, in words that follow the name of the file.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        if bytes.len() > MAX_BUNDLE_BYTES {
            return Err("it is larger than 1 MiB, which no ConfigMap can hold".to_owned());
        }
        let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
        let mut has_certificate = false;
        for (number, block) in (1..).zip(text.split("-----BEGIN ").skip(1)) {
            let (block_type, rest) = block.split_once("-----").unwrap_or_default();
            if block_type.ends_with("PRIVATE KEY") {
                return Err("it has a private key, which every user could read; give certificates alone".to_owned());
            }
            let malformed = || format!("its PEM block {number} is incomplete, or not base64");
            let (body, _) = rest.split_once(&format!("-----END {block_type}-----")).ok_or_else(malformed)?;
            // As upstream, `ParseCertsPEM`: a block with headers is no certificate.
            if block_type == "CERTIFICATE" && !body.contains(':') {
                let base64: String = body.split_whitespace().collect();
                let der = STANDARD.decode(base64).map_err(|_| malformed())?;
                check_certificate(&der)
                    .map_err(|error| format!("its PEM block {number} is not an X.509 certificate: {error}"))?;
                has_certificate = true;
            }
        }
        let hash = sha256(text.as_bytes());
        if has_certificate { Ok(Self { text, hash }) } else { Err("it has no PEM block CERTIFICATE".to_owned()) }
    }
}

/// Checks the outer structure of a certificate: what is signed, the algorithm, and the signature. The serial number, the dates and
/// the extensions may have any value, because they are the business of clients.
fn check_certificate(der: &[u8]) -> der::Result<()> {
    let mut reader = SliceReader::new(der)?;
    reader.sequence(|certificate| {
        [Tag::Sequence, Tag::Sequence, Tag::BitString]
            .into_iter()
            .try_for_each(|tag| AnyRef::decode(certificate)?.tag().assert_eq(tag).map(drop))
    })?;
    reader.finish(())
}

/// What the reads of the source of the bundle have found so far.
#[derive(Debug, Default)]
pub struct BundleReads {
    /// The last good bundle; `None` before the first one.
    pub bundle: Option<Arc<Bundle>>,
    /// The reason why the last read found no usable bundle; `None` if it found one.
    pub problem: Option<String>,
    /// Hash of a changed bundle that one read has found.
    changed: Option<Sha256>,
    has_begun: bool,
}

impl BundleReads {
    /// Adds a read. Returns whether there is another bundle to publish.
    ///
    /// A changed bundle counts when two reads in a row find it, because the first one may meet a file that is being written. The
    /// first read of the process counts at once.
    pub fn add_read(&mut self, read: Result<Bundle, String>) -> bool {
        let (is_first, changed) = (!mem::replace(&mut self.has_begun, true), self.changed.take());
        let (found, problem) = match read {
            Ok(found) => (Some(found), None),
            Err(problem) => (None, Some(problem)),
        };
        self.problem = problem;
        let is_new = |bundle: &Bundle| self.bundle.as_ref().is_none_or(|known| known.hash != bundle.hash);
        let Some(found) = found.filter(is_new) else { return false };
        if !is_first && changed != Some(found.hash) {
            self.changed = Some(found.hash);
            return false;
        }
        self.bundle = Some(Arc::new(found));
        true
    }
}

#[cfg(test)]
mod tests;
