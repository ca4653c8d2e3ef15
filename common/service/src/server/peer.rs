//! Reads the user from a client certificate.
//!
//! The handshake has already verified the certificate. This module reads only its subject: the common name is the user, the
//! organizations are the groups.
//!
//! Upstream: `CommonNameUserConversion` of `k8s.io/apiserver`.

use super::access::User;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// DER tag of the field `version`, which certificates of version 1 lack.
const VERSION: u8 = 0xa0;
/// DER encodings of the object identifiers 2.5.4.3 and 2.5.4.10.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
/// DER tags of text types that need no conversion to UTF-8: `UTF8String`, `PrintableString`, `IA5String`.
const UTF8_COMPATIBLE_TAGS: [u8; 3] = [0x0c, 0x13, 0x16];

/// Returns the user that a certificate names; `None` without a common name, or if the certificate cannot be parsed.
pub(super) fn user_from_certificate(certificate: &[u8]) -> Option<User> {
    let (mut common_name, mut groups) = (None, Vec::new());
    let mut sets = subject(certificate)?;
    while let Some((SET, mut attributes)) = take_der_value(&mut sets) {
        while let Some((SEQUENCE, mut attribute)) = take_der_value(&mut attributes) {
            let (OBJECT_IDENTIFIER, kind) = take_der_value(&mut attribute)? else { return None };
            let (tag, value) = take_der_value(&mut attribute)?;
            let text = || {
                UTF8_COMPATIBLE_TAGS
                    .contains(&tag)
                    .then(|| std::str::from_utf8(value).ok())
                    .flatten()
                    .map(str::to_owned)
            };
            match kind {
                COMMON_NAME => common_name = Some(text()?),
                ORGANIZATION => groups.push(text()?),
                _ => {}
            }
        }
    }
    groups.push("system:authenticated".to_owned());
    let username = common_name.filter(|name| !name.is_empty())?;
    Some(User::with_name_and_groups(username, groups))
}

/// Returns the subject's attributes. The subject follows serial number, signature algorithm, issuer and validity.
fn subject(mut certificate: &[u8]) -> Option<&[u8]> {
    let (SEQUENCE, mut signed) = take_der_value(&mut certificate)? else { return None };
    let (SEQUENCE, mut fields) = take_der_value(&mut signed)? else { return None };
    let has_version = fields.first() == Some(&VERSION);
    let before = ["serial number", "signature algorithm", "issuer", "validity"].len() + usize::from(has_version);
    for _ in 0..before {
        take_der_value(&mut fields)?;
    }
    let (SEQUENCE, subject) = take_der_value(&mut fields)? else { return None };
    Some(subject)
}

/// Takes the first DER value off `bytes`, and returns its tag and content.
fn take_der_value<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match usize::from(*first) {
        short @ 0..0x80 => (short, rest),
        long => {
            let (digits, rest) = rest.split_at_checked(long & 0x7f)?;
            if digits.is_empty() || digits.len() > 4 {
                return None;
            }
            (digits.iter().fold(0, |length, digit| (length << 8) | usize::from(*digit)), rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some((*tag, content))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn certificate(subject: &[(rcgen::DnType, &str)]) -> Vec<u8> {
        let mut parameters = rcgen::CertificateParams::new(vec![]).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in subject {
            parameters.distinguished_name.push(kind.clone(), *value);
        }
        parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_common_name_is_the_user_and_the_organization_a_group() {
        use rcgen::DnType::{CommonName, CountryName, OrganizationName};
        let long = "x".repeat(300);
        let der = certificate(&[(CountryName, "DE"), (OrganizationName, "system:masters"), (CommonName, &long)]);
        let user = user_from_certificate(&der).unwrap();
        assert_eq!(user.into_name_and_groups(), (long, vec!["system:masters".into(), "system:authenticated".into()]));
    }

    #[test]
    fn a_certificate_without_a_common_name_has_no_user() {
        assert!(user_from_certificate(&certificate(&[(rcgen::DnType::OrganizationName, "system:masters")])).is_none());
        assert!(user_from_certificate(&certificate(&[(rcgen::DnType::CommonName, "")])).is_none());
    }

    proptest! {
        #[test]
        fn a_broken_certificate_causes_no_panic(cut in 0usize..600, flips in prop::collection::vec((0usize..600, any::<u8>()), 0..6)) {
            let mut der = certificate(&[(rcgen::DnType::CommonName, "me")]);
            for (at, byte) in flips {
                let at = at % der.len();
                der[at] = byte;
            }
            der.truncate(cut);
            // The call must not panic; every result is allowed.
            let _ = user_from_certificate(&der);
        }
    }
}
