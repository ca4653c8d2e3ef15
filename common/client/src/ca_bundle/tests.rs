use super::*;

const CA: &str = include_str!("../../testdata/ca.crt");
const NEXT_CA: &str = include_str!("../../testdata/next-ca.crt");

/// The certificate of upstream's test of ClusterTrustBundles: its serial number is 0, and its dates are in the year 1.
const ZERO_CA: &str = include_str!("../../testdata/zero-ca.crt");

fn error(text: impl Into<Vec<u8>>) -> String {
    Bundle::parse(text.into()).unwrap_err()
}

fn block(block_type: &str, body: &str) -> String {
    format!("-----BEGIN {block_type}-----\n{body}\n-----END {block_type}-----\n")
}

/// SERVICEACCOUNT-7.
#[test]
fn certificates_are_usable_with_the_text_around_them() {
    let with_headers = block("CERTIFICATE", "Proc-Type: 4,ENCRYPTED\n\nAAAA");
    let windows = CA.replace('\n', "\r\n");
    for text in [
        CA.to_owned(),
        ZERO_CA.to_owned(),
        format!("{CA}{NEXT_CA}{CA}"),
        format!("# The authority of staging\n{CA}and the rest"),
        format!("{}{CA}", block("X509 CRL", "AAAA")),
        format!("{with_headers}{CA}"),
        windows,
    ] {
        let bundle = Bundle::parse(text.clone().into_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((bundle.text.as_str(), bundle.hash), (text.as_str(), sha256(text.as_bytes())));
    }
}

/// SERVICEACCOUNT-7.
#[test]
fn text_without_a_whole_certificate_is_unusable() {
    for text in ["", "no PEM", &block("X509 CRL", "AAAA"), &block("CERTIFICATE", "A: b\n\nAAAA")] {
        assert_eq!(error(text), "it has no PEM block CERTIFICATE", "{text}");
    }
    for text in [&CA[..CA.len() / 2], &format!("{NEXT_CA}{}", block("CERTIFICATE", "?")), "-----BEGIN ", "-----BEGIN x"]
    {
        assert!(error(text).contains("is incomplete, or not base64"), "{text}: {}", error(text));
    }
    let broken = format!("{CA}{}", block("CERTIFICATE", "AAAA"));
    assert!(error(broken.clone()).starts_with("its PEM block 2 is not an X.509 certificate: "), "{}", error(broken));
}

#[test]
fn a_certificate_that_is_cut_off_at_any_byte_is_none() {
    let body: String = CA.lines().filter(|line| !line.starts_with('-')).collect();
    let der = STANDARD.decode(body).unwrap();
    assert_eq!(check_certificate(&der), Ok(()));
    for length in 0..der.len() {
        assert!(check_certificate(&der[..length]).is_err(), "{length} bytes");
    }
    assert!(check_certificate(&[der, vec![0]].concat()).is_err());
}

/// SERVICEACCOUNT-31.
#[test]
fn what_must_not_reach_every_namespace_is_unusable() {
    for key in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "OPENSSH PRIVATE KEY"] {
        for text in [format!("{CA}{}", block(key, "AAAA")), format!("{CA}-----BEGIN {key}-----\nAAAA")] {
            assert!(error(text.clone()).contains("private key"), "{text}");
        }
    }
    let mut large = CA.to_owned();
    large.extend(std::iter::repeat_n('#', MAX_BUNDLE_BYTES - CA.len()));
    assert!(Bundle::parse(large.clone().into_bytes()).is_ok());
    large.push('#');
    assert!(error(large).contains("1 MiB"));
    assert_eq!(error([CA.as_bytes(), &[0xff]].concat()), "it is not UTF-8");
}

fn found(text: &str) -> Result<Bundle, String> {
    Bundle::parse(text.as_bytes().to_vec())
}

fn published(reads: &BundleReads) -> Option<&str> {
    reads.bundle.as_ref().map(|bundle| bundle.text.as_str())
}

/// SERVICEACCOUNT-28.
#[test]
fn a_changed_bundle_counts_when_it_is_found_twice() {
    let mut reads = BundleReads::default();
    assert_eq!((reads.add_read(found(CA)), published(&reads)), (true, Some(CA)));
    assert!(!reads.add_read(found(CA)));
    let both = format!("{CA}{NEXT_CA}");
    for text in [NEXT_CA, &both, NEXT_CA] {
        assert_eq!((reads.add_read(found(text)), published(&reads)), (false, Some(CA)));
    }
    assert_eq!((reads.add_read(found(NEXT_CA)), published(&reads)), (true, Some(NEXT_CA)));
    for text in [CA, NEXT_CA, CA, NEXT_CA] {
        assert_eq!((reads.add_read(found(text)), published(&reads)), (false, Some(NEXT_CA)));
    }
}

/// SERVICEACCOUNT-28, SERVICEACCOUNT-30.
#[test]
fn an_unusable_source_leaves_the_last_good_bundle() {
    let mut reads = BundleReads::default();
    let missing = || Err("missing".to_owned());
    assert_eq!((reads.add_read(missing()), published(&reads)), (false, None));
    assert_eq!(reads.problem.as_deref(), Some("missing"));
    // Only the first read of the process counts at once.
    assert_eq!((reads.add_read(found(CA)), published(&reads)), (false, None));
    assert_eq!(reads.problem, None);
    assert_eq!((reads.add_read(found(CA)), published(&reads)), (true, Some(CA)));
    assert_eq!((reads.add_read(missing()), published(&reads)), (false, Some(CA)));
    // A read between two of the same change begins again.
    for read in [found(NEXT_CA), missing(), found(NEXT_CA)] {
        assert_eq!((reads.add_read(read), published(&reads)), (false, Some(CA)));
    }
    assert_eq!((reads.add_read(found(NEXT_CA)), published(&reads)), (true, Some(NEXT_CA)));
}
