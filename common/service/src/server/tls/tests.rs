use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::{ClientConfig, ClientConnection, ServerConnection, pki_types::ServerName};

use super::*;

/// A temporary directory. Dropping this value removes the directory.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("nonet-tls-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn pair(&self, name: &str) -> CertificateFiles {
        CertificateFiles { certificate: self.0.join(format!("{name}.crt")), key: self.0.join(format!("{name}.key")) }
    }

    /// Writes a new certificate for `name` and its key to files; returns the paths of the files and the certificate.
    fn made(&self, name: &str) -> (CertificateFiles, CertificateDer<'static>) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let pair = self.pair(name);
        fs::write(&pair.certificate, made.cert.pem()).unwrap();
        fs::write(&pair.key, made.signing_key.serialize_pem()).unwrap();
        (pair, made.cert.der().clone())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Result of a handshake, as the client sees it.
struct Seen {
    certificate: CertificateDer<'static>,
    version: ProtocolVersion,
    suite: CipherSuite,
    group: NamedGroup,
    alpn: Vec<u8>,
}

fn shake_hands(
    settings: &TlsSettings,
    name: &str,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<Seen, rustls::Error> {
    let certificates = ReloadingTlsConfig::load(settings.clone()).unwrap();
    let mut client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(versions)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anything))
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut client = ClientConnection::new(Arc::new(client), ServerName::try_from(name.to_owned()).unwrap())?;
    let mut server = ServerConnection::new(Arc::clone(&certificates.sender.borrow()))?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut &*bytes).unwrap();
        server.process_new_packets()?;
        bytes.clear();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut &*bytes).unwrap();
        client.process_new_packets()?;
    }
    Ok(Seen {
        certificate: client.peer_certificates().unwrap()[0].clone(),
        version: client.protocol_version().unwrap(),
        suite: client.negotiated_cipher_suite().unwrap().suite(),
        group: client.negotiated_key_exchange_group().unwrap().name(),
        alpn: client.alpn_protocol().unwrap().to_vec(),
    })
}

/// Accepts any certificate, because the certificates under test are self-signed.
#[derive(Debug)]
struct Anything;

impl rustls::client::danger::ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

const BOTH: &[&SupportedProtocolVersion] = rustls::ALL_VERSIONS;
const OLD: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];

#[test]
fn replaced_files_are_reloaded_and_broken_files_are_not() {
    let directory = Directory::new();
    let (pair, _) = directory.made("a");
    let settings =
        TlsSettings { default_certificate: CertificateSource::Files(pair.clone()), ..TlsSettings::default() };
    let mut certificates = ReloadingTlsConfig::load(settings.clone()).unwrap();
    let first = Arc::clone(&certificates.sender.borrow());
    certificates.reload_if_changed().unwrap();
    assert!(Arc::ptr_eq(&first, &certificates.sender.borrow()), "nothing changed");
    directory.made("a");
    certificates.reload_if_changed().unwrap();
    let second = Arc::clone(&certificates.sender.borrow());
    assert!(!Arc::ptr_eq(&first, &second));
    fs::write(&pair.certificate, "nonsense").unwrap();
    assert!(certificates.reload_if_changed().is_err());
    assert!(Arc::ptr_eq(&second, &certificates.sender.borrow()), "the last good configuration stays");
    assert!(ReloadingTlsConfig::load(settings).is_err());
}

#[test]
fn each_name_has_its_certificate_and_others_have_the_default() {
    let directory = Directory::new();
    let (usual, usual_certificate) = directory.made("usual");
    let (own, own_certificate) = directory.made("own.example");
    let (other, other_certificate) = directory.made("other.example");
    let patterns = vec!["*.example.com".to_owned(), "plain".to_owned()];
    let settings = TlsSettings {
        default_certificate: CertificateSource::Files(usual),
        named_certificates: vec![(own, Vec::new()), (other, patterns)],
        ..TlsSettings::default()
    };
    for (name, expected) in [
        ("own.example", &own_certificate),
        ("a.example.com", &other_certificate),
        ("plain", &other_certificate),
        ("a.b.example.com", &usual_certificate),
        ("other.example", &usual_certificate),
        ("127.0.0.1", &usual_certificate),
    ] {
        assert_eq!(&shake_hands(&settings, name, BOTH).unwrap().certificate, expected, "{name}");
    }
}

#[test]
fn versions_suites_and_groups_are_as_configured() {
    let usual = shake_hands(&TlsSettings::default(), "localhost", BOTH).unwrap();
    assert_eq!((usual.version, &*usual.alpn), (ProtocolVersion::TLSv1_3, &b"h2"[..]));
    assert_eq!(shake_hands(&TlsSettings::default(), "localhost", OLD).unwrap().version, ProtocolVersion::TLSv1_2);
    let suite = CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256;
    let narrow = TlsSettings {
        cipher_suites: Some(vec![suite]),
        key_exchange_groups: Some(vec![NamedGroup::secp384r1]),
        is_http1_only: true,
        ..TlsSettings::default()
    };
    let seen = shake_hands(&narrow, "localhost", OLD).unwrap();
    assert_eq!((seen.suite, seen.group, &*seen.alpn), (suite, NamedGroup::secp384r1, &b"http/1.1"[..]));
    for new in [
        TlsSettings { is_tls13_only: true, ..TlsSettings::default() },
        TlsSettings { cipher_suites: Some(vec![]), ..TlsSettings::default() },
    ] {
        assert!(shake_hands(&new, "localhost", OLD).is_err());
        assert_eq!(shake_hands(&new, "localhost", BOTH).unwrap().version, ProtocolVersion::TLSv1_3);
    }
}

#[test]
fn a_missing_pair_is_created_once_and_only_its_owner_can_read_the_key() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = Directory::new();
    let pair = CertificateFiles { certificate: directory.0.join("sub/x.crt"), key: directory.0.join("sub/x.key") };
    let settings = TlsSettings {
        default_certificate: CertificateSource::CreatedIfMissing(pair.clone()),
        ..TlsSettings::default()
    };
    let first = shake_hands(&settings, "localhost", BOTH).unwrap().certificate;
    assert_eq!(shake_hands(&settings, "localhost", BOTH).unwrap().certificate, first);
    assert_eq!(fs::metadata(&pair.key).unwrap().permissions().mode() & 0o777, 0o600);
    fs::remove_file(&pair.key).unwrap();
    assert!(ReloadingTlsConfig::load(settings).is_err(), "half a pair is not overwritten");
}

#[test]
fn errors_name_the_unusable_file() {
    let directory = Directory::new();
    let (good, _) = directory.made("good");
    let (other, _) = directory.made("other");
    let empty = directory.0.join("empty");
    fs::write(&empty, "").unwrap();
    let mixed = CertificateFiles { certificate: good.certificate.clone(), key: other.key.clone() };
    let bare = CertificateFiles { certificate: empty.clone(), key: good.key.clone() };
    let files = |pair: &CertificateFiles| TlsSettings {
        default_certificate: CertificateSource::Files(pair.clone()),
        ..TlsSettings::default()
    };
    for (settings, expected) in [
        (files(&directory.pair("missing")), "missing.crt: No such file"),
        (files(&mixed), "good.crt: "),
        (files(&bare), "empty: the file contains no certificate"),
        (TlsSettings { named_certificates: vec![(mixed.clone(), Vec::new())], ..TlsSettings::default() }, "good.crt: "),
        (
            TlsSettings { client_ca_file: Some(empty.clone()), ..TlsSettings::default() },
            "empty: the file contains no certificate",
        ),
        (
            TlsSettings { client_ca_file: Some(good.key.clone()), ..TlsSettings::default() },
            "good.key: the file contains no certificate",
        ),
    ] {
        let error = ReloadingTlsConfig::load(settings).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{error:?} lacks {expected:?}");
    }
}
