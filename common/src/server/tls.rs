//! The serving certificate: from files that are read again, or made in memory.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::Error;
use crate::clock::Clock;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_mins(1);

/// The certificate in use, and where it comes from.
#[derive(Debug)]
pub(super) struct Certificates {
    files: Option<(PathBuf, PathBuf)>,
    /// What the files held when they were last used.
    seen: Option<(Vec<u8>, Vec<u8>)>,
    sender: watch::Sender<Arc<ServerConfig>>,
}

/// The certificate that is in use whenever it is asked for.
#[derive(Clone, Debug)]
pub(super) struct Current(watch::Receiver<Arc<ServerConfig>>);

impl Current {
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0.borrow()))
    }
}

impl Certificates {
    pub(super) fn load(files: Option<(PathBuf, PathBuf)>) -> Result<Self, Error> {
        let (seen, config) = match &files {
            Some(files) => {
                let seen = read(files)?;
                let config = parse(&seen.0, &seen.1)?;
                (Some(seen), config)
            }
            None => (None, self_signed()?),
        };
        Ok(Self { files, seen, sender: watch::channel(config).0 })
    }

    pub(super) fn current(&self) -> Current {
        Current(self.sender.subscribe())
    }

    /// Looks at the files for as long as it runs; what is broken is logged and left.
    pub(super) async fn keep_fresh(&mut self, clock: &Clock) {
        loop {
            clock.sleep(LOOK).await;
            if let Err(error) = self.look() {
                tracing::error!(err = %error, "Cannot renew the serving certificate");
            }
        }
    }

    fn look(&mut self) -> Result<(), Error> {
        let Some(files) = &self.files else { return Ok(()) };
        let now = read(files)?;
        if self.seen.as_ref() == Some(&now) {
            return Ok(());
        }
        self.sender.send_replace(parse(&now.0, &now.1)?);
        self.seen = Some(now);
        tracing::info!("Renewed the serving certificate");
        Ok(())
    }
}

fn read((certificate, key): &(PathBuf, PathBuf)) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let read = |path: &PathBuf| fs::read(path).map_err(|e| Error::Certificate(format!("{}: {e}", path.display())));
    Ok((read(certificate)?, read(key)?))
}

fn parse(certificate: &[u8], key: &[u8]) -> Result<Arc<ServerConfig>, Error> {
    let failed = |what: &str, e: &dyn std::fmt::Display| Error::Certificate(format!("{what}: {e}"));
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| failed("certificate", &e))?;
    if chain.is_empty() {
        return Err(Error::Certificate("the certificate file holds no certificate".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| failed("key", &e))?;
    config(chain, key)
}

/// A certificate for local names that nobody vouches for.
fn self_signed() -> Result<Arc<ServerConfig>, Error> {
    let failed = |e: rcgen::Error| Error::Certificate(e.to_string());
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()])
        .map_err(failed)?;
    let key =
        PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(|e| Error::Certificate(e.to_string()))?;
    config(vec![made.cert.der().clone()], key)
}

fn config(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Arc<ServerConfig>, Error> {
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|e| Error::Certificate(e.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_replaced_are_used_and_broken_ones_are_not() {
        let directory = std::env::temp_dir().join(format!("nonet-tls-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let files = (directory.join("tls.crt"), directory.join("tls.key"));
        let write = || {
            let made = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
            fs::write(&files.0, made.cert.pem()).unwrap();
            fs::write(&files.1, made.signing_key.serialize_pem()).unwrap();
        };
        write();
        let mut certificates = Certificates::load(Some(files.clone())).unwrap();
        let first = Arc::clone(&certificates.sender.borrow());
        certificates.look().unwrap();
        assert!(Arc::ptr_eq(&first, &certificates.sender.borrow()), "nothing changed");
        write();
        certificates.look().unwrap();
        let second = Arc::clone(&certificates.sender.borrow());
        assert!(!Arc::ptr_eq(&first, &second));
        fs::write(&files.0, "nonsense").unwrap();
        assert!(certificates.look().is_err());
        assert!(Arc::ptr_eq(&second, &certificates.sender.borrow()), "the last good one stays");
        assert!(Certificates::load(Some(files)).is_err());
        fs::remove_dir_all(directory).unwrap();
    }
}
